from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gpuyard.topology.diff import LinkChange, Miswiring, NodeChange, TopologyDiff, diff
from gpuyard.topology.links import Link
from gpuyard.topology.nodes import Node, Port
from gpuyard.topology.topology import Topology

from .shapes import link, pairs, rail_fabric, topologies

DESIGN = rail_fabric(stripes=1, servers=2, rails=2, spines=2)


def rewired(lost: tuple[Link, ...], extra: tuple[Link, ...], design: Topology = DESIGN) -> Topology:
    """The topology with some cables taken out and others put in."""
    return replace(design, links=(*design.without(links=lost).links, *extra))


def turned(difference: TopologyDiff) -> TopologyDiff:
    """The diff as seen from the other side."""
    return TopologyDiff(
        missing_nodes=difference.extra_nodes,
        extra_nodes=difference.missing_nodes,
        changed_nodes=tuple(
            NodeChange(design=one.built, built=one.design) for one in difference.changed_nodes
        ),
        missing_links=difference.extra_links,
        extra_links=difference.missing_links,
        miswired=tuple(
            Miswiring(at=one.at, design=one.built, built=one.design, swapped_with=one.swapped_with)
            for one in difference.miswired
        ),
        changed_links=tuple(
            LinkChange(design=one.built, built=one.design) for one in difference.changed_links
        ),
    )


def applied(built: Topology, difference: TopologyDiff) -> Topology:
    """What was built, after everything that the diff tells is put right."""
    renewed = {one.built for one in (*difference.miswired, *difference.changed_links)}
    altered = {one.built for one in difference.changed_nodes}
    return Topology(
        nodes=(
            *(
                node
                for node in built.nodes
                if node not in altered and node not in difference.extra_nodes
            ),
            *difference.missing_nodes,
            *(one.design for one in difference.changed_nodes),
        ),
        links=(
            *(
                one
                for one in built.links
                if one not in renewed and one not in difference.extra_links
            ),
            *difference.missing_links,
            *(one.design for one in (*difference.miswired, *difference.changed_links)),
        ),
    )


@given(pairs())
def test_diff_is_empty_if_and_only_if_equal(pair: tuple[Topology, Topology]) -> None:
    design, built = pair
    difference = diff(design, built)
    assert difference.is_empty == (design == built)
    assert bool(difference.lines()) == (design != built)


@given(topologies())
def test_topology_does_not_differ_from_itself(topology: Topology) -> None:
    copy = Topology(nodes=topology.nodes[::-1], links=topology.links[::-1])
    assert diff(topology, copy) == TopologyDiff()
    assert diff(topology, copy).lines() == ()


@given(pairs())
def test_swapping_arguments_swaps_missing_and_extra(pair: tuple[Topology, Topology]) -> None:
    design, built = pair
    assert diff(built, design) == turned(diff(design, built))


@given(pairs())
def test_applying_the_diff_restores_the_design(pair: tuple[Topology, Topology]) -> None:
    design, built = pair
    assert applied(built, diff(design, built)) == design


@given(topologies(), st.data())
def test_removed_links_are_missing_and_nothing_else(
    topology: Topology, data: st.DataObject
) -> None:
    lost = (
        data.draw(st.lists(st.sampled_from(topology.links), unique=True)) if topology.links else []
    )
    difference = diff(topology, topology.without(links=lost))
    assert set(difference.missing_links) == set(lost)
    assert difference == TopologyDiff(missing_links=difference.missing_links)


@given(pairs())
def test_miswired_cable_has_one_correct_end(pair: tuple[Topology, Topology]) -> None:
    design, built = pair
    difference = diff(design, built)
    for one in difference.miswired:
        assert one.at in one.design.ends
        assert one.at in one.built.ends
        assert one.expected != one.actual
    ends = {end for one in difference.missing_links for end in one.ends}
    assert ends.isdisjoint(end for one in difference.extra_links for end in one.ends)


def test_swapped_rails_are_reported_as_swapped() -> None:
    first, second = link("server0.0 gpu0", "leaf0.0 down0"), link("server0.0 gpu1", "leaf0.1 down0")
    built = rewired(
        (first, second),
        (link("server0.0 gpu0", "leaf0.1 down0"), link("server0.0 gpu1", "leaf0.0 down0")),
    )
    difference = diff(DESIGN, built)
    assert difference.lines() == (
        "miswired: server0.0 gpu0: leaf0.0 down0 expected, leaf0.1 down0 found (swapped with server0.0 gpu1)",
        "miswired: server0.0 gpu1: leaf0.1 down0 expected, leaf0.0 down0 found (swapped with server0.0 gpu0)",
    )


def test_swapped_ports_of_one_leaf_are_reported_as_swapped() -> None:
    first, second = link("server0.0 gpu0", "leaf0.0 down0"), link("server0.1 gpu0", "leaf0.0 down1")
    built = rewired(
        (first, second),
        (link("server0.0 gpu0", "leaf0.0 down1"), link("server0.1 gpu0", "leaf0.0 down0")),
    )
    assert [str(one.swapped_with) for one in diff(DESIGN, built).miswired] == [
        "server0.1 gpu0",
        "server0.0 gpu0",
    ]


def test_three_rotated_cables_are_not_a_swap() -> None:
    design = rail_fabric(stripes=1, servers=1, rails=3, spines=0)
    built = rewired(
        design.links,
        tuple(link(f"server0.0 gpu{rail}", f"leaf0.{(rail + 1) % 3} down0") for rail in range(3)),
        design,
    )
    assert [
        (str(one.at), str(one.actual), one.swapped_with) for one in diff(design, built).miswired
    ] == [
        ("server0.0 gpu0", "leaf0.1 down0", None),
        ("server0.0 gpu1", "leaf0.2 down0", None),
        ("server0.0 gpu2", "leaf0.0 down0", None),
    ]


def test_server_end_is_taken_as_correct() -> None:
    taken = link("server0.0 gpu0", "leaf0.0 down0"), link("server0.1 gpu0", "leaf0.0 down1")
    difference = diff(DESIGN, rewired(taken, (link("server0.0 gpu0", "leaf0.0 down1"),)))
    assert difference.lines() == (
        "missing: leaf0.0 down1 – server0.1 gpu0, 400Gbps",
        "miswired: server0.0 gpu0: leaf0.0 down0 expected, leaf0.0 down1 found",
    )


def test_cable_in_a_free_port_of_the_same_leaf_is_miswired() -> None:
    difference = diff(
        DESIGN,
        rewired(
            (link("server0.0 gpu0", "leaf0.0 down0"),),
            (link("server0.0 gpu0", "leaf0.0 down7", 200e9, 3),),
        ),
    )
    line = (
        "miswired: server0.0 gpu0: leaf0.0 down0 expected, leaf0.0 down7 found; "
        "400Gbps expected, 200Gbps found; length unknown expected, 3m found"
    )
    assert difference.lines() == (line,)


def test_missing_and_extra_nodes_count_their_cables_in_one_line() -> None:
    smaller = DESIGN.without(nodes=["spine1"])
    assert diff(DESIGN, smaller).lines() == ("missing: spine1 (spine) with 2 cables",)
    assert len(diff(DESIGN, smaller).missing_links) == 2
    assert diff(smaller, DESIGN).lines() == ("extra: spine1 (spine) with 2 cables",)
    lone = Topology(nodes=(Node(name="x", role="core"),), links=())
    assert diff(lone, Topology(nodes=(), links=())).lines() == ("missing: x (core)",)
    leafless = rail_fabric(stripes=1, servers=1, rails=1, spines=0)
    assert diff(leafless, leafless.without(nodes=["leaf0.0"])).lines() == (
        "missing: leaf0.0 (leaf) with 1 cable",
    )


def test_missing_and_extra_cables_are_listed() -> None:
    cut = link("leaf0.0 up0.0", "spine0 leaf0.0.0")
    more = link("leaf0.0 up9", "spine1 x", 800e9)
    assert diff(DESIGN, rewired((cut,), (more,))).lines() == (
        "missing: leaf0.0 up0.0 – spine0 leaf0.0.0, 400Gbps",
        "extra: leaf0.0 up9 – spine1 x, 800Gbps",
    )


def test_changed_speed_and_length_are_reported() -> None:
    cable = link("leaf0.0 up0.0", "spine0 leaf0.0.0")
    slower = replace(cable, speed_bits_per_s=200e9)
    longer = replace(cable, cable_m=30)
    assert diff(DESIGN, rewired((cable,), (slower,))).lines() == (
        "changed: leaf0.0 up0.0 – spine0 leaf0.0.0: 400Gbps expected, 200Gbps found",
    )
    assert diff(DESIGN, rewired((cable,), (longer,))).lines() == (
        "changed: leaf0.0 up0.0 – spine0 leaf0.0.0: length unknown expected, 30m found",
    )
    nearly = replace(cable, speed_bits_per_s=400e9 + 1)
    assert diff(DESIGN, rewired((cable,), (nearly,))).lines() == (
        "changed: leaf0.0 up0.0 – spine0 leaf0.0.0: 400000000000.0 bits per s expected, 400000000001.0 bits per s found",
    )


def test_changed_node_fields_are_reported() -> None:
    before = Node(name="a", role="leaf", rail=0, ports=(Port(name="p0"), Port(name="p1", rail=1)))
    after = Node(
        name="a",
        role="spine",
        plane=1,
        ports=(Port(name="p0"), Port(name="p1", rail=2, plane=0)),
        attributes=(("rack", "A1"),),
    )
    difference = diff(Topology(nodes=(before,), links=()), Topology(nodes=(after,), links=()))
    line = (
        "changed: a: role leaf expected, spine found; rail 0 expected, none found; plane none expected, 1 found; "
        "ports p1 rail 1 expected, p1 rail 2 plane 0 found; attributes none expected, rack=A1 found"
    )
    assert difference.lines() == (line,)


@given(pairs())
def test_diff_prints_one_line_per_difference(pair: tuple[Topology, Topology]) -> None:
    design, built = pair
    difference = diff(design, built)
    gone = {node.name for node in (*difference.missing_nodes, *difference.extra_nodes)}
    alone = [
        one
        for one in (*difference.missing_links, *difference.extra_links)
        if gone.isdisjoint((one.a.node, one.b.node))
    ]
    others = (
        difference.missing_nodes,
        difference.extra_nodes,
        difference.changed_nodes,
        difference.miswired,
        difference.changed_links,
        alone,
    )
    assert len(difference.lines()) == sum(map(len, others))
    assert all(line.isprintable() for line in difference.lines())
