"""The bill of materials and the labels of cables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.fabric.bill_of_materials import materials, medium
from gpuyard.fabric.demand import CableLengths, Demand
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.labels import cable_labels

CATALOG = load_catalog()
B200 = Demand(server_count=64, nic_bits_per_s=400e9, leaf="sn5600")


def built(demand: Demand) -> Fabric:
    """The fabric, which must be feasible."""
    fabric = design(demand, CATALOG)
    assert isinstance(fabric, Fabric), fabric
    return fabric


def test_bill_lists_every_switch_and_cable() -> None:
    fabric = built(B200)
    bill = materials(fabric, CATALOG)
    counts = {
        kind: sum(item.count for item in bill.items if item.kind == kind)
        for kind in ("switch", "cable")
    }
    assert counts["switch"] == fabric.size.switches
    assert counts["cable"] == fabric.size.node_leaf_cables + fabric.size.leaf_spine_cables


def test_power_lists_known_items_and_names_unknown_ones() -> None:
    bill = materials(built(B200), CATALOG)
    assert sum(item.total_w or 0.0 for item in bill.items) == pytest.approx(940 * 12)
    assert len(bill.unknown) == 4  # transceivers of NICs, leaves toward both sides, spines
    assert all("fibre" in what for what in bill.unknown)
    unknown = materials(built(replace(B200, leaf="qfx5240")), CATALOG)
    assert not any(item.total_w for item in unknown.items)
    assert any("QFX5240" in what for what in unknown.unknown)


def test_breakout_port_has_one_transceiver() -> None:
    fabric = built(replace(B200, leaf="qfx5240", server_count=128))
    transceivers = {
        item.what.rpartition(", in ")[2]: [] for item in materials(fabric, CATALOG).items
    }
    for item in materials(fabric, CATALOG).items:
        if item.kind == "transceiver":
            transceivers[item.what.rpartition(", in ")[2]].append(
                (item.what.partition(" ")[0], item.count)
            )
    assert transceivers["NICs"] == [("400Gbps", 1024)]
    assert transceivers["ports of leaf"] == [
        ("800Gbps", 512),
        ("800Gbps", 512),
    ]  # toward servers, toward spines
    assert transceivers["ports of spine"] == [("800Gbps", 512)]


def test_short_cables_are_copper_and_need_no_transceivers() -> None:
    bill = materials(built(replace(B200, cables=CableLengths(server_m=2, spine_m=2))), CATALOG)
    assert not [item for item in bill.items if item.kind == "transceiver"]
    assert bill.unknown == ()


@pytest.mark.parametrize(
    ("cable_m", "name"),
    [(2, "CR"), (2.1, "VR"), (50, "VR"), (100, "SR"), (101, "DR"), (2000, "FR")],
)
def test_medium_spans_the_cable_length(cable_m: float, name: str) -> None:
    assert name in medium(cable_m)


def test_two_planes_share_cables() -> None:
    fabric = built(replace(B200, nic_bits_per_s=800e9, planes=2))
    bill = materials(fabric, CATALOG)
    assert [item.count for item in bill.items if item.kind == "cable"] == [512, 512]
    assert "800Gbps as 2 x 400Gbps" in bill.items[2].what


def test_every_link_has_a_label_at_both_ends() -> None:
    fabric = built(B200)
    labels = list(cable_labels(fabric))
    assert len(labels) == len(fabric.topology.links)
    ends = {(link.a, link.b) for link in fabric.topology.links} | {
        (link.b, link.a) for link in fabric.topology.links
    }
    assert all((label.lower, label.upper) in ends for label in labels)
    assert len({label.lower_text for label in labels}) == len(labels)
    assert labels[0].lower_text == "R01/server-01:gpu0_eth > N1/leaf-s1-r1:swp1s0"
    assert labels[0].upper_text == "N1/leaf-s1-r1:swp1s0 > R01/server-01:gpu0_eth"
