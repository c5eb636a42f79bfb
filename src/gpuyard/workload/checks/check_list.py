"""Every rule that a well-formed workload file must satisfy, by rule id. A new rule is a new row."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpuyard.catalog.load import Catalog
from gpuyard.errors import Finding, Problem
from gpuyard.workload.checks import graphics, inference, keys, machines, model, training, where
from gpuyard.workload.workload import Workload

Check = Callable[[Workload, Catalog], Iterator[Problem]]  # `where` of a problem is a key path

CHECKS: dict[str, Check] = {
    "name": keys.check_name,
    "missing-key": keys.check_required,
    "unused-key": keys.check_unused,
    "not-positive": keys.check_positive,
    "ratio-above-one": keys.check_ratios,
    "confidence": keys.check_confidence,
    "model-shape": model.check_shape,
    "data-size": training.check_data,
    "batch-size": training.check_batch,
    "training-method": training.check_method,
    "lora-rank": training.check_lora_rank,
    "no-load": inference.check_load,
    "request-size": inference.check_request_size,
    "trace-conflict": inference.check_trace,
    "context-length": inference.check_context,
    "graphics-keys": graphics.check_graphics,
    "hpc-keys": graphics.check_hpc,
    "unknown-hardware": graphics.check_measured_on,
    "provider-keys": where.check_provider,
    "nothing-to-run": where.check_local_pipeline,
    "unknown-region": where.check_region,
    "zone-region": where.check_zone,
    "platform-task": where.check_platform,
    "engine-platform": where.check_engine,
    "unknown-machine": machines.check_names,
    "excluded-machine": machines.check_exclusions,
    "consumption": machines.check_consumption,
    "machine-platform": machines.check_platform,
    "framework": machines.check_framework,
    "qlora-on-tpu": machines.check_qlora,
    "unknown-switch": machines.check_switch,
}


def check_workload(workload: Workload, catalog: Catalog) -> tuple[Finding, ...]:
    """Return the findings of all rules; `where` of a finding is a key path."""
    return tuple(
        Finding(
            rule=rule,
            severity="error",
            where=problem.where,
            what=problem.what,
            fix=problem.fix,
        )
        for rule, check in CHECKS.items()
        for problem in check(workload, catalog)
    )
