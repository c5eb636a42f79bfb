"""Results of lab commands: start-up, all-reduce bandwidth, training with and without faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.lab.state import LabStatus
from gpuyard.lab.training import Trained


@dataclass(frozen=True, slots=True, kw_only=True)
class LabStarted:
    """A lab after `lab up`."""

    status: LabStatus
    fabric: Annotated[str, Doc("summary of the fabric")]
    boot_s: float
    converge_s: Annotated[float | None, Doc("None if a deliberate miswiring prevents convergence")]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """Measured and simulated bus bandwidth of an all-reduce."""

    size_bytes: float
    measured_s: float
    predicted_s: float
    measured_bus_bytes_per_s: float
    predicted_bus_bytes_per_s: float

    @property
    def error_ratio(self) -> float:
        return self.predicted_s / self.measured_s - 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureComparison:
    """A training run with a fault, compared with one without."""

    trained: Trained
    largest_loss_difference: Annotated[
        float, Doc("relative, at the same step with and without the fault")
    ]
    detect_s: Annotated[
        float,
        Doc("BFD detection time: interval x multiplier"),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabResults:
    """All measurements of `lab run`."""

    name: str
    bandwidth: tuple[Bandwidth, ...]
    trained: Trained
    broken: FailureComparison | None = None
