"""One training step: the collectives that it needs, its compute and communication in time, and what stragglers cost."""

from gpuyard.simulate.step.phases import StepPhase, layout_placement, step_phases
from gpuyard.simulate.step.timeline import Event, Slow, StepTimeline, simulate_step
from gpuyard.simulate.step.trace import trace_json
from gpuyard.simulate.step.work import StepWork, step_work

__all__ = [
    "Event", "Slow", "StepPhase", "StepTimeline", "StepWork", "layout_placement", "simulate_step", "step_phases",
    "step_work", "trace_json",
]  # fmt: skip
