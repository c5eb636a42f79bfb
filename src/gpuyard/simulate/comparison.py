"""One training step by two network models: closed form and flow simulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.simulate.step.timeline import StepTimeline

SAME_RATIO = 0.01


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
    times: Annotated[float, Doc("per step")]
    overlaps_with: Annotated[str, Doc("nothing, forward, backward or attention")]
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
    timeline_step_s: Annotated[float, Doc("the step simulated pass by pass")]
    compute_s: float
    communication_s: Annotated[float, Doc("all collectives of a chip, hidden or not, as simulated")]
    exposed_s: Annotated[float, Doc("communication that compute waits for, as simulated")]
    closed_exposed_s: float
    bubble_s: float
    parts: tuple[StepPart, ...]
    phases: tuple[PhaseTimes, ...]
    timeline: StepTimeline
    notes: tuple[str, ...] = ()

    @property
    def is_confirmation(self) -> bool:
        """Whether every collective takes as long as in the closed form: no link was contended."""
        return all(
            abs(phase.simulated_s - phase.closed_s) <= SAME_RATIO * phase.closed_s
            for phase in self.phases
        )

    @property
    def scope(self) -> str:
        """What the simulation tested independently of the closed form."""
        if self.is_confirmation:
            return (
                "the network is non-blocking for these collectives, so the flow simulation"
                " confirms the closed form; contention would show with oversubscription, failures"
                " or hash collisions"
            )
        return (
            "only the transfer times of collectives are simulated; compute, memory and latency"
            " terms are those of the closed form"
        )
