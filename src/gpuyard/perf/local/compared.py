"""A training as it was predicted, and what was measured beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.document import Doc

__all__ = ["Compared", "Foreseen"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """A training as it is predicted."""

    trainer: str
    steps: int
    step_s: float
    total_s: float
    samples_per_s: float
    memory_bytes: float
    error_ratio: Annotated[float, Doc("mean error of leaving a probe out when the machine was measured")]
    parts: Annotated[tuple[tuple[str, float], ...], Doc("of a step, in seconds; they add up")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One quantity, predicted and measured."""

    name: str
    unit: str
    predicted: float
    measured: float

    @property
    def error_ratio(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted / self.measured - 1.0 if self.measured else float("inf")
