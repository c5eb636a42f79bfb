"""`gpuyard simulate sweep`: many simulations in parallel, on this host's cores or on Ray."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from gpuyard.errors import Infeasible, InputError, Problem
from gpuyard.simulate.collectives.simulate_collective import Collective, simulate_collective
from gpuyard.simulate.run_traffic import SimulationOptions, read_traffic, simulate_traffic
from gpuyard.simulate.sites.named_topologies import NetworkSetup
from gpuyard.simulate.summary import NetworkSummary
from gpuyard.simulate.sweep import Axes, Sweep, SweepCase, SweepRow, cases, spreads

On = Literal["local", "ray"]
SweepProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """A collective or a traffic file, simulated on several networks and settings."""

    networks: tuple[NetworkSetup | Infeasible, ...]  # one per design of the axes
    axes: Axes
    simulation: SimulationOptions
    collective: Collective | None = None
    file: Path | None = None
    on: On = "local"
    workers: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _SweepJob:
    """One simulation, as it is sent to a worker process."""

    case: SweepCase
    simulation: SimulationOptions
    collective: Collective | None
    file: Path | None


Networks = tuple[NetworkSetup | Infeasible, ...]
RowOrProblems = SweepRow | tuple[Problem, ...]


def quiet(_: int, __: int) -> None:
    """Ignore progress."""


def hosts_of(file: Path | None) -> int | None:
    """Number of hosts in a traffic file, where the file says."""
    return None if file is None or file.suffix == ".xml" else read_traffic(file).host_count


def simulate_sweep(options: SweepOptions, on_progress: SweepProgress = quiet) -> Sweep:
    """Simulate every combination; InputError as soon as one of them is wrong."""
    jobs = [
        _SweepJob(
            case=case,
            simulation=replace(options.simulation, seed=case.seed, balancing=case.balancing),
            collective=options.collective,
            file=options.file,
        )
        for case in cases(options.axes)
    ]
    rows: dict[int, SweepRow] = {}
    run = {"local": _on_this_host, "ray": _on_ray}[options.on]
    for number, row in run(jobs, options.networks, min(options.workers, len(jobs))):
        if isinstance(row, tuple):
            raise InputError(row)
        rows[number] = row
        on_progress(len(rows) - 1, len(jobs))
    ordered = tuple(rows[number] for number in range(len(jobs)))
    name = options.file.name if options.file else ""
    name = options.collective.name if options.collective else name
    return Sweep(traffic=name, rows=ordered, spreads=spreads(ordered))


def _on_this_host(
    jobs: Sequence[_SweepJob], networks: Networks, workers: int
) -> Iterator[tuple[int, RowOrProblems]]:
    """In this process, or in several spawned ones (a forked one could inherit a lock)."""
    if workers <= 1:
        yield from ((number, _simulated(job, networks)) for number, job in enumerate(jobs))
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        workers, mp_context=context, initializer=_set_networks, initargs=(networks,)
    ) as pool:
        pending = {pool.submit(_simulated_in_worker, job): n for n, job in enumerate(jobs)}
        try:
            for future in as_completed(pending):
                yield pending[future], future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


_worker_networks: Networks = ()  # set once per worker process, so that no job carries a network


def _set_networks(networks: Networks) -> None:
    global _worker_networks
    _worker_networks = networks


def _simulated_in_worker(job: _SweepJob) -> RowOrProblems:
    return _simulated(job, _worker_networks)


def _on_ray(
    jobs: Sequence[_SweepJob], networks: Networks, _: int
) -> Iterator[tuple[int, RowOrProblems]]:
    """On a Ray cluster: that of $RAY_ADDRESS, or one that Ray starts locally."""
    try:
        import ray
    except ModuleNotFoundError:
        raise InputError.one(
            "--on", "Ray is not installed", "pip install ray, or use --on local"
        ) from None
    if not ray.is_initialized():
        address = os.environ.get("RAY_ADDRESS") or "local"  # "local": never a stale cluster
        ray.init(address=address, log_to_driver=False)
    shared = ray.put(networks)
    remote = ray.remote(num_cpus=1)(_simulated)
    pending = {remote.remote(job, shared): number for number, job in enumerate(jobs)}
    while pending:
        done = ray.wait(list(pending), num_returns=1)[0][0]
        yield pending.pop(done), ray.get(done)


def _simulated(job: _SweepJob, networks: Networks) -> RowOrProblems:
    """One simulation; problems are returned as values, since errors do not survive Ray."""
    try:
        site = networks[job.case.design]
        if isinstance(site, Infeasible):
            return _row(job, None, str(site))
        if job.collective is not None:
            collective = replace(
                job.collective,
                size_bytes=job.case.size_bytes or 0.0,
                algorithm=job.case.algorithm,
                channels=job.case.channels,
            )
            return _row(job, simulate_collective(site, collective, job.simulation).summary, None)
        assert job.file is not None, "a collective or a file"
        traffic = read_traffic(job.file, job.case.size_bytes)
        return _row(job, simulate_traffic(site, traffic, job.simulation).summary, None)
    except InputError as error:
        return error.problems


def _row(job: _SweepJob, summary: NetworkSummary | None, infeasible: str | None) -> SweepRow:
    return SweepRow(
        design=job.case.name,
        size_bytes=job.case.size_bytes,
        channels=job.case.channels,
        seed=job.case.seed,
        summary=summary,
        infeasible=infeasible,
    )
