from __future__ import annotations

import dataclasses
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.document.encode import dump_json, load_json
from gpuyard.errors import InputError
from gpuyard.topology.links import End, Link
from gpuyard.topology.nodes import Node, Port
from gpuyard.topology.topology import Topology
from gpuyard.topology.wiring import Wiring

from .shapes import link, rail_fabric, topologies, two_planes


def problems(*, nodes: tuple[Node, ...] = (), links: tuple[Link, ...] = ()) -> list[str]:
    """Where and what of each problem."""
    with pytest.raises(InputError) as caught:
        Topology(nodes=nodes, links=links)
    assert all(problem.fix for problem in caught.value.problems)
    return [f"{problem.where}: {problem.what}" for problem in caught.value.problems]


A, B = Node(name="a", role="leaf"), Node(name="b", role="spine")


@given(topologies(), st.randoms(use_true_random=False))
def test_order_of_construction_does_not_matter(topology: Topology, rng: random.Random) -> None:
    nodes, links = (
        list(topology.nodes),
        [
            dataclasses.replace(one, a=one.b, b=one.a) if rng.random() < 0.5 else one
            for one in topology.links
        ],
    )
    rng.shuffle(nodes)
    rng.shuffle(links)
    again = Topology(nodes=tuple(nodes), links=tuple(links))
    assert again == topology
    assert hash(again) == hash(topology)
    assert again.nodes == topology.nodes
    assert again.links == topology.links


def test_ports_and_attributes_are_sorted() -> None:
    one = Node(
        name="a",
        role="leaf",
        ports=(Port(name="y"), Port(name="x")),
        attributes=(("k", "2"), ("a", "1")),
    )
    other = Node(
        name="a",
        role="leaf",
        ports=(Port(name="x"), Port(name="y")),
        attributes=(("a", "1"), ("k", "2")),
    )
    assert one == other
    assert other.ports[0].name == "x"


def test_sorted_port_tuples_are_shared() -> None:
    nics = tuple(Port(name=f"gpu{rail}") for rail in range(8))
    assert Node(name="a", role="server", ports=nics).ports is nics


def test_numbers_are_normalised() -> None:
    whole, real = link("a 1", "b 1", 400, -0.0), link("a 1", "b 1", 400.0, 0.0)
    assert repr(whole) == repr(real)


@pytest.mark.parametrize(
    ("nodes", "links", "expected"),
    [
        ((A, A), (), 'nodes[1]: a second node named "a" (the first is nodes[0])'),
        ((Node(name="", role="leaf"),), (), "nodes[0]: name is empty"),
        ((Node(name="a\nb", role="leaf"),), (), 'nodes[0]: name "a\\nb" is not a plain name'),
        ((Node(name=" a", role="leaf"),), (), 'nodes[0]: name " a" is not a plain name'),
        ((Node(name="a", role="tor"),), (), 'nodes[0]: no role "tor"'),  # type: ignore[arg-type]
        ((Node(name="a", role="leaf", rail=-1),), (), "nodes[0]: rail -1 is negative"),
        ((Node(name="a", role="leaf", model=""),), (), "nodes[0]: model is empty"),
        (
            (Node(name="a", role="leaf", ports=(Port(name="p"),) * 2),),
            (),
            'nodes[0]: port "p" is declared twice',
        ),
        ((Node(name="a", role="leaf", ports=(Port(name=""),)),), (), "nodes[0]: port is empty"),
        (
            (Node(name="a", role="leaf", ports=(Port(name="p", plane=-2),)),),
            (),
            "nodes[0] port p: plane -2 is negative",
        ),
        (
            (Node(name="a", role="leaf", attributes=(("k", "1"), ("k", "2"))),),
            (),
            'nodes[0]: attribute "k" is set twice',
        ),
        (
            (Node(name="a", role="leaf", attributes=(("k", "\t"),)),),
            (),
            'nodes[0]: attribute "k": "\\t" is not plain text',
        ),
        ((A, B), (link("a 1", "b 1", 0),), "links[0]: a 1 – b 1: speed is 0 bit/s"),
        ((A, B), (link("a 1", "b 1", float("nan")),), "links[0]: a 1 – b 1: speed is nan bit/s"),
        ((A, B), (link("a 1", "b 1", cable_m=-1),), "links[0]: a 1 – b 1: cable length is -1 m"),
        (
            (A, B),
            (link("a 1", "b 1", cable_m=float("inf")),),
            "links[0]: a 1 – b 1: cable length is inf m",
        ),
        ((A, B), (link("a 1", "a 2"),), "links[0]: a 1 – a 2 connects a node to itself"),
        ((A, B), (link("a ", "b 1"),), 'links[0]: port at "a" is empty'),
        (
            (A, B),
            (link("a 1", "b 1"), link("a 2", "b 1")),
            "links[1]: b 1 already has a cable (links[0])",
        ),
        (
            (A, B),
            (link("a 1", "c 1"), link("a 2", "c 2")),
            'links[0]: no node named "c" (and 1 more links)',
        ),
        (
            (Node(name="a", role="server", ports=(Port(name="gpu0"),)), B),
            (link("a gpu1", "b 1"),),
            'links[0]: a declares no port "gpu1"',
        ),
    ],
)
def test_invalid_topology_raises_input_error(
    nodes: tuple[Node, ...], links: tuple[Link, ...], expected: str
) -> None:
    assert problems(nodes=nodes, links=links) == [expected]


def test_link_from_a_port_to_itself_is_one_problem() -> None:
    assert problems(nodes=(A,), links=(link("a 1", "a 1"),)) == [
        "links[0]: a 1 – a 1 connects a node to itself"
    ]


def test_all_problems_are_reported_at_once() -> None:
    reported = problems(
        nodes=(A, A, Node(name="", role="leaf")),
        links=(link("a 1", "zz 1"), link("a 1", "a 2", 0)),
    )
    assert len(reported) == 6
    assert {line.split(":")[0] for line in reported} == {
        "nodes[1]",
        "nodes[2]",
        "links[0]",
        "links[1]",
    }


def test_unknown_node_suggests_the_closest_name() -> None:
    with pytest.raises(InputError, match=r'did you mean "leaf0\.0"'):
        Topology(nodes=rail_fabric().nodes, links=(link("leef0.0 x", "spine0 y"),))


def test_only_the_first_unknown_nodes_get_suggestions() -> None:
    nodes = tuple(Node(name=f"server-{number:04}", role="server") for number in range(3000))
    links = tuple(
        link(f"sever-{number:04} gpu0", f"sever-{number:04}b gpu0") for number in range(1500)
    )
    assert len(problems(nodes=nodes, links=links)) == 3000


def test_port_rail_and_plane_default_to_those_of_the_node() -> None:
    server = next(node for node in two_planes().nodes if node.role == "server")
    assert [(server.rail_of(port.name), server.plane_of(port.name)) for port in server.ports] == [
        (0, 0),
        (0, 1),
    ]
    leaf = Node(
        name="leaf", role="leaf", rail=3, plane=1, ports=(Port(name="x"), Port(name="y", rail=5))
    )
    assert (leaf.rail_of("x"), leaf.rail_of("y"), leaf.plane_of("x"), leaf.rail_of("other")) == (
        3,
        5,
        1,
        3,
    )


def test_rail_swap_is_visible_in_rails_of_ports() -> None:
    topology = rail_fabric()
    wiring = Wiring.of(topology)

    def crossed(links: tuple[Link, ...]) -> list[str]:
        ends = [
            (
                wiring.node(one.a.node).rail_of(one.a.port),
                wiring.node(one.b.node).rail_of(one.b.port),
                one,
            )
            for one in links
            if "server" in one.b.node
        ]
        return [str(one) for rail, other, one in ends if rail != other]

    assert crossed(topology.links) == []
    assert crossed((link("server0.0 gpu1", "leaf0.0 down0"),)) == ["leaf0.0 down0 – server0.0 gpu1"]


def test_attribute_is_looked_up_by_key() -> None:
    node = Node(name="a", role="leaf", attributes=(("rack", "A1"),))
    assert (node.attribute("rack"), node.attribute("row")) == ("A1", None)


def test_without_removes_links_and_nodes() -> None:
    topology = rail_fabric(stripes=1, servers=2, rails=2, spines=2)
    cut = topology.links[0]
    assert topology.without() == topology
    assert set(topology.links) - set(topology.without(links=[cut]).links) == {cut}
    smaller = topology.without(nodes=["spine0"], links=[cut])
    assert all("spine0" not in (one.a.node, one.b.node) and one != cut for one in smaller.links)
    assert "spine0" not in {node.name for node in smaller.nodes}


def test_without_unknown_links_or_nodes_raises_input_error() -> None:
    topology = rail_fabric()
    with pytest.raises(InputError, match='no node named "spine9"'):
        topology.without(nodes=["spine9"])
    with pytest.raises(InputError, match=r"no link leaf0\.0 x – spine0 y"):
        topology.without(links=[link("leaf0.0 x", "spine0 y")])


def test_link_ends_and_far_end() -> None:
    one = link("b 1", "a 2")
    assert one.ends == (End(node="a", port="2"), End(node="b", port="1"))
    assert str(one.end_at("b")) == "b 1"
    assert str(one.far_from("b")) == "a 2"


@given(topologies())
def test_embedded_topology_round_trips(topology: Topology) -> None:
    assert load_json(dump_json(topology), Topology) == topology


def test_repr_is_short() -> None:
    assert repr(rail_fabric()) == "<Topology of 14 nodes and 32 links>"
