"""What the ledger knows of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Handle

__all__ = ["Artefact", "Point", "Run", "RunState", "Series", "Stage", "StageState"]

# "interrupted" is never stored: it is a running run whose process is gone.
RunState = Literal["running", "interrupted", "done", "failed", "cancelled"]
StageState = Literal["pending", "running", "done", "failed", "cancelled", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One step of a run."""

    name: str
    state: StageState
    attempt: int = 0  # how many times it was started
    handle: Handle | None = None
    started_s: float | None = None
    ended_s: float | None = None
    result: str = ""  # path of what it found, as JSON
    error: str = ""
    cost_usd: float = 0.0
    exit_code: int | None = None  # of its process, where it failed: 2 wrong input, 3 infeasible, 4 the world refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of a workload file."""

    id: str
    name: str
    state: RunState
    engine: EngineSpec
    folder: str
    workload: str  # the file's text as it was
    workload_hash: str
    created_s: float
    ended_s: float | None = None
    error: str = ""
    versions: tuple[tuple[str, str], ...] = ()
    stages: tuple[Stage, ...] = ()
    stop_asked: bool = False

    @property
    def cost_usd(self) -> float:
        """What its stages cost together."""
        return sum(stage.cost_usd for stage in self.stages)

    @property
    def resumable(self) -> bool:
        """True when `gpuyard resume` can go on with it."""
        return self.state in ("interrupted", "failed", "cancelled")

    def stage(self, name: str) -> Stage | None:
        """The stage of that name."""
        return next((stage for stage in self.stages if stage.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One measured value."""

    step: int
    name: str
    value: float | None  # None: not a finite number
    time_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The values of one metric of one stage, by step."""

    stage: str
    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Artefact:
    """A file that a run made; its path is relative to the run's folder."""

    path: str
    size_bytes: int
    sha256: str
