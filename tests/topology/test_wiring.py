from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.errors import InputError
from gpuyard.topology.topology import Topology
from gpuyard.topology.wiring import Wiring

from .shapes import link, rail_fabric, topologies

FABRIC = rail_fabric(stripes=2, servers=2, rails=4, spines=2, parallel=3)
WIRING = Wiring.of(FABRIC)


def test_neighbours_are_sorted_and_degree_counts_links() -> None:
    assert WIRING.neighbours("server0.0") == ("leaf0.0", "leaf0.1", "leaf0.2", "leaf0.3")
    assert WIRING.neighbours("leaf1.2") == ("server1.0", "server1.1", "spine0", "spine1")
    assert WIRING.degree("leaf1.2") == 2 + 2 * 3
    assert WIRING.degree("spine0") == 8 * 3


def test_links_between_returns_parallel_links() -> None:
    between = WIRING.links_between("spine1", "leaf0.0")
    assert between == WIRING.links_between("leaf0.0", "spine1")
    assert [one.a.port for one in between] == ["up1.0", "up1.1", "up1.2"]
    assert WIRING.links_between("leaf0.0", "leaf0.1") == ()


def test_uplinks_and_downlinks_follow_the_tiers() -> None:
    assert [one.end_at("leaf0.0").port for one in WIRING.downlinks("leaf0.0")] == ["down0", "down1"]
    assert len(WIRING.uplinks("leaf0.0")) == 6
    assert WIRING.uplinks("spine0") == ()
    assert WIRING.uplinks("server0.0") == WIRING.links_of("server0.0")
    down = sum(one.speed_bits_per_s for one in WIRING.downlinks("leaf0.0"))
    up = sum(one.speed_bits_per_s for one in WIRING.uplinks("leaf0.0"))
    assert down / up == pytest.approx(2 / 6)


@given(topologies())
def test_every_link_is_listed_at_both_ends(topology: Topology) -> None:
    wiring = Wiring.of(topology)
    assert sum(wiring.degree(name) for name in wiring.names) == 2 * len(topology.links)
    assert {one for name in wiring.names for one in wiring.links_of(name)} == set(topology.links)
    for name in wiring.names:
        for other in wiring.neighbours(name):
            assert name in wiring.neighbours(other)
            assert wiring.links_between(name, other) == wiring.links_between(other, name)


@given(topologies(), st.data())
def test_wiring_without_equals_wiring_of_the_smaller_topology(
    topology: Topology, data: st.DataObject
) -> None:
    links = (
        data.draw(st.lists(st.sampled_from(topology.links), unique=True)) if topology.links else []
    )
    names = [node.name for node in topology.nodes]
    nodes = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    quick = Wiring.of(topology).without(links=links, nodes=nodes)
    slow = Wiring.of(topology.without(links=links, nodes=nodes))
    assert quick.names == slow.names
    for name in slow.names:
        assert quick.links_of(name) == slow.links_of(name)


def test_without_does_not_change_the_original() -> None:
    cut = WIRING.links_between("leaf0.0", "spine0")[1]
    fewer = WIRING.without(links=[cut, cut], nodes=["spine1"])
    assert fewer.degree("leaf0.0") == 2 + 2
    assert WIRING.degree("leaf0.0") == 8
    assert cut in WIRING.links_of("spine0")
    again = fewer.without(links=fewer.links_between("leaf0.0", "spine0"))
    assert again.neighbours("leaf0.0") == ("server0.0", "server0.1")


def test_unknown_names_raise_input_error() -> None:
    with pytest.raises(InputError, match=r'did you mean "leaf0\.0"'):
        WIRING.neighbours("leef0.0")
    with pytest.raises(InputError, match='no node named "spine1"'):
        WIRING.without(nodes=["spine1"]).degree("spine1")
    with pytest.raises(InputError, match=r"no link leaf0\.0 up9 – spine0 x"):
        WIRING.without(links=[link("leaf0.0 up9", "spine0 x")])
    with pytest.raises(InputError, match=r"no link leaf0\.0 x – leaf0\.1 y"):
        WIRING.without(links=[link("leaf0.0 x", "leaf0.1 y")])
