"""The files and the page of a rack plan hold every device and link."""

from __future__ import annotations

import csv
import io
import json
import re

from gpuyard.catalog.load import load_catalog
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.physical.rack_plan import RackPlan, rack_plan
from gpuyard.report.rack_files import rack_files
from gpuyard.report.rack_page import order_table, plan_facts

CATALOG = load_catalog()


def _plan() -> tuple[Fabric, RackPlan]:
    demand = Demand(server_count=9, nic_bits_per_s=400e9, leaf="sn5600", shape="two-tier")
    fabric = design(demand, CATALOG)
    assert isinstance(fabric, Fabric)
    plan = rack_plan([fabric], CATALOG)
    assert isinstance(plan, RackPlan)
    return fabric, plan


def test_files_hold_every_rack_device_cable_and_line() -> None:
    fabric, plan = _plan()
    files = dict(rack_files(plan, "<plan>"))
    rows = {
        name: [*csv.DictReader(io.StringIO(text))]
        for name, text in files.items()
        if name.endswith(".csv")
    }
    assert len(rows["racks.csv"]) == len(plan.racks)
    assert len(rows["elevations.csv"]) == len(fabric.devices)
    assert len(rows["cables.csv"]) == len(fabric.topology.links)
    assert len(rows["order.csv"]) == len(plan.order)
    saved = json.loads(files["plan.json"])
    assert saved["cable_count"] == len(plan.cables)
    assert len(saved["racks"]) == len(plan.racks)


def test_page_embeds_devices_and_links_for_the_drill_down() -> None:
    fabric, plan = _plan()
    text = dict(rack_files(plan, "<plan>"))["plan.html"]
    assert "<title>&lt;plan&gt;</title>" in text
    match = re.search(r'id="rack-plan">(.*?)</script>', text, re.DOTALL)
    assert match is not None
    data = json.loads(match[1])
    assert {row[0] for row in data["devices"]} == {device.name for device in fabric.devices}
    links = data["links"]
    pairs = {
        frozenset(
            (
                (data["devices"][a][0], data["ports"][pa]),
                (data["devices"][b][0], data["ports"][pb]),
            )
        )
        for a, pa, b, pb in zip(links["a"], links["pa"], links["b"], links["pb"], strict=True)
    }
    assert pairs == {
        frozenset((end.node, end.port) for end in link.ends) for link in fabric.topology.links
    }


def test_tables_state_what_is_not_known() -> None:
    _, plan = _plan()
    facts = {row[0]: row[1] for row in plan_facts(plan).rows}
    assert facts["power"].startswith("at least")  # the servers have no machine
    assert facts["price"].startswith("no prices")
    assert {row[5] for row in order_table(plan).rows} == {"–"}
