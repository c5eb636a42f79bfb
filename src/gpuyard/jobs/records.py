"""Records of the ledger: runs, stages and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Handle

STAGES = ("data", "train", "evaluate", "select", "register", "deploy")  # of a pipeline
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
    result: str = ""  # path of its result, a JSON file
    error: str = ""
    cost_usd: float = 0.0
    # Of a failed process: 2 wrong input, 3 infeasible, 4 external error.
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of a workload file."""

    id: str
    name: str
    state: RunState
    engine: EngineSpec
    folder: str
    workload: str  # text of the file when the run began
    workload_hash: str
    created_s: float
    ended_s: float | None = None
    error: str = ""
    versions: tuple[tuple[str, str], ...] = ()
    stages: tuple[Stage, ...] = ()
    stop_asked: bool = False
    tags: tuple[tuple[str, str], ...] = ()
    note: str = ""
    until: str = ""  # the last requested stage; empty for all

    @property
    def cost_usd(self) -> float:
        """Total cost of its stages."""
        return sum(stage.cost_usd for stage in self.stages)

    @property
    def resumable(self) -> bool:
        """Whether `gpuyard resume` can continue it."""
        left = any(stage.state == "pending" for stage in self.stages)
        return self.state in ("interrupted", "failed", "cancelled") or (
            self.state == "done" and left  # `gpuyard run --until`
        )

    def stage(self, name: str) -> Stage | None:
        return next((stage for stage in self.stages if stage.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPoint:
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
    points: tuple[MetricPoint, ...]
