"""What came of a lab: that it is up, its bandwidth beside the simulated one, trainings with and without failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.document import Doc
from gpuyard.lab.state import Status
from gpuyard.lab.training import Trained

__all__ = ["Bandwidth", "Broken", "Raised", "Ran"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """A lab that is up."""

    status: Status
    fabric: Annotated[str, Doc("what stands, in words")]
    boot_s: float
    converge_s: Annotated[float | None, Doc("None where a miswiring on purpose keeps it from converging")]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """An all-reduce over the lab, measured and simulated."""

    size_bytes: float
    measured_s: float
    predicted_s: float
    measured_bus_bytes_per_s: float
    predicted_bus_bytes_per_s: float

    @property
    def error_ratio(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted_s / self.measured_s - 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The training with a failure against the one without."""

    trained: Trained
    largest_loss_difference: Annotated[float, Doc("of the same step, with and without the failure, relative")]
    detect_s: Annotated[float, Doc("after which the routing gives up a silent neighbour: BFD's interval x multiplier")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """Everything that was measured."""

    name: str
    bandwidth: tuple[Bandwidth, ...]
    trained: Trained
    broken: Broken | None = None
