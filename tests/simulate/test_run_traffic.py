"""Simulations of networks, end to end: sites, collectives, traffic, steps, sweeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpuyard.app.networks import open_network
from gpuyard.app.plan import plan_workload
from gpuyard.app.step import StepSimOptions, simulate_training_step
from gpuyard.app.sweep import SweepOptions, simulate_sweep
from gpuyard.app.workspace import open_workspace
from gpuyard.catalog.load import load_catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.saved import to_json
from gpuyard.perf.calibration import read_calibration
from gpuyard.report.simulation_step import step_table
from gpuyard.simulate.collectives.simulate_collective import Collective, simulate_collective
from gpuyard.simulate.comparison import StepRun
from gpuyard.simulate.faults import NodeDown, PfcStorm
from gpuyard.simulate.run_traffic import SimulationOptions, read_traffic, simulate_traffic
from gpuyard.simulate.sites.named_topologies import NetworkOptions, NetworkSetup, shaped_site
from gpuyard.simulate.sites.planned_networks import planned_networks, planned_site
from gpuyard.simulate.summary import SimulationResult
from gpuyard.simulate.sweep import Axes

EXAMPLES = Path(__file__).parents[2] / "examples"
CATALOG = load_catalog()


def site(options: NetworkOptions, file: Path | None = None) -> NetworkSetup:
    network = open_network(options, file)
    assert not isinstance(network, Infeasible)
    return network


def small() -> NetworkSetup:
    return shaped_site(NetworkOptions(shape="fat-tree", hosts=16))


def all_reduce(
    where: NetworkSetup, options: SimulationOptions = SimulationOptions(), **more: object
) -> SimulationResult:
    return simulate_collective(
        where, replace(Collective(name="all-reduce", size_bytes=4e6), **more), options
    )  # type: ignore[arg-type]


def test_ring_on_one_switch_reaches_link_rate() -> None:
    where = shaped_site(NetworkOptions(shape="switch", hosts=8, delay_s=0.0))
    done = all_reduce(
        where, SimulationOptions(engine="flow"), algorithm="ring", size_bytes=800e6
    ).summary
    assert done.bus_bytes_per_s == pytest.approx(50e9, rel=0.02)  # 400 Gbps, less headers
    assert done.completion_s == pytest.approx(2 * 7 / 8 * 800e6 / 50e9, rel=0.02)


def test_both_engines_agree_where_nothing_collides() -> None:
    times = [
        all_reduce(small(), SimulationOptions(engine=engine), algorithm="ring").summary.completion_s  # type: ignore[arg-type]
        for engine in ("flow", "packet")
    ]
    assert times[0] == pytest.approx(times[1], rel=0.05)


def test_auto_takes_the_fastest_algorithm() -> None:
    done = all_reduce(small(), SimulationOptions(engine="flow")).summary
    each = {
        name: all_reduce(
            small(), SimulationOptions(engine="flow"), algorithm=name
        ).summary.completion_s
        for name in ("ring", "tree", "halving")
    }
    assert done.algorithm == min(each, key=lambda name: each[name])


def test_auto_takes_packets_where_they_are_few() -> None:
    assert all_reduce(small()).summary.engine == "packet"
    assert all_reduce(small(), algorithm="ring", size_bytes=4e12).summary.engine == "flow"
    storm = SimulationOptions(faults=(PfcStorm(host="host1", at_s=1.0),))
    assert all_reduce(small(), storm, algorithm="ring", size_bytes=1e6).summary.engine == "packet"


def test_many_messages_run_in_rounds() -> None:
    where = site(NetworkOptions(shape="rails", hosts=1024))
    done = all_reduce(where, SimulationOptions(engine="flow"), algorithm="ring", size_bytes=1e9)
    assert done.outcome is None
    assert done.phases
    assert done.summary.bus_bytes_per_s
    assert done.utilisation is not None
    assert done.utilisation.max() <= 1.01
    assert done.summary.fct_mean_s is None  # nothing is made up


def test_failed_spine_never_speeds_up_traffic() -> None:
    fault = NodeDown(node="spine0", at_s=0.0)
    quick = all_reduce(
        small(), SimulationOptions(engine="flow", balancing="spray"), algorithm="halving"
    ).summary
    slow = all_reduce(
        small(),
        SimulationOptions(engine="flow", balancing="spray", faults=(fault,)),
        algorithm="halving",
    ).summary
    assert slow.completed == slow.flows
    assert slow.completion_s > quick.completion_s


def test_measured_nccl_is_shown_for_known_machines() -> None:
    done = simulate_collective(
        site(NetworkOptions(gpus=16, machine="a3-ultragpu-8g")),
        Collective(name="all-gather", size_bytes=8e9),
        SimulationOptions(),
    )
    bus = done.summary.nccl_bus_bytes_per_s
    assert bus is not None
    assert bus == pytest.approx(325.7e9, rel=0.1)  # cluster-toolkit's README: 8 GB over 2 x 8
    assert all_reduce(small()).summary.nccl_s is None


def test_seeds_are_repeatable() -> None:
    file = read_traffic(EXAMPLES / "permutation.cm")
    one, same, other = (
        simulate_traffic(small(), file, SimulationOptions(engine="packet", seed=seed)).outcome
        for seed in (1, 1, 2)
    )
    assert one is not None
    assert same is not None
    assert other is not None
    assert np.array_equal(one.finish_s, same.finish_s)
    assert not np.array_equal(one.finish_s, other.finish_s)


def test_dcqcn_marks_and_slows_down() -> None:
    file = read_traffic(EXAMPLES / "permutation.cm")
    plain = simulate_traffic(small(), file, SimulationOptions(engine="packet", seed=2)).summary
    tamed = simulate_traffic(
        small(), file, SimulationOptions(engine="packet", seed=2, congestion_control="dcqcn")
    ).summary
    assert plain.marks == 0
    assert tamed.marks
    assert tamed.notifications
    assert (tamed.pauses or 0) <= (plain.pauses or 0)


def test_msccl_file_needs_size() -> None:
    with pytest.raises(InputError, match="without a size"):
        read_traffic(EXAMPLES / "allreduce.xml")
    file = read_traffic(EXAMPLES / "allreduce.xml", 4e6)
    assert simulate_traffic(small(), file, SimulationOptions()).summary.completed == 24


def test_designed_fabric_sets_simulation_settings(tmp_path: Path) -> None:
    fabric = design(
        Demand(server_count=4, nic_bits_per_s=400e9, balancing="ecmp", shape="two-tier"), CATALOG
    )
    assert not isinstance(fabric, Infeasible)
    path = tmp_path / "fabric.json"
    path.write_text(to_json(fabric), encoding="utf-8")
    made = site(NetworkOptions(), path)
    assert made.network.host_count == 32
    assert made.packets is not None
    assert made.packets.balance == "ecmp"
    assert any("NVLink of dgx-h100" in note for note in made.notes)
    assert made.topology == fabric.topology


def test_ports_of_one_nic_are_one_host() -> None:
    fabric = design(
        Demand(server_count=2, nic_bits_per_s=800e9, planes=2, shape="two-tier"), CATALOG
    )
    assert not isinstance(fabric, Infeasible)
    from_design = planned_site(CATALOG.machine("dgx-h100"), 2, None, CATALOG)
    assert from_design is not None
    assert from_design.network.host_count == 16


def test_planned_networks_are_built_once_and_not_for_tori() -> None:
    networks, constants = planned_networks(CATALOG), read_calibration().constants
    machine = CATALOG.machine("dgx-h100")
    assert networks(machine, 2, None, constants) is networks(machine, 2, None, constants)
    tpu = next(row for row in CATALOG.machines if row.network.technology == "ici")
    assert networks(tpu, 4, None, constants) is None


def step(options: StepSimOptions | None = None, fabric: Fabric | None = None) -> StepRun:
    workspace = open_workspace(EXAMPLES / "pretraining-onprem.yaml")
    plan = plan_workload(workspace)
    assert not isinstance(plan, Infeasible)
    return simulate_training_step(workspace, plan.options[1], fabric, options)


def test_step_on_non_blocking_fabric_matches_closed_form() -> None:
    run = step()
    assert run.simulated_step_s == pytest.approx(run.closed_step_s, rel=0.05)
    assert sum(part.simulated_s for part in run.parts) == pytest.approx(run.simulated_step_s)
    assert run.timeline_step_s == pytest.approx(run.simulated_step_s, rel=0.1)
    assert {phase.axis for phase in run.phases} >= {"dp"}
    assert all(phase.simulated_s > 0 for phase in run.phases)
    assert run.is_confirmation
    assert any("confirms the closed form" in note for note in step_table(run).notes)


def test_step_on_an_undersized_fabric_takes_longer() -> None:
    demand = Demand(server_count=16, nic_bits_per_s=100e9, machine="dgx-h100", shape="two-tier")
    fabric = design(demand, CATALOG)
    assert not isinstance(fabric, Infeasible)
    own, starved = step(), step(fabric=fabric)
    gradients = [
        next(phase for phase in run.phases if phase.label == "gradients") for run in (own, starved)
    ]
    assert gradients[1].simulated_s > 3 * gradients[0].simulated_s
    assert starved.simulated_step_s > own.simulated_step_s
    assert not starved.is_confirmation


def asked(**more: object) -> SweepOptions:
    axes = Axes(designs=("a", "b"), sizes_bytes=(1e6, 2e6), algorithms=("ring",), seeds=(1, 2))
    base = SweepOptions(
        networks=(site(NetworkOptions(hosts=2)), site(NetworkOptions(hosts=16))),
        axes=axes,
        simulation=SimulationOptions(engine="flow"),
        collective=Collective(name="all-reduce", size_bytes=0.0),
    )
    return replace(base, **more)  # type: ignore[arg-type]


def test_sweep_is_the_same_in_several_processes() -> None:
    told: list[tuple[int, int]] = []
    alone = simulate_sweep(asked(), lambda done, total: told.append((done, total)))
    assert len(alone.rows) == 8
    assert told[-1] == (7, 8)
    assert len(alone.spreads) == 4
    assert simulate_sweep(asked(workers=2)) == alone


def test_invalid_sweep_case_ends_sweep() -> None:
    with pytest.raises(InputError, match="17 hosts are not"):
        simulate_sweep(
            asked(
                networks=(site(NetworkOptions(hosts=2)), site(NetworkOptions(hosts=17))), workers=2
            )
        )


def test_missing_ray_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(InputError, match="Ray is not installed"):
        simulate_sweep(asked(on="ray"))
