"""Collectives on designed fabrics: NICs with several ports, missing routes, failures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.design import design
from gpuyard.simulate.collectives import simulate_collective as module
from gpuyard.simulate.collectives.simulate_collective import Collective, simulate_collective
from gpuyard.simulate.faults import NodeDown
from gpuyard.simulate.run_traffic import SimulationOptions
from gpuyard.simulate.sites.fabric_network import site_of_fabric
from gpuyard.simulate.sites.named_topologies import NetworkSetup
from gpuyard.simulate.summary import NetworkSummary

CATALOG = load_catalog()
FLOWS = SimulationOptions(engine="flow", balancing="ecmp")


def site(**demand: object) -> NetworkSetup:
    fabric = design(Demand(nic_bits_per_s=400e9, leaf="sn5600", **demand), CATALOG)
    assert not isinstance(fabric, Infeasible)
    return site_of_fabric(fabric, CATALOG)


def summary(
    network: NetworkSetup, collective: Collective, options: SimulationOptions = FLOWS
) -> NetworkSummary:
    return simulate_collective(network, collective, options).summary


@pytest.mark.parametrize("engine", ["flow", "packet"])
@pytest.mark.parametrize("balancing", ["ecmp", "spray"])
def test_two_planes_carry_as_much_as_one_of_twice_the_speed(engine: str, balancing: str) -> None:
    options = SimulationOptions(engine=engine, balancing=balancing)  # type: ignore[arg-type]
    ring = Collective(name="all-reduce", size_bytes=32e6, algorithm="rail-ring")
    one, two = (
        summary(site(server_count=4, planes=planes), ring, options).completion_s
        for planes in (1, 2)
    )
    assert two == pytest.approx(one, rel=0.05)


def test_two_planes_reach_the_rate_of_the_nic_in_rounds() -> None:
    result = summary(
        site(server_count=32, planes=2),
        Collective(name="all-reduce", size_bytes=1e9, algorithm="rail-ring"),
    )
    assert any("in rounds" in note for note in result.notes)
    assert result.bus_bytes_per_s == pytest.approx(8 * 50e9, rel=0.02)


@pytest.mark.parametrize("name", ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"])
def test_auto_considers_only_algorithms_with_routes_on_rail_only_fabrics(name: str) -> None:
    network = site(server_count=4, shape="rail-only")
    assert "0:1" not in network.label
    result = summary(network, Collective(name=name, size_bytes=64e6))
    assert result.completed == result.flows
    assert result.algorithm in ("rail-ring", "hierarchical", "pxn", "nvls")


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [("all-reduce", "ring"), ("all-to-all", "direct"), ("all-reduce", "tree")],
)
def test_algorithm_without_routes_raises_input_error_with_one_that_works(
    name: str, algorithm: str
) -> None:
    network = site(server_count=4, shape="rail-only")
    with pytest.raises(InputError) as caught:
        summary(network, Collective(name=name, size_bytes=64e6, algorithm=algorithm))
    (problem,) = caught.value.problems
    assert problem.where == "--algorithm"
    works = problem.fix.removeprefix("use --algorithm ")
    result = summary(network, Collective(name=name, size_bytes=64e6, algorithm=works))
    assert result.completed == result.flows


def test_collective_without_any_routed_algorithm_raises_input_error() -> None:
    with pytest.raises(InputError, match="no algorithm of broadcast has routes"):
        summary(
            site(server_count=4, shape="rail-only"), Collective(name="broadcast", size_bytes=64e6)
        )


@pytest.mark.parametrize("balancing", ["ecmp", "spray"])
def test_rounds_around_a_failed_spine_take_as_long_as_flow_by_flow(
    balancing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = site(server_count=64)
    options = SimulationOptions(
        engine="flow",
        balancing=balancing,
        faults=(NodeDown(node="spine-1", at_s=0.0),),
    )
    ring = Collective(name="all-reduce", size_bytes=256e6, algorithm="rail-ring", ranks=128)
    listed = summary(network, ring, options)
    monkeypatch.setattr(module, "MAX_MESSAGES", 0)
    in_rounds = summary(network, ring, options)
    assert any("in rounds" in note for note in in_rounds.notes)
    assert in_rounds.completion_s == pytest.approx(listed.completion_s, rel=0.06)


def test_host_that_is_cut_off_leaves_its_flows_unfinished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_MESSAGES", 0)
    network = site(server_count=4)
    dead = NodeDown(node=network.network.names[0], at_s=0.0)
    result = summary(
        network,
        Collective(name="all-reduce", size_bytes=64e6, algorithm="hierarchical"),
        SimulationOptions(engine="flow", faults=(dead,)),
    )
    assert result.completed < result.flows


def test_sharp_needs_infiniband_and_beats_the_ring_there() -> None:
    call = Collective(name="all-reduce", size_bytes=1e9)
    with pytest.raises(InputError, match="InfiniBand"):
        summary(site(server_count=4), replace(call, algorithm="sharp"))
    fabric = design(Demand(nic_bits_per_s=400e9, leaf="qm9700", server_count=16), CATALOG)
    assert not isinstance(fabric, Infeasible)
    quantum = site_of_fabric(fabric, CATALOG)
    chosen = summary(quantum, call)
    ring = summary(quantum, replace(call, algorithm="rail-ring"))
    assert chosen.algorithm == "sharp"
    assert chosen.completion_s < ring.completion_s
    share_bytes = 1e9 / 8
    assert chosen.completion_s > share_bytes / 50e9  # a NIC carries its share once
