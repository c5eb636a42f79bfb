"""What a selection came to: the winner, the ranking, and what was rejected and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from gpuyard.document import Doc
from gpuyard.learn.evaluate.compare import Comparison
from gpuyard.learn.evaluate.intervals import Score
from gpuyard.learn.spec import TrainSpec
from gpuyard.registry import Pair

__all__ = ["Footprint", "Rejection", "Selection", "State", "Trial"]

State: TypeAlias = Literal["complete", "pruned", "failed", "repeated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """What serving a model takes, measured on its exported bundle in a process of its own, one thread."""

    latency_s: Annotated[float, Doc("median of one row")]
    latency_p99_s: Annotated[float, Doc("99 of 100 single rows")]
    batch_latency_s: Annotated[float, Doc("median of a batch")]
    batch_rows: int
    memory_bytes: Annotated[float, Doc("of the whole process, at its most")]
    size_bytes: Annotated[float, Doc("of the bundle's files")]
    cost_usd: Annotated[float | None, Doc("of a million predictions on the planned hardware")] = None

    @property
    def rows_per_s(self) -> float:
        """Predictions a second of one thread, in batches."""
        return self.batch_rows / self.batch_latency_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One setting that was tried."""

    number: int
    trainer: str
    parameters: tuple[Pair, ...]
    train: TrainSpec
    state: State
    score: Score | None = None  # over the folds that were run
    reason: str = ""
    footprint: Footprint | None = None

    @property
    def label(self) -> str:
        """The setting on one line."""
        inside = ", ".join(f"{pair.name} {pair.value}" for pair in self.parameters)
        return f"{self.trainer} ({inside})" if inside else self.trainer


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A trial that was not chosen, and why."""

    number: int
    label: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The chosen setting and how it was found."""

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
        """What to train: the winner's setting."""
        return self.winner.train
