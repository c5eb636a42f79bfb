"""Before machines train together: their bus bandwidth, measured on the engine, against what is expected of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from gpuyard.document import Doc
from gpuyard.errors import RefusedError
from gpuyard.jobs import Engine, Task, new_id
from gpuyard.jobs.follow import wait_for
from gpuyard.units import BYTES_PER_S, RATIO, show

__all__ = ["BusProbe", "check_bus"]

LARGE_BYTES = 16 * 1024 * 1024  # of the measured all-reduce


@dataclass(frozen=True, slots=True, kw_only=True)
class BusProbe:
    """What is expected of the network between the processes of a training."""

    bus_bytes_per_s: Annotated[
        float, BYTES_PER_S, Doc("bus bandwidth of an all-reduce, as `gpuyard simulate collective` or a plan gives it")
    ]
    least_ratio: Annotated[float, RATIO, Doc("of it; below this the training does not start")] = 0.8


def check_bus(
    engine: Engine,
    probe: BusProbe,
    folder: Path,
    *,
    nodes: int,
    processes: int,
    tell: Callable[[str], None] = lambda _: None,
) -> float:
    """Measures the bus bandwidth on the engine; RefusedError when it is below what was asked for. Gives it."""
    out = folder / "bus.json"
    out.unlink(missing_ok=True)
    task = Task(
        id=new_id("bus"), argv=(sys.executable, "-m", "gpuyard.measure.processes", str(out), "auto"),
        folder=str(folder), nodes=nodes, processes_per_node=processes, time_limit_s=600.0,
    )  # fmt: skip
    status = wait_for(engine, task)
    if status.state != "done" or not out.exists():
        raise RefusedError("bus probe", status.reason or status.state, "see the log of the probe, or remove run.probe")
    world = nodes * processes
    measured = 2 * (world - 1) / world * LARGE_BYTES / float(json.loads(out.read_text())["large_s"])
    tell(f"bus bandwidth {show(measured, BYTES_PER_S)} of {show(probe.bus_bytes_per_s, BYTES_PER_S)} expected")
    if measured < probe.least_ratio * probe.bus_bytes_per_s:
        raise RefusedError(
            "bus probe",
            f"{show(measured, BYTES_PER_S)} is {measured / probe.bus_bytes_per_s:.0%} of the expected "
            f"{show(probe.bus_bytes_per_s, BYTES_PER_S)}; at least {probe.least_ratio:.0%} are asked for",
            "look for slow links (gpuyard fabric verify --built), or lower run.probe.least",
        )
    return measured
