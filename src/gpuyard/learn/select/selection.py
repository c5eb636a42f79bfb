"""The result of a selection: winner, ranking, and rejected trials with reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from gpuyard.document.field_types import Doc
from gpuyard.learn.evaluate.compare import Comparison
from gpuyard.learn.evaluate.intervals import MetricScore
from gpuyard.learn.spec import TrainSpec
from gpuyard.registry.bundle import Tag

State: TypeAlias = Literal["complete", "pruned", "failed", "repeated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Serving footprint of an exported bundle, measured in a separate process on one thread."""

    latency_s: Annotated[float, Doc("median of single rows")]
    latency_p99_s: Annotated[float, Doc("99th percentile of single rows")]
    batch_latency_s: Annotated[float, Doc("median of a batch")]
    batch_rows: int
    memory_bytes: Annotated[float, Doc("peak of the whole process")]
    size_bytes: Annotated[float, Doc("size of the bundle's files")]
    cost_usd: Annotated[float | None, Doc("per million predictions on the planned hardware")] = None

    @property
    def rows_per_s(self) -> float:
        """Predictions per second of one thread, in batches."""
        return self.batch_rows / self.batch_latency_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One setting of a trainer and its outcome."""

    number: int
    trainer: str
    parameters: tuple[Tag, ...]
    train: TrainSpec
    state: State
    score: MetricScore | None = None  # over the folds that ran
    reason: str = ""
    footprint: Footprint | None = None

    @property
    def label(self) -> str:
        parameters = ", ".join(f"{tag.name} {tag.value}" for tag in self.parameters)
        return f"{self.trainer} ({parameters})" if parameters else self.trainer


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A trial that was not chosen, and why."""

    number: int
    label: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The chosen setting and how it was chosen."""

    metric: str
    higher: bool
    search: str
    prune: str
    seed: int
    winner: Trial
    ranking: tuple[Trial, ...]  # complete trials, best first
    rejected: tuple[Rejection, ...]
    against_second: Comparison | None = None
    fits_count: int
    fits_saved_count: int
    data: str = ""

    @property
    def train(self) -> TrainSpec:
        return self.winner.train
