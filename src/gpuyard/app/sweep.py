"""`gpuyard simulate sweep`: many simulations at once, on this machine's cores or on Ray."""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from gpuyard.app.collectives import Collective, simulate_collective
from gpuyard.app.networks import site_for
from gpuyard.app.shapes import Site, Wanted
from gpuyard.app.simulate import Play, read_traffic, simulate_traffic
from gpuyard.errors import Infeasible, InputError, Problem
from gpuyard.simulate.summary import Summary
from gpuyard.simulate.sweep import Axes, Sweep, SweepCase, SweepRow, cases, spreads

__all__ = ["On", "SweepAsked", "simulate_sweep", "worker_count"]

On = Literal["local", "ray"]
Told = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepAsked:
    """What is simulated again and again: a collective or a traffic file, over each of some designs."""

    designs: tuple[Wanted, ...]
    axes: Axes
    play: Play
    collective: Collective | None = None
    file: Path | None = None
    layers: tuple[Path, ...] = ()
    on: On = "local"
    workers: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One simulation, as it is handed to another process."""

    wanted: Wanted
    case: SweepCase
    play: Play
    collective: Collective | None
    file: Path | None
    layers: tuple[Path, ...]


def quiet(_: int, __: int) -> None:
    """Says nothing about progress."""


def worker_count() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


def simulate_sweep(asked: SweepAsked, told: Told = quiet) -> Sweep:
    """Every combination simulated; InputError as soon as one of them is wrong."""
    jobs = [
        _Job(
            wanted=asked.designs[case.design],
            case=case,
            play=replace(asked.play, seed=case.seed, balancing=case.balancing),
            collective=asked.collective,
            file=asked.file,
            layers=asked.layers,
        )
        for case in cases(asked.axes)
    ]
    rows: dict[int, SweepRow] = {}
    run = {"local": _here, "ray": _on_ray}[asked.on]
    for number, found in run(jobs, min(asked.workers, len(jobs))):
        if isinstance(found, tuple):
            raise InputError(found)
        rows[number] = found
        told(len(rows) - 1, len(jobs))
    ordered = tuple(rows[number] for number in range(len(jobs)))
    name = asked.collective.name if asked.collective else asked.file.name if asked.file else ""
    return Sweep(traffic=name, rows=ordered, spreads=spreads(ordered))


Found = SweepRow | tuple[Problem, ...]


def _here(jobs: Sequence[_Job], workers: int) -> Iterator[tuple[int, Found]]:
    """On this machine: in this process, or in several fresh ones (a forked one could inherit a lock)."""
    if workers <= 1:
        yield from ((number, _simulated(job)) for number, job in enumerate(jobs))
        return
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(_simulated, job): number for number, job in enumerate(jobs)}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _on_ray(jobs: Sequence[_Job], _: int) -> Iterator[tuple[int, Found]]:
    """On a Ray cluster: the one of $RAY_ADDRESS, or one that Ray starts here."""
    try:
        ray = importlib.import_module("ray")
    except ModuleNotFoundError:
        raise InputError.one("--on", "Ray is not installed", "pip install ray, or use --on local") from None
    if not ray.is_initialized():
        ray.init(address=os.environ.get("RAY_ADDRESS") or "local", log_to_driver=False)  # never a stale one
    remote = ray.remote(num_cpus=1)(_simulated)
    waiting = {remote.remote(job): number for number, job in enumerate(jobs)}
    while waiting:
        done = ray.wait(list(waiting), num_returns=1)[0][0]
        yield waiting.pop(done), ray.get(done)


def _simulated(job: _Job) -> Found:
    """One simulation, in whatever process; what is wrong comes back as a value, since errors do not travel."""
    try:
        site = _site(job.wanted, job.layers, _hosts(job.file))
        if isinstance(site, Infeasible):
            return _row(job, None, str(site))
        if job.collective is not None:
            asked = replace(
                job.collective, size_bytes=job.case.size_bytes or 0.0, algorithm=job.case.algorithm,
                channels=job.case.channels,
            )  # fmt: skip
            return _row(job, simulate_collective(site, asked, job.play).summary, None)
        assert job.file is not None, "a collective or a file"
        return _row(job, simulate_traffic(site, read_traffic(job.file, job.case.size_bytes), job.play).summary, None)
    except InputError as error:
        return error.problems


def _hosts(file: Path | None) -> int | None:
    """How many hosts a traffic file speaks of."""
    return None if file is None or file.suffix == ".xml" else read_traffic(file).host_count


@functools.lru_cache(maxsize=4)
def _site(wanted: Wanted, layers: tuple[Path, ...], hosts: int | None) -> Site | Infeasible:
    """The network, made once in each process."""
    return site_for(wanted, layers, hosts)


def _row(job: _Job, summary: Summary | None, infeasible: str | None) -> SweepRow:
    """The outcome of a job."""
    return SweepRow(
        design=job.case.name, size_bytes=job.case.size_bytes, channels=job.case.channels, seed=job.case.seed,
        summary=summary, infeasible=infeasible,
    )  # fmt: skip
