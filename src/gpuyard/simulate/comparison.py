"""One training step by two network models: the closed forms, and flows over a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.document import Doc
from gpuyard.simulate.step import StepTimeline

__all__ = ["PhaseTimes", "StepPart", "StepRun"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPart:
    """A term of the step by both models."""

    name: str
    closed_s: float
    simulated_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTimes:
    """A collective of the step by both models."""

    label: str
    collective: str
    axis: str
    ranks: int
    size_bytes: float
    times: Annotated[float, Doc("a step")]
    beside: Annotated[str, Doc("what it runs beside")]
    closed_s: Annotated[float, Doc("of one")]
    simulated_s: float
    bus_bytes_per_s: Annotated[float, Doc("as simulated, by the definition of nccl-tests")]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRun:
    """A step of a planned option."""

    workload: str
    machine: str
    machine_count: int
    chip_count: int
    precision: str
    layout: str
    network: str
    balancing: str
    closed_step_s: Annotated[float, Doc("the plan's step, in closed form")]
    simulated_step_s: Annotated[float, Doc("the same with simulated collectives")]
    timeline_step_s: Annotated[float, Doc("the step played pass by pass")]
    compute_s: float
    communication_s: Annotated[float, Doc("all collectives of a chip, hidden or not, as simulated")]
    exposed_s: Annotated[float, Doc("communication that compute waits for, as simulated")]
    closed_exposed_s: float
    bubble_s: float
    parts: tuple[StepPart, ...]
    phases: tuple[PhaseTimes, ...]
    timeline: StepTimeline
    notes: tuple[str, ...] = ()
