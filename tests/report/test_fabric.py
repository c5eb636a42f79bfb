"""Drawing and page of a fabric: no overlaps, findings marked, no external resources."""

from __future__ import annotations

import itertools
import json
import re
from xml.etree import ElementTree

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.verify.verify import verify, verify_topology
from gpuyard.report.fabric import checks_table, facts_table, findings_table
from gpuyard.report.fabric_page import fabric_page, marks_of, topology_page
from gpuyard.report.fabric_scene import scene
from gpuyard.report.fabric_svg import fabric_svg, topology_svg
from gpuyard.report.page import asset
from gpuyard.topology.topology import Topology

CATALOG = load_catalog()
DEMANDS = {
    "8 GPUs": Demand(server_count=1, nic_bits_per_s=400e9, leaf="sn5600", shape="two-tier"),
    "one leaf": Demand(server_count=4, nic_bits_per_s=400e9, leaf="sn5600", shape="single-leaf"),
    "rail only": Demand(server_count=64, nic_bits_per_s=400e9, leaf="sn5600", shape="rail-only"),
    "1,024 GPUs": Demand(server_count=128, nic_bits_per_s=400e9, leaf="qfx5240-64od"),
    "two planes": Demand(server_count=256, nic_bits_per_s=800e9, leaf="sn5600", planes=2),
    "three tiers": Demand(
        server_count=600, nic_bits_per_s=400e9, leaf="sn5600", shape="three-tier"
    ),
}


def fabric(name: str) -> Fabric:
    """Design the fabric of a named demand."""
    designed = design(DEMANDS[name], CATALOG)
    assert isinstance(designed, Fabric)
    return designed


@pytest.mark.parametrize("marked", [0, 60])
@pytest.mark.parametrize("name", DEMANDS)
def test_boxes_do_not_overlap_and_stay_inside(name: str, marked: int) -> None:
    topology = fabric(name).topology
    drawn = scene(topology, [node.name for node in topology.nodes[3::7]][:marked])
    for box in drawn.boxes:
        assert box.x >= 0
        assert box.x + box.width <= drawn.width
        assert box.y + box.height <= drawn.height
    for one, other in itertools.combinations(drawn.boxes, 2):
        separate = (
            one.x + one.width <= other.x
            or other.x + other.width <= one.x
            or one.y + one.height <= other.y
            or other.y + other.height <= one.y
        )
        assert separate, (one, other)


@pytest.mark.parametrize("name", DEMANDS)
def test_drawing_is_well_formed_and_small(name: str) -> None:
    text = fabric_svg(fabric(name))
    ElementTree.fromstring(text)
    assert len(text) < 250_000
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_large_fabric_is_abridged_with_counts() -> None:
    whole = fabric("three tiers")
    drawn = scene(whole.topology)
    assert any("more" in line for gap in drawn.gaps for line in gap.lines)
    boxes = [box.name for box in drawn.boxes]
    assert len(boxes) < 80 < len(whole.devices)
    assert len(boxes) == len(set(boxes))


def test_drawing_is_deterministic() -> None:
    assert fabric_svg(fabric("1,024 GPUs")) == fabric_svg(fabric("1,024 GPUs"))


def test_drawn_links_cover_all_links() -> None:
    whole = fabric("8 GPUs").topology
    drawn = scene(whole)
    assert sum(cable.count for cable in drawn.cables) == len(whole.links)
    server = [cable for cable in drawn.cables if cable.lower.startswith("server")]
    assert sorted(cable.rail or 0 for cable in server) == list(range(8))


def test_page_has_devices_and_addresses_and_no_external_resources() -> None:
    whole = fabric("1,024 GPUs")
    text = fabric_page(whole, verify(whole, CATALOG), "a </script> title")
    assert "a </script> title" not in text
    assert not re.search(r'(src|href)="(?!#)', text)
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    data = json.loads(re.search(r'id="fabric-data">(.*?)</script>', text, re.DOTALL)[1])  # type: ignore[index]
    assert set(data["devices"]) == {device.name for device in whole.devices}
    leaf = whole.of_role("leaf")[0]
    port = leaf.interfaces[0]
    shown = [port.port, port.peer.node, port.peer.port, port.address, "400Gbps"]
    assert shown in data["devices"][leaf.name]["ports"]
    assert ["AS", str(leaf.asn)] in data["devices"][leaf.name]["facts"]


def test_script_of_the_page_has_no_broken_string() -> None:
    for line in asset("fabric.js").splitlines():
        assert line.count('"') % 2 == 0, line  # no JavaScript string literal spans two lines


def test_cabling_without_design_has_a_page() -> None:
    topology = fabric("8 GPUs").topology
    cut = topology.without(nodes=["spine-1"])
    text = topology_page(cut, verify_topology(cut), "as built")
    assert "3 spines" in text
    assert "as built" in topology_svg(cut, "as built")


def test_findings_mark_their_devices() -> None:
    topology = fabric("8 GPUs").topology
    lost = next(
        link for link in topology.links if link.a.node == "leaf-s1-r1" and "spine" in link.b.node
    )
    cut = Topology(
        nodes=topology.nodes, links=tuple(link for link in topology.links if link != lost)
    )
    marks = marks_of(verify_topology(cut).findings, {node.name for node in cut.nodes})
    assert marks["leaf-s1-r1"] == "error"
    assert "#d1242f" in topology_svg(cut, "", marks)


def test_marked_device_is_always_drawn() -> None:
    topology = fabric("three tiers").topology
    leaf = sorted(node.name for node in topology.nodes if node.role == "leaf")[40]
    assert leaf not in {box.name for box in scene(topology).boxes}
    drawn = scene(topology, [leaf])
    assert leaf in {box.name for box in drawn.boxes}
    boxes = {box.name for box in drawn.boxes}
    assert len(boxes) == len(drawn.boxes)


def test_tables_have_sizes_findings_and_checks() -> None:
    whole = fabric("1,024 GPUs")
    verification = verify(whole, CATALOG)
    assert ("leaves", "16 × qfx5240-64od") in facts_table(whole).rows
    assert findings_table(verification).notes[0].endswith("0 errors, 0 warnings")
    assert len(checks_table(verification).rows) == len(verification.checks)
