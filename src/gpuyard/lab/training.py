"""Data-parallel training over the servers of a lab, with faults injected during the run."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.errors import ExternalError
from gpuyard.fabric.fabric import Device
from gpuyard.lab.links import Lab
from gpuyard.lab.processes import LabJob, start
from gpuyard.learn.metrics_log import StepMetrics, read_metrics

Act = Callable[[LabJob], None]
LIMIT_S = 900.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScheduledFault:
    """A fault to inject when the training reaches a step."""

    step: int
    what: str
    act: Act


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultImpact:
    """A fault, and the longest step between it and the next one."""

    step: int
    what: str
    longest_step_s: float
    pause_s: Annotated[float, Doc("longest step minus the median step")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """The result of a training run."""

    steps: int
    servers_count: int
    losses: Annotated[tuple[tuple[int, float], ...], Doc("step and loss")]
    median_step_s: float
    starts_count: Annotated[int, Doc("one, plus one per lost server")]
    happened: tuple[FaultImpact, ...] = ()


class _Watch:
    """Polls the metrics and injects each fault at its step."""

    def __init__(self, path: Path, events: list[ScheduledFault]) -> None:
        self.path, self.events = path, events
        self.fired: list[tuple[int, ScheduledFault]] = []
        self.job: LabJob | None = None

    def poll(self) -> None:
        if not self.events:
            return
        lines = read_metrics(self.path) if self.path.exists() else ()
        reached = max((line.step for line in lines), default=0)
        while self.events and self.events[0].step <= reached and self.job is not None:
            event = self.events.pop(0)
            self.fired.append((reached, event))
            event.act(self.job)


def train(
    lab: Lab,
    folder: Path,
    *,
    servers: Sequence[Device],
    events: Sequence[ScheduledFault] = (),
    tries: int = 3,
) -> Trained:
    """Train the task in `folder` (task.json); after a lost server, restart from the checkpoint."""
    watch = _Watch(folder / "metrics.jsonl", sorted(events, key=lambda event: event.step))
    command = [sys.executable, "-m", "gpuyard.learn.worker", str(folder)]
    starts = 0
    while True:
        starts += 1
        job = start(lab, command, folder, servers=servers)
        watch.job = job
        before = len(watch.fired)
        try:
            job.wait(LIMIT_S, watch.poll)
            break
        except ExternalError:
            # Only injected faults are retried.
            if starts >= tries or len(watch.fired) == before:
                raise
    return _result(read_metrics(folder / "metrics.jsonl"), watch.fired, len(servers), starts)


def _result(
    lines: Sequence[StepMetrics],
    fired: Sequence[tuple[int, ScheduledFault]],
    servers: int,
    starts: int,
) -> Trained:
    times = [(line.step, line.step_s) for line in lines if line.step_s is not None]
    median_s = statistics.median(time_s for _, time_s in times) if times else 0.0
    happened = []
    for place, (step, event) in enumerate(fired):
        until = fired[place + 1][0] if place + 1 < len(fired) else sys.maxsize
        longest_s = max((time_s for at, time_s in times if step <= at <= until), default=0.0)
        happened.append(
            FaultImpact(
                step=step,
                what=event.what,
                longest_step_s=longest_s,
                pause_s=max(0.0, longest_s - median_s),
            )
        )
    return Trained(
        steps=max((line.step for line in lines), default=0),
        servers_count=servers,
        losses=tuple((line.step, line.loss) for line in lines if line.loss is not None),
        median_step_s=median_s,
        starts_count=starts,
        happened=tuple(happened),
    )
