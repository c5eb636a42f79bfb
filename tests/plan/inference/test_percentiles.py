"""Targets on percentiles of latencies: read, screened, met in simulation, reported with a chance."""

from __future__ import annotations

from dataclasses import replace

from gpuyard.plan.inference.load import TAIL_RATIOS, targets_of
from gpuyard.plan.inference.refine import missed_targets
from gpuyard.plan.inference.replica import ReplicaLatencies
from gpuyard.plan.option import Plan
from gpuyard.plan.single_pass import plan_single_pass
from gpuyard.workload.read import parse_workload
from gpuyard.workload.requirements import TAILS

from .services import CATALOG, flat, plan, workload


def latencies(ttft_s: float, tpot_s: float) -> ReplicaLatencies:
    return ReplicaLatencies(
        ttft=replace(flat(ttft_s), p95_s=3.0 * ttft_s),
        tpot=flat(tpot_s),
        e2e=flat(ttft_s + 100.0 * tpot_s),
        requests_per_s=1.0,
        output_tokens_per_s=100.0,
        batch_count=1.0,
    )


def test_targets_are_compared_with_their_percentile() -> None:
    targets = targets_of(workload(targets="ttft_p95: 500ms, e2e_p50: 10s").requirements)
    assert missed_targets(latencies(0.1, 0.01), targets) == ()
    (missed,) = missed_targets(latencies(0.2, 0.01), targets)
    assert (missed.name, missed.limit_s) == ("ttft_p95", 0.5)


def test_every_percentile_has_a_ratio_for_screening() -> None:
    assert {(metric, p) for metric, row in TAIL_RATIOS.items() for p in row} == set(TAILS)


def test_options_meet_percentiles_with_a_chance() -> None:
    found = plan(workload(targets="ttft_p99: 1s, tpot_p90: 60ms"))
    option = found.options[0]
    assert {limit.name for limit in option.limits} == {"ttft_p99", "tpot_p90"}
    for limit in option.limits:
        predicted = option.prediction(f"{limit.name}_s")
        assert predicted is not None
        assert limit.chance == predicted.interval.chance_below(limit.limit)


def test_encoder_meets_a_percentile_of_the_latency() -> None:
    text = """
task: inference
model: bert-large
traffic: {input: 512}
requirements: {requests: 50/s, e2e_p95: 100ms}
where: {machines: [g2-standard-4], region: us-central1}
"""
    served = plan_single_pass(parse_workload(text, "w.yaml", CATALOG), CATALOG)
    assert isinstance(served, Plan)
    assert [limit.name for limit in served.options[0].limits] == ["e2e_p95"]
    assert served.options[0].meets_limits
