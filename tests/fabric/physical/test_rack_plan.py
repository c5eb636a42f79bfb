"""The physical plan: racks within limits, routes, media, the order, and its findings."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric.demand import AttachedHosts, Demand
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.machine_demands import demand_for, for_purpose, with_switches
from gpuyard.fabric.physical.rack_plan import RackPlan, airflow_m3_per_s, rack_plan
from gpuyard.fabric.physical.racks import RackSettings
from gpuyard.fabric.physical.routes import STOCK_M, Position, ordered_m, route_m

CATALOG = load_catalog()
DGX = demand_for(CATALOG.machine("dgx-h100"), 32)
DEMANDS = (
    replace(DGX, leaf="sn5600"),
    replace(DGX, leaf="sn5600", planes=2),
    replace(DGX, leaf="qm9700", server_count=40),
    replace(DGX, leaf="qfx5240", rails_per_leaf=2, machine=None),
    replace(for_purpose(DGX, "storage"), attached=(AttachedHosts(name="vast", count=6),)),
    for_purpose(DGX, "management"),
    demand_for(CATALOG.machine("gb200-nvl72"), 4),
)


def planned(demand: Demand, rack: RackSettings | None = None) -> tuple[Fabric, RackPlan]:
    """A designed fabric and its plan, both feasible."""
    fabric = design(demand, CATALOG)
    assert isinstance(fabric, Fabric), fabric
    plan = rack_plan([fabric], CATALOG, rack)
    assert isinstance(plan, RackPlan), plan
    return fabric, plan


@pytest.mark.parametrize("demand", DEMANDS, ids=lambda demand: f"{demand.purpose}-{demand.leaf}")
def test_every_device_has_one_place_and_every_link_a_cable(demand: Demand) -> None:
    fabric, plan = planned(demand)
    slots = [slot for rack in plan.racks for slot in rack.slots]
    assert Counter(slot.device for slot in slots) == Counter(d.name for d in fabric.devices)
    assert len({rack.name for rack in plan.racks}) == len(plan.racks)
    assert len({(rack.row, rack.place) for rack in plan.racks}) == len(plan.racks)
    assert len(plan.cables) == len(fabric.topology.links)
    assert [cable.number for cable in plan.cables] == [*range(1, len(plan.cables) + 1)]
    for cable in plan.cables:
        assert cable.length_m >= cable.route_m
        assert f"/{cable.lower.node}:{cable.lower.port} > " in cable.lower_label


@settings(max_examples=15)
@given(
    units=st.integers(min_value=12, max_value=52),
    power_kw=st.sampled_from([None, 11, 25, 50]),
    per_row=st.integers(min_value=1, max_value=9),
)
def test_racks_stay_within_units_and_power(units: int, power_kw: int | None, per_row: int) -> None:
    rack = RackSettings(units=units, power_w=power_kw and power_kw * 1e3, racks_per_row=per_row)
    _, plan = planned(DEMANDS[0], rack)
    for placed in plan.racks:
        assert placed.place <= per_row
        taken = [unit for slot in placed.slots for unit in range(slot.unit, slot.top_unit + 1)]
        assert len(set(taken)) == len(taken)
        assert min(taken) >= 1
        assert max(taken) <= units
        own_w = sum(slot.power_w or 0 for slot in placed.slots)
        assert power_kw is None or own_w <= power_kw * 1e3


def test_device_larger_than_a_rack_is_infeasible() -> None:
    fabric = design(DEMANDS[0], CATALOG)
    assert isinstance(fabric, Fabric)
    for rack in (RackSettings(units=6), RackSettings(power_w=9e3)):
        assert isinstance(rack_plan([fabric], CATALOG, rack), Infeasible)


def test_a_network_given_twice_is_wrong_input() -> None:
    fabric = design(DEMANDS[5], CATALOG)
    assert isinstance(fabric, Fabric)
    with pytest.raises(InputError, match="management network"):
        rack_plan([fabric, fabric], CATALOG)


def test_a_rack_above_its_limit_with_transceivers_is_a_warning() -> None:
    _, plan = planned(DEMANDS[0], RackSettings(power_w=11e3))
    hot = [finding for finding in plan.findings if finding.rule == "rack-power"]
    assert {finding.where for finding in hot} == {
        rack.name for rack in plan.racks if rack.power_w > 11e3
    }
    assert hot


def test_routes_go_over_the_tray() -> None:
    rack = RackSettings(units=40, tray_m=0.2, slack_m=0.5)
    low = Position(rack="A", unit=1, x_m=1, y_m=3, z_m=0.5)
    high = Position(rack="A", unit=30, x_m=1, y_m=3, z_m=1.5)
    far = Position(rack="B", unit=30, x_m=7, y_m=6, z_m=1.5)
    assert route_m(low, high, rack) == pytest.approx(1 + 1)
    top_m = 40 * 0.04445 + 0.2
    assert route_m(high, far, rack) == pytest.approx(2 * (top_m - 1.5) + 6 + 3 + 1)
    assert route_m(high, far, rack) == route_m(far, high, rack)


@given(length_m=st.floats(min_value=0, max_value=900))
def test_ordered_length_is_the_shortest_that_reaches(length_m: float) -> None:
    order_m = ordered_m(length_m)
    assert order_m >= length_m - 1e-6
    assert not any(length_m <= stock_m < order_m for stock_m in STOCK_M)


def test_order_counts_a_transceiver_per_cage_and_a_fibre_per_link() -> None:
    fabric, plan = planned(DEMANDS[0])
    lines = {(line.kind, line.what): line for line in plan.order}
    switches = sum(line.count for line in plan.order if line.kind == "switch")
    assert switches == len(fabric.switches)
    servers = lines["transceiver", "2 x 400Gbps, multimode fibre, in SN5600 toward NICs"]
    between = lines["transceiver", "2 x 400Gbps, multimode fibre, in SN5600 toward switches"]
    assert (servers.part, servers.count, servers.unit_w) == ("MMA4Z00-NS-T", 128, 15)
    assert between.count == 2 * 128
    assert (
        lines["transceiver", "2 x 400Gbps, multimode fibre, in NICs toward switches"].count == 128
    )
    fibres = [line for line in plan.order if line.what.startswith("multimode")]
    assert sum(line.count for line in fibres) == len(plan.cables)


def test_rack_power_includes_the_optics_of_switches() -> None:
    _, plan = planned(DEMANDS[0])
    leaves = next(rack for rack in plan.racks if rack.kind == "leaves")
    optics_w = 8 * 32 * 15  # 8 leaves with 16 ports to servers and 16 to spines
    assert leaves.power_w == 8 * 940 + optics_w
    assert sum(rack.power_w for rack in plan.racks) == plan.power_w
    _, quantum = planned(DEMANDS[2])
    spine = next(rack for rack in quantum.racks if rack.kind == "spines").slots[0]
    assert (spine.power_w, spine.optics_w) == (1720, 0)


def test_short_links_to_servers_are_copper_splitters() -> None:
    near = RackSettings(units=60, rack_width_m=0.01, tray_m=0, slack_m=0.1)
    single = replace(DGX, leaf="sn5600", server_count=4, shape="single-leaf", machine=None)
    _, plan = planned(single, replace(near, server_units=2))
    copper = [line for line in plan.order if line.part.startswith("MCP7Y00")]
    assert sum(line.count for line in copper) == 16  # a cable splits a port to two NICs
    assert not [line for line in plan.order if line.kind == "transceiver"]


def test_longer_routes_than_designed_are_found_with_the_design_that_fits() -> None:
    _, plan = planned(DEMANDS[0])
    assert [finding.rule for finding in plan.findings] == ["cable-length"]
    assert "--server-cable 10m" in plan.findings[0].fix
    longer = replace(DEMANDS[0], cables=replace(DGX.cables, server_m=10))
    assert planned(longer)[1].findings == ()


def test_prices_come_from_a_layer() -> None:
    fabric, plan = planned(DEMANDS[0])
    assert plan.price_usd == 0
    priced = replace(
        CATALOG,
        switches=tuple(
            replace(switch, price_usd=50_000.0) if switch.name == "sn5600" else switch
            for switch in CATALOG.switches
        ),
    )
    again = rack_plan([fabric], priced)
    assert isinstance(again, RackPlan)
    assert again.price_usd == 12 * 50_000


def test_airflow_carries_the_heat_away() -> None:
    assert airflow_m3_per_s(18_090) == pytest.approx(1.0)


def test_networks_of_the_same_servers_share_one_plan() -> None:
    backend = design(DEMANDS[0], CATALOG)
    assert isinstance(backend, Fabric)
    storage = design(DEMANDS[4], CATALOG)
    assert isinstance(storage, Fabric)
    management = design(with_switches(for_purpose(DGX, "management"), backend), CATALOG)
    assert isinstance(management, Fabric)
    fabrics = (backend, storage, management)
    plan = rack_plan(fabrics, CATALOG)
    assert isinstance(plan, RackPlan)
    names = {device.name for fabric in fabrics for device in fabric.devices}
    assert sorted(slot.device for rack in plan.racks for slot in rack.slots) == sorted(names)
    assert [cable.number for cable in plan.cables] == [*range(1, len(plan.cables) + 1)]
    shared = [rack for rack in plan.racks if rack.kind == "leaves"]
    assert len(shared) == 1  # leaves of all networks, which fill half of a rack at most
    assert shared[0].used_units <= 24
    reached = {cable.lower.node for cable in plan.cables if cable.upper.node == "mgmt-leaf-1"}
    assert {"spine-1", "leaf-s1-r8", "server-32"} <= reached
    twisted = [line for line in plan.order if "twisted pair" in line.what]
    assert sum(line.count for line in twisted) == 32 + len(backend.switches)
    assert len({replace(line, count=0) for line in plan.order}) == len(plan.order)
