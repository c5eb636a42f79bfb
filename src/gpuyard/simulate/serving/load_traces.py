"""The load of a workload, from its numbers or a recorded trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from gpuyard.plan.inference.load import ServingLoad, load_of
from gpuyard.simulate.serving.load import Requests
from gpuyard.simulate.serving.trace import read_trace
from gpuyard.workload.workload import Workload

PEAK_REQUESTS = 3000  # a search simulates the densest N consecutive requests of a trace


def read_load(workload: Workload, where: Path) -> tuple[ServingLoad, Requests | None]:
    """Return the load and all requests of its trace; `where`: a trace, or the workload's folder."""
    traffic = workload.traffic
    assert traffic is not None, "inference workloads are checked for traffic"
    named = where if where.is_file() else where / traffic.trace if traffic.trace else None
    if named is None:
        return load_of(workload), None
    whole = read_trace(named)
    if traffic.prefix_hit_ratio:
        cached = (whole.prompt_tokens * traffic.prefix_hit_ratio).astype(np.int64)
        whole = replace(whole, cached_tokens=cached)
    part = busiest(whole, PEAK_REQUESTS)
    span = float(part.arrived_s[-1] - part.arrived_s[0]) if part.count > 1 else 1.0
    notes = [f"{named.name}: {whole.count:,} requests"]
    if part.count < whole.count:
        notes.append(f"sized for the densest {part.count:,}, {part.count / span:.3g}/s")
    notes += _beyond(workload, whole)
    return (
        ServingLoad(
            requests_per_s=part.count / max(span, 1e-3),
            users=None,
            input_tokens=float(part.prompt_tokens.mean()),
            output_tokens=float(part.output_tokens.mean()),
            long_output_tokens=float(np.quantile(part.output_tokens, 0.99)),
            hit_ratio=traffic.prefix_hit_ratio,
            arrivals="trace",
            notes=tuple(notes),
        ),
        whole,
    )


def _beyond(workload: Workload, trace: Requests) -> list[str]:
    """Return a note on requests beyond the model's context, which an engine rejects."""
    shape = workload.model.transformer if workload.model else None
    limit = shape.max_context_tokens if shape else None
    lengths = trace.prompt_tokens + trace.output_tokens
    count = int((lengths > limit).sum()) if limit else 0
    if not count:
        return []
    longer = f"longer than the model's context of {limit:,} tokens (up to {int(lengths.max()):,})"
    return [
        (
            f"{count:,} of the {trace.count:,} requests are {longer}: an engine rejects them,"
            " the simulation serves them"
        )
    ]


def busiest(requests: Requests, count: int) -> Requests:
    """Return the `count` consecutive requests with the highest rate; all if there are fewer."""
    if requests.count <= count:
        return requests
    spans = requests.arrived_s[count - 1 :] - requests.arrived_s[: requests.count - count + 1]
    first = int(np.argmin(spans))
    part = slice(first, first + count)
    return Requests(
        arrived_s=requests.arrived_s[part] - requests.arrived_s[first],
        prompt_tokens=requests.prompt_tokens[part],
        output_tokens=requests.output_tokens[part],
        cached_tokens=requests.cached_tokens[part],
    )
