"""Inference: the load is told once and whole, and a request fits the model."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.catalog import Catalog
from gpuyard.workload.checks.training import reads_tokens
from gpuyard.workload.finding import Finding
from gpuyard.workload.keys import entries
from gpuyard.workload.workload import Workload

__all__ = ["has_load", "is_request_sized", "is_request_within_context", "is_trace_alone"]


def has_load(workload: Workload, _catalog: Catalog) -> Iterator[Finding]:
    """How much traffic there is: a rate, a concurrency or a trace."""
    traffic, requirements = workload.traffic, workload.requirements
    if workload.task != "inference" or traffic is None:
        return
    if traffic.trace is None and traffic.concurrency_count is None and requirements.requests_per_s is None:
        yield Finding(
            path="traffic",
            what="nothing says how many requests there are",
            fix="add requirements.requests: 20/s, traffic.concurrency: 64, or traffic.trace: <a CSV file>",
        )


def is_request_sized(workload: Workload, _catalog: Catalog) -> Iterator[Finding]:
    """The lengths of prompt and answer, where the model reads and writes tokens."""
    traffic, model = workload.traffic, workload.model
    if traffic is None or model is None or traffic.trace is not None:
        return
    if not reads_tokens(model):
        for key, value in (("input", traffic.input_tokens), ("output", traffic.output_tokens)):
            if value is not None:
                yield Finding(path=f"traffic.{key}", what=f"{model.name} does not read tokens", fix=f"remove {key}")
        return
    if traffic.input_tokens is None:
        yield Finding(path="traffic", what='"input" is missing', fix="add input: <tokens of a prompt, such as 1000>")
    if traffic.output_tokens is None and model.kind != "encoder":
        yield Finding(path="traffic", what='"output" is missing', fix="add output: <tokens of an answer, such as 200>")


def is_trace_alone(workload: Workload, _catalog: Catalog) -> Iterator[Finding]:
    """Keys that say again what the trace says."""
    if workload.traffic is None or workload.traffic.trace is None:
        return
    told = {"traffic.input", "traffic.output", "traffic.arrivals", "traffic.concurrency", "requirements.requests"}
    for entry in entries(workload):
        if entry.path in told and entry.given:
            yield Finding(
                path=entry.path,
                what=f"the trace {workload.traffic.trace} tells it already",
                fix=f"remove {entry.key.word}, or remove trace",
            )


def is_request_within_context(workload: Workload, _catalog: Catalog) -> Iterator[Finding]:
    """A prompt and answer longer than the model can hold."""
    traffic, model = workload.traffic, workload.model
    if traffic is None or model is None or model.transformer is None or model.transformer.max_context_tokens is None:
        return
    limit = model.transformer.max_context_tokens
    prompt, answer = traffic.input_tokens or 0, traffic.output_tokens or 0
    if prompt + answer <= limit:
        return
    key = "output" if answer > prompt else "input"
    yield Finding(
        path=f"traffic.{key}",
        what=f"{prompt:.0f} input and {answer:.0f} output tokens are more than the context of {model.name}, {limit}",
        fix=f"keep input and output together to {limit} tokens, or use a model with a longer context",
    )
