"""Checks of inference workloads: the load is given once, and a request fits the model."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.catalog.load import Catalog
from gpuyard.errors import Problem
from gpuyard.workload.checks.training import takes_tokens
from gpuyard.workload.key_rules import entries
from gpuyard.workload.workload import Workload


def check_load(workload: Workload, _catalog: Catalog) -> Iterator[Problem]:
    """Report a load without a rate, a concurrency or a trace."""
    traffic, requirements = workload.traffic, workload.requirements
    if workload.task != "inference" or traffic is None:
        return
    if (
        traffic.trace is None
        and traffic.concurrency_count is None
        and requirements.requests_per_s is None
    ):
        yield Problem(
            where="traffic",
            what="the load is missing",
            fix="add requirements.requests: 20/s, traffic.concurrency: 64, "
            "or traffic.trace: <a CSV file>",
        )


def check_request_size(workload: Workload, _catalog: Catalog) -> Iterator[Problem]:
    """Report missing prompt and output lengths, and lengths of a model without tokens."""
    traffic, model = workload.traffic, workload.model
    if traffic is None or model is None or traffic.trace is not None:
        return
    if not takes_tokens(model):
        for key, value in (("input", traffic.input_tokens), ("output", traffic.output_tokens)):
            if value is not None:
                yield Problem(
                    where=f"traffic.{key}",
                    what=f"{model.name} does not take tokens",
                    fix=f"remove {key}",
                )
        return
    if traffic.input_tokens is None:
        yield Problem(
            where="traffic",
            what='"input" is missing',
            fix="add input: <mean prompt tokens, such as 1000>",
        )
    if traffic.output_tokens is None and model.kind != "encoder":
        yield Problem(
            where="traffic",
            what='"output" is missing',
            fix="add output: <mean output tokens, such as 200>",
        )


def check_trace(workload: Workload, _catalog: Catalog) -> Iterator[Problem]:
    """Report keys that repeat what the trace contains."""
    if workload.traffic is None or workload.traffic.trace is None:
        return
    in_trace = {
        "traffic.input",
        "traffic.output",
        "traffic.arrivals",
        "traffic.concurrency",
        "requirements.requests",
    }
    for entry in entries(workload):
        if entry.path in in_trace and entry.given:
            yield Problem(
                where=entry.path,
                what=f"conflicts with the trace {workload.traffic.trace}",
                fix=f"remove {entry.key.word}, or remove trace",
            )


def check_context(workload: Workload, _catalog: Catalog) -> Iterator[Problem]:
    """Report requests longer than the model's context."""
    traffic, model = workload.traffic, workload.model
    if (
        traffic is None
        or model is None
        or model.transformer is None
        or model.transformer.max_context_tokens is None
    ):
        return
    limit = model.transformer.max_context_tokens
    prompt = traffic.input_tokens or 0
    output = traffic.output_tokens or 0
    if prompt + output <= limit:
        return
    key = "output" if output > prompt else "input"
    yield Problem(
        where=f"traffic.{key}",
        what=f"{prompt:.0f} input and {output:.0f} output tokens exceed the context of "
        f"{model.name}, {limit}",
        fix=f"reduce input plus output to {limit} tokens, or use a model with a longer context",
    )
