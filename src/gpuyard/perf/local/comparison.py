"""A predicted local training run and its measurement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import Doc


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPrediction:
    """A predicted training run."""

    trainer: str
    steps: int
    step_s: float
    total_s: float
    samples_per_s: float
    memory_bytes: float
    error_ratio: Annotated[float, Doc("mean held-out error of the probes")]
    parts: Annotated[tuple[tuple[str, float], ...], Doc("terms of a step, in seconds")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedVsMeasured:
    """One quantity, predicted and measured."""

    name: str
    unit: str
    predicted: float
    measured: float
    stated_ratio: Annotated[
        float | None, Doc("error that the prediction stated; null: none was stated")
    ] = None

    @property
    def is_outside(self) -> bool:
        """Whether the measurement is outside the stated error."""
        return self.stated_ratio is not None and abs(self.error_ratio) > self.stated_ratio

    @property
    def error_ratio(self) -> float:
        """Predicted over measured, minus one."""
        return self.predicted / self.measured - 1.0 if self.measured else float("inf")
