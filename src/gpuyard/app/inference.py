"""Plan a service: event simulation for LLMs, the single-pass model for the others."""

from __future__ import annotations

from pathlib import Path

from gpuyard.catalog.load import Catalog
from gpuyard.errors import Infeasible
from gpuyard.plan.inference.refine import SimulationCache
from gpuyard.plan.inference.search import plan_inference
from gpuyard.plan.option import Plan
from gpuyard.plan.single_pass import plan_single_pass
from gpuyard.simulate.serving.load import Requests
from gpuyard.simulate.serving.load_traces import PEAK_REQUESTS, busiest, read_load
from gpuyard.simulate.serving.simulated_serving import SimulatedServing
from gpuyard.workload.workload import Workload


def plan_service(
    workload: Workload, catalog: Catalog, folder: Path, cache: SimulationCache | None = None
) -> Plan | Infeasible:
    """Plan the services that meet the targets, cheapest first."""
    model = workload.model
    assert model is not None, "the checks of an inference workload ask for it"
    if model.kind not in ("decoder", "encoder-decoder") or model.transformer is None:
        return plan_single_pass(workload, catalog)
    load, trace = read_load(workload, folder)
    peak = busiest(trace, PEAK_REQUESTS) if trace is not None else None
    return plan_inference(workload, catalog, load, events_of(workload, peak, 0), cache)


def events_of(workload: Workload, trace: Requests | None, seed: int) -> SimulatedServing:
    """The event simulation of the workload's model."""
    shape = workload.model.transformer if workload.model else None
    return SimulatedServing(
        context_tokens=shape.max_context_tokens if shape else None, trace=trace, seed=seed
    )
