"""The arithmetic of a Clos: what must hold for every number of servers, and how the impossible is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric.size import Size, Sizing, size

RADIXES = st.sampled_from([16, 32, 64, 128, 144])
RAILS = st.sampled_from([1, 2, 4, 8])
NODES = st.integers(min_value=1, max_value=3000)


@settings(max_examples=150)
@given(
    nodes=NODES,
    rails=RAILS,
    radix=RADIXES,
    planes=st.sampled_from([1, 2]),
    ratio=st.sampled_from([1.0, 2.0, 3.0]),
)
def test_every_cable_has_a_port(
    nodes: int, rails: int, radix: int, planes: int, ratio: float
) -> None:
    sizing = Sizing(
        nodes=nodes,
        rails=rails,
        radix=radix,
        planes=planes,
        oversubscription_ratio=ratio,
        min_spines=1,
    )
    result = size(sizing)
    if isinstance(result, Infeasible):
        return
    links = radix * planes
    up = result.uplinks_per_leaf_and_plane
    assert result.servers_per_stripe + up <= links
    assert result.servers_per_stripe <= ratio * up + 1e-9
    assert result.oversubscription_ratio <= ratio + 1e-9
    assert result.leaves == planes * rails * result.stripes
    assert (
        (result.stripes - 1) * result.servers_per_stripe
        < nodes
        <= result.stripes * result.servers_per_stripe
    )
    assert result.spines_per_pod * result.links_per_pair == up
    leaves_per_pod = -(-result.leaves // planes // result.pods)
    assert leaves_per_pod * result.links_per_pair + result.uplinks_per_spine <= links
    if result.cores:
        assert result.cores_per_group * result.links_per_core_pair == result.uplinks_per_spine
        assert result.pods * result.links_per_core_pair <= links
    assert result.node_leaf_cables == nodes * rails
    assert result.leaf_spine_cables * planes == result.leaves * up
    assert result.most_nodes >= nodes


@settings(max_examples=80)
@given(nodes=NODES, radix=RADIXES)
def test_more_servers_never_need_fewer_switches(nodes: int, radix: int) -> None:
    one, more = (
        size(Sizing(nodes=number, radix=radix, tiers="2")) for number in (nodes, nodes + 7)
    )
    if isinstance(more, Size):
        assert isinstance(one, Size)
        assert (one.leaves, one.spines) <= (more.leaves, more.spines)


@settings(max_examples=80)
@given(nodes=NODES, later=st.integers(min_value=0, max_value=500), radix=RADIXES)
def test_growth_only_adds_switches(nodes: int, later: int, radix: int) -> None:
    now = size(Sizing(nodes=nodes, grow_to=nodes + later, radix=radix))
    then = size(Sizing(nodes=nodes + later, radix=radix))
    if isinstance(then, Infeasible):
        assert isinstance(now, Infeasible)
        return
    assert isinstance(now, Size)
    assert now.links_per_pair == then.links_per_pair
    assert now.spines_per_pod == then.spines_per_pod
    assert now.leaves <= then.leaves
    assert now.cores == then.cores


def test_chassis_spine_replaces_a_third_tier() -> None:
    result = size(Sizing(nodes=4096, radix=128, spine_radix=576))
    assert isinstance(result, Size)
    assert (result.tiers, result.leaves, result.spines, result.cores) == (2, 512, 64, 0)


def test_minimum_of_four_spines_can_be_disabled() -> None:
    with_policy = size(Sizing(nodes=16, rails=2, radix=64))
    without = size(Sizing(nodes=16, rails=2, radix=64, min_spines=1))
    assert isinstance(with_policy, Size)
    assert isinstance(without, Size)
    assert (with_policy.spines, without.spines) == (4, 1)


def test_single_tier_is_limited_by_leaf_ports() -> None:
    result = size(Sizing(nodes=8, radix=64, tiers="1"))
    assert isinstance(result, Size)
    assert (result.leaves, result.spines, result.uplinks_per_leaf, result.leaf_spine_cables) == (
        1,
        0,
        0,
        0,
    )
    refused = size(Sizing(nodes=9, radix=64, tiers="1"))
    assert isinstance(refused, Infeasible)
    assert "8 servers" in refused.what


def test_too_many_servers_are_infeasible_with_the_limit() -> None:
    refused = size(Sizing(nodes=257, radix=64, tiers="2"))
    assert isinstance(refused, Infeasible)
    assert (refused.binding, "256 servers" in refused.what) == ("reach", True)
    assert "three tiers" in refused.fix
    beyond = size(Sizing(nodes=8193, radix=64))
    assert isinstance(beyond, Infeasible)
    assert "8,192 servers" in beyond.what


def test_uneven_spines_are_infeasible_with_a_working_number() -> None:
    refused = size(Sizing(nodes=256, radix=64, spines=8))
    assert isinstance(refused, Infeasible)
    assert refused.fix == "use 32 spines"


@pytest.mark.parametrize(
    ("sizing", "where", "fix"),
    [
        (Sizing(nodes=16, rails=7), "rails", "6 or 8"),
        (Sizing(nodes=0), "nodes", "at least 1"),
        (Sizing(nodes=16, radix=1), "radix", "at least 2"),
        (Sizing(nodes=16, oversubscription_ratio=0.0), "oversubscription", "2:1"),
        (Sizing(nodes=16, grow_to=8), "grow_to", "final number"),
    ],
)
def test_wrong_sizing_raises_input_error_with_fix(sizing: Sizing, where: str, fix: str) -> None:
    with pytest.raises(InputError) as caught:
        size(sizing)
    (problem,) = caught.value.problems
    assert problem.where == where
    assert fix in problem.fix


def test_all_sizing_problems_are_reported_at_once() -> None:
    with pytest.raises(InputError) as caught:
        size(Sizing(nodes=0, rails=3, radix=1))
    assert [problem.where for problem in caught.value.problems] == ["nodes", "radix", "rails"]
