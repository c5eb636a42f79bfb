from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gpuyard.topology import Link, LinkChange, Miswiring, Node, NodeChange, Port, Topology, TopologyDiff, diff

from .shapes import link, pairs, rail_fabric, topologies

DESIGN = rail_fabric(stripes=1, servers=2, rails=2, spines=2)


def rewired(lost: tuple[Link, ...], found: tuple[Link, ...], design: Topology = DESIGN) -> Topology:
    """The topology with some cables taken out and others put in."""
    return replace(design, links=(*design.without(links=lost).links, *found))


def turned(told: TopologyDiff) -> TopologyDiff:
    """The diff as seen from the other side."""
    return TopologyDiff(
        missing_nodes=told.extra_nodes,
        extra_nodes=told.missing_nodes,
        changed_nodes=tuple(NodeChange(design=one.built, built=one.design) for one in told.changed_nodes),
        missing_links=told.extra_links,
        extra_links=told.missing_links,
        miswired=tuple(
            Miswiring(at=one.at, design=one.built, built=one.design, swapped_with=one.swapped_with)
            for one in told.miswired
        ),
        changed_links=tuple(LinkChange(design=one.built, built=one.design) for one in told.changed_links),
    )


def mended(built: Topology, told: TopologyDiff) -> Topology:
    """What was built, after everything that the diff tells is put right."""
    renewed = {one.built for one in (*told.miswired, *told.changed_links)}
    altered = {one.built for one in told.changed_nodes}
    return Topology(
        nodes=(
            *(node for node in built.nodes if node not in altered and node not in told.extra_nodes),
            *told.missing_nodes,
            *(one.design for one in told.changed_nodes),
        ),
        links=(
            *(one for one in built.links if one not in renewed and one not in told.extra_links),
            *told.missing_links,
            *(one.design for one in (*told.miswired, *told.changed_links)),
        ),
    )


@given(pairs())
def test_empty_if_and_only_if_equal(pair: tuple[Topology, Topology]) -> None:
    design, built = pair
    told = diff(design, built)
    assert told.is_empty == (design == built)
    assert bool(told.lines()) == (design != built)


@given(topologies())
def test_nothing_differs_from_itself(topology: Topology) -> None:
    copy = Topology(nodes=topology.nodes[::-1], links=topology.links[::-1])
    assert diff(topology, copy) == TopologyDiff()
    assert diff(topology, copy).lines() == ()


@given(pairs())
def test_the_other_way_round_missing_is_extra(pair: tuple[Topology, Topology]) -> None:
    design, built = pair
    assert diff(built, design) == turned(diff(design, built))


@given(pairs())
def test_the_diff_is_all_that_differs(pair: tuple[Topology, Topology]) -> None:
    design, built = pair
    assert mended(built, diff(design, built)) == design


@given(topologies(), st.data())
def test_what_was_taken_away_is_missing_and_nothing_else(topology: Topology, data: st.DataObject) -> None:
    lost = data.draw(st.lists(st.sampled_from(topology.links), unique=True)) if topology.links else []
    told = diff(topology, topology.without(links=lost))
    assert set(told.missing_links) == set(lost)
    assert told == TopologyDiff(missing_links=told.missing_links)


@given(pairs())
def test_a_miswired_cable_keeps_one_end(pair: tuple[Topology, Topology]) -> None:
    design, built = pair
    told = diff(design, built)
    for one in told.miswired:
        assert one.at in one.design.ends
        assert one.at in one.built.ends
        assert one.expected != one.found
    ends = {end for one in told.missing_links for end in one.ends}
    assert ends.isdisjoint(end for one in told.extra_links for end in one.ends)


def test_swapped_rails() -> None:
    first, second = link("server0.0 gpu0", "leaf0.0 down0"), link("server0.0 gpu1", "leaf0.1 down0")
    built = rewired((first, second), (link("server0.0 gpu0", "leaf0.1 down0"), link("server0.0 gpu1", "leaf0.0 down0")))
    told = diff(DESIGN, built)
    assert told.lines() == (
        "miswired: server0.0 gpu0: leaf0.0 down0 expected, leaf0.1 down0 found (swapped with server0.0 gpu1)",
        "miswired: server0.0 gpu1: leaf0.1 down0 expected, leaf0.0 down0 found (swapped with server0.0 gpu0)",
    )


def test_swapped_ports_of_one_leaf() -> None:
    first, second = link("server0.0 gpu0", "leaf0.0 down0"), link("server0.1 gpu0", "leaf0.0 down1")
    built = rewired((first, second), (link("server0.0 gpu0", "leaf0.0 down1"), link("server0.1 gpu0", "leaf0.0 down0")))
    assert [str(one.swapped_with) for one in diff(DESIGN, built).miswired] == ["server0.1 gpu0", "server0.0 gpu0"]


def test_three_cables_in_a_ring_are_no_swap() -> None:
    design = rail_fabric(stripes=1, servers=1, rails=3, spines=0)
    built = rewired(
        design.links,
        tuple(link(f"server0.0 gpu{rail}", f"leaf0.{(rail + 1) % 3} down0") for rail in range(3)),
        design,
    )
    assert [(str(one.at), str(one.found), one.swapped_with) for one in diff(design, built).miswired] == [
        ("server0.0 gpu0", "leaf0.1 down0", None),
        ("server0.0 gpu1", "leaf0.2 down0", None),
        ("server0.0 gpu2", "leaf0.0 down0", None),
    ]


def test_the_server_end_is_the_one_trusted() -> None:
    taken = link("server0.0 gpu0", "leaf0.0 down0"), link("server0.1 gpu0", "leaf0.0 down1")
    told = diff(DESIGN, rewired(taken, (link("server0.0 gpu0", "leaf0.0 down1"),)))
    assert told.lines() == (
        "missing: leaf0.0 down1 – server0.1 gpu0, 400Gbps",
        "miswired: server0.0 gpu0: leaf0.0 down0 expected, leaf0.0 down1 found",
    )


def test_a_free_port_on_the_same_leaf() -> None:
    told = diff(
        DESIGN,
        rewired((link("server0.0 gpu0", "leaf0.0 down0"),), (link("server0.0 gpu0", "leaf0.0 down7", 200e9, 3),)),
    )
    line = (
        "miswired: server0.0 gpu0: leaf0.0 down0 expected, leaf0.0 down7 found; "
        "400Gbps expected, 200Gbps found; length unknown expected, 3m found"
    )
    assert told.lines() == (line,)


def test_missing_and_extra_nodes_count_their_cables() -> None:
    smaller = DESIGN.without(nodes=["spine1"])
    assert diff(DESIGN, smaller).lines() == ("missing: spine1 (spine) with 2 cables",)
    assert len(diff(DESIGN, smaller).missing_links) == 2
    assert diff(smaller, DESIGN).lines() == ("extra: spine1 (spine) with 2 cables",)
    lone = Topology(nodes=(Node(name="x", role="core"),), links=())
    assert diff(lone, Topology(nodes=(), links=())).lines() == ("missing: x (core)",)
    leafless = rail_fabric(stripes=1, servers=1, rails=1, spines=0)
    assert diff(leafless, leafless.without(nodes=["leaf0.0"])).lines() == ("missing: leaf0.0 (leaf) with 1 cable",)


def test_missing_and_extra_cables() -> None:
    cut = link("leaf0.0 up0.0", "spine0 leaf0.0.0")
    more = link("leaf0.0 up9", "spine1 x", 800e9)
    assert diff(DESIGN, rewired((cut,), (more,))).lines() == (
        "missing: leaf0.0 up0.0 – spine0 leaf0.0.0, 400Gbps",
        "extra: leaf0.0 up9 – spine1 x, 800Gbps",
    )


def test_another_speed_and_length() -> None:
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


def test_another_node_behind_the_same_name() -> None:
    before = Node(name="a", role="leaf", rail=0, ports=(Port(name="p0"), Port(name="p1", rail=1)))
    after = Node(
        name="a", role="spine", plane=1, ports=(Port(name="p0"), Port(name="p1", rail=2, plane=0)),
        attributes=(("rack", "A1"),),
    )  # fmt: skip
    told = diff(Topology(nodes=(before,), links=()), Topology(nodes=(after,), links=()))
    line = (
        "changed: a: role leaf expected, spine found; rail 0 expected, none found; plane none expected, 1 found; "
        "ports p1 rail 1 expected, p1 rail 2 plane 0 found; attributes none expected, rack=A1 found"
    )
    assert told.lines() == (line,)


@given(pairs())
def test_each_difference_is_one_line(pair: tuple[Topology, Topology]) -> None:
    design, built = pair
    told = diff(design, built)
    gone = {node.name for node in (*told.missing_nodes, *told.extra_nodes)}
    alone = [
        one for one in (*told.missing_links, *told.extra_links) if gone.isdisjoint((one.a.node, one.b.node))
    ]  # fmt: skip
    others = (
        told.missing_nodes, told.extra_nodes, told.changed_nodes, told.miswired, told.changed_links, alone,
    )  # fmt: skip
    assert len(told.lines()) == sum(map(len, others))
    assert all(line.isprintable() for line in told.lines())
