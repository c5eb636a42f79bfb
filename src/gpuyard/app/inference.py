"""Planning a service: the event simulation under the planner, or the one-pass model for what writes no tokens."""

from __future__ import annotations

from pathlib import Path

from gpuyard.app.events import EventModel
from gpuyard.app.traces import STRETCH, busiest, read_load
from gpuyard.catalog import Catalog
from gpuyard.errors import Infeasible
from gpuyard.plan import Plan
from gpuyard.plan.inference.search import plan_inference
from gpuyard.plan.samples import plan_samples
from gpuyard.simulate.serving import Requests
from gpuyard.workload import Workload

__all__ = ["events_of", "plan_service"]


def plan_service(workload: Workload, catalog: Catalog, folder: Path) -> Plan | Infeasible:
    """The services that keep the targets, the cheapest first; `folder` holds the trace that the file may name."""
    model = workload.model
    assert model is not None, "the checks of an inference workload ask for it"
    if model.kind != "decoder" or model.transformer is None:
        return plan_samples(workload, catalog)
    load, trace = read_load(workload, folder)
    stretch = busiest(trace, STRETCH) if trace is not None else None
    return plan_inference(workload, catalog, load, events_of(workload, stretch, 0))


def events_of(workload: Workload, trace: Requests | None, seed: int) -> EventModel:
    """The event simulation of the workload's model."""
    shape = workload.model.transformer if workload.model else None
    return EventModel(context_tokens=shape.max_context_tokens if shape else None, trace=trace, seed=seed)
