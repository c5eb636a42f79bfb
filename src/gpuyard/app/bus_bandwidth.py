"""Bus bandwidth check before a distributed training run starts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.errors import ExternalError
from gpuyard.jobs.task import Engine, Task, new_id
from gpuyard.jobs.task_runner import run_detached_task
from gpuyard.units import BYTES_PER_S, RATIO, show

LARGE_BYTES = 16 * 1024 * 1024  # of the measured all-reduce


@dataclass(frozen=True, slots=True, kw_only=True)
class BusProbe:
    """Expected bus bandwidth between the processes of a training run."""

    bus_bytes_per_s: Annotated[
        float,
        BYTES_PER_S,
        Doc("bus bandwidth of an all-reduce, as `gpuyard simulate collective` or a plan gives it"),
    ]
    least_ratio: Annotated[
        float, RATIO, Doc("minimum share; below it the training run does not start")
    ] = 0.8


def check_bus(
    engine: Engine,
    probe: BusProbe,
    folder: Path,
    *,
    nodes: int,
    processes: int,
    on_progress: Callable[[str], None] = lambda _: None,
) -> float:
    """Measure bus bandwidth on the engine and return it; ExternalError if it is too low."""
    out = folder / "bus.json"
    out.unlink(missing_ok=True)
    task = Task(
        id=new_id("bus"),
        argv=(sys.executable, "-m", "gpuyard.measure.processes", str(out), "auto"),
        folder=str(folder),
        nodes=nodes,
        processes_per_node=processes,
        time_limit_s=600.0,
    )
    status = run_detached_task(engine, task)
    if status.state != "done" or not out.exists():
        raise ExternalError(
            "bus probe",
            status.reason or status.state,
            "see the log of the probe, or remove run.probe",
        )
    world = nodes * processes
    measured = 2 * (world - 1) / world * LARGE_BYTES / float(json.loads(out.read_text())["large_s"])
    rate, expected = show(measured, BYTES_PER_S), show(probe.bus_bytes_per_s, BYTES_PER_S)
    on_progress(f"bus bandwidth {rate} of {expected} expected")
    if measured < probe.least_ratio * probe.bus_bytes_per_s:
        share = f"{measured / probe.bus_bytes_per_s:.0%}"
        raise ExternalError(
            "bus probe",
            f"{rate} is {share} of the expected {expected}; the minimum is {probe.least_ratio:.0%}",
            "look for slow links (gpuyard fabric verify --as-built), or lower run.probe.least",
        )
    return measured
