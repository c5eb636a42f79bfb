"""A data-parallel training with one process on every server of a lab, and what a failure in the middle does to it."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from gpuyard.document import Doc
from gpuyard.errors import RefusedError
from gpuyard.fabric import Device
from gpuyard.lab.wires import Lab
from gpuyard.lab.work import Job, start
from gpuyard.learn import StepMetrics, read_metrics

__all__ = ["Event", "Happened", "Trained", "train"]

Act = Callable[[Job], None]
LIMIT_S = 900.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Event:
    """Something that is done to the lab when the training has come to a step."""

    step: int
    what: str
    act: Act


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """An event, and the longest step between it and the next one."""

    step: int
    what: str
    longest_step_s: float
    pause_s: Annotated[float, Doc("the longest step less the median of all")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What a training came to."""

    steps: int
    servers_count: int
    losses: Annotated[tuple[tuple[int, float], ...], Doc("step and loss")]
    median_step_s: float
    starts_count: Annotated[int, Doc("one, and one more for each time that a server was lost")]
    happened: tuple[Happened, ...] = ()


class _Watch:
    """Looks at the metrics as they are written and lets events happen at their steps."""

    def __init__(self, path: Path, events: list[Event]) -> None:
        self.path, self.events = path, events
        self.fired: list[tuple[int, Event]] = []
        self.job: Job | None = None

    def look(self) -> None:
        """Fires what is due."""
        if not self.events:
            return
        lines = read_metrics(self.path) if self.path.exists() else ()
        reached = max((line.step for line in lines), default=0)
        while self.events and self.events[0].step <= reached and self.job is not None:
            event = self.events.pop(0)
            self.fired.append((reached, event))
            event.act(self.job)


def train(
    lab: Lab, folder: Path, *, servers: Sequence[Device], events: Sequence[Event] = (), tries: int = 3
) -> Trained:
    """Trains the task in `folder` (task.json) over the servers; after a lost server all start from the checkpoint."""
    watch = _Watch(folder / "metrics.jsonl", sorted(events, key=lambda event: event.step))
    words = [sys.executable, "-m", "gpuyard.learn.worker", str(folder)]
    starts = 0
    while True:
        starts += 1
        job = start(lab, words, folder, servers=servers)
        watch.job = job
        before = len(watch.fired)
        try:
            job.wait(LIMIT_S, watch.look)
            break
        except RefusedError:
            if starts >= tries or len(watch.fired) == before:  # a failure that nobody asked for is not tried again
                raise
    return _told(read_metrics(folder / "metrics.jsonl"), watch.fired, len(servers), starts)


def _told(lines: Sequence[StepMetrics], fired: Sequence[tuple[int, Event]], servers: int, starts: int) -> Trained:
    """The training in numbers."""
    times = [(line.step, line.step_s) for line in lines if line.step_s is not None]
    median_s = statistics.median(time_s for _, time_s in times) if times else 0.0
    happened = []
    for place, (step, event) in enumerate(fired):
        until = fired[place + 1][0] if place + 1 < len(fired) else sys.maxsize
        longest_s = max((time_s for at, time_s in times if step <= at <= until), default=0.0)
        happened.append(Happened(
            step=step, what=event.what, longest_step_s=longest_s, pause_s=max(0.0, longest_s - median_s)
        ))  # fmt: skip
    return Trained(
        steps=max((line.step for line in lines), default=0),
        servers_count=servers,
        losses=tuple((line.step, line.loss) for line in lines if line.loss is not None),
        median_step_s=median_s,
        starts_count=starts,
        happened=tuple(happened),
    )
