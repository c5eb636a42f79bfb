"""The tracker interface: what an export knows about a run, and what it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpuyard.jobs.records import MetricPoint, RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDescription:
    """A run as trackers show it."""

    id: str
    name: str
    state: RunState
    created_s: float
    ended_s: float | None
    settings: tuple[tuple[str, str], ...]
    tags: tuple[tuple[str, str], ...]
    note: str
    scores: tuple[tuple[str, float], ...]  # `evaluate/accuracy`, once evaluated
    files: tuple[tuple[str, Path], ...]  # artefacts: path in the tracker, file


class Tracker(Protocol):
    """An open export of one run; every method may be repeated after a failure."""

    def start(self, run: RunDescription) -> str:
        """Create or find the run, record its settings and tags; return where it is shown."""
        ...

    def log(self, stage: str, points: Sequence[MetricPoint]) -> None:
        """Record metrics of a stage."""
        ...

    def finish(self, run: RunDescription) -> None:
        """Record scores, artefacts and the final state."""
        ...

    def close(self) -> None:
        """Release files and connections."""
        ...
