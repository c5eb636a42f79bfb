"""LLM serving plans: targets are met, cost is monotonic, and infeasible loads report a fix."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from gpuyard.app.inference import plan_service
from gpuyard.document.encode import dump_json, load_json
from gpuyard.errors import Infeasible, InputError
from gpuyard.perf.inference.shape import shape_of
from gpuyard.plan.option import Plan
from gpuyard.units import DURATION, parse
from gpuyard.workload.read import read_workload

from .services import CATALOG, on, plan, refused, workload

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_options_meet_every_target() -> None:
    found = plan(workload())
    for option in found.options:
        service = option.service
        assert service is not None
        assert service.ttft is not None
        assert service.tpot is not None
        assert service.ttft.mean_s <= 1.0
        assert service.tpot.mean_s <= 0.060
        assert service.requests_per_s == pytest.approx(20.0)
        assert option.cluster.chip_count >= service.replicas * service.chips_per_replica
        assert sum(part.value for part in option.memory_parts) == pytest.approx(
            option.memory_capacity_bytes, rel=0.02
        )
        assert sum(part.value for part in option.step_parts) == pytest.approx(option.step_s)


def test_options_that_meet_a_target_only_nominally_come_last() -> None:
    found = plan(workload(where="region: us-central1")).options
    risky = [not option.meets_limits for option in found]
    assert len(risky) > 5
    assert risky == sorted(risky)
    sure = [option for option in found if option.meets_limits and option.measured and option.usd]
    assert (sure[0].usd or 0.0) <= 1.1 * min(option.usd or math.inf for option in sure)


@pytest.mark.parametrize("percent", [60, 90, 99])
def test_first_option_meets_targets_with_the_confidence_of_the_file(percent: int) -> None:
    wanted = workload(
        where="region: us-central1, machines: [a3-*, a2-*, g2-*]", more=f", confidence: {percent}%"
    )
    best = plan(wanted).options[0]
    assert best.meets_limits
    assert {limit.name for limit in best.limits} == {"ttft", "tpot"}
    for limit in best.limits:
        assert limit.chance >= percent / 100 - 1e-6


def test_more_confidence_never_costs_less() -> None:
    where = "region: us-central1, machines: [a2-highgpu-1g]"
    costs = [
        on(
            plan(workload(rate="40/s", where=where, more=f", confidence: {percent}%")),
            "a2-highgpu-1g",
        ).usd
        for percent in (50, 80, 95)
    ]
    assert costs == sorted(costs, key=lambda usd: usd or 0.0)


def test_chance_follows_from_value_and_error_bar() -> None:
    found = plan(workload(targets="ttft: 150ms, tpot: 40ms", where="region: us-central1")).options
    for option in found:
        service = option.service
        assert service is not None
        chances = {limit.name: limit for limit in option.limits}
        assert list(service.risks) == [limit.name for limit in option.limits if not limit.met]
        for name, spread, limit_s in (
            ("ttft", service.ttft, 0.150),
            ("tpot", service.tpot, 0.040),
        ):
            assert spread is not None
            assert chances[name].chance >= 0.5
            surely = spread.mean_s * (1.0 + spread.error_ratio) <= limit_s
            assert chances[name].met == (surely or chances[name].chance >= 0.9)
        assert bool(service.risks) == any(
            "measure before you rely on it" in reason for reason in option.reasons
        )


def test_cold_starts_are_reported_and_put_ttft_at_risk() -> None:
    lonely = plan(workload(rate="0.0005/s", targets="ttft: 1s", where="platform: cloud-run"))
    option = on(lonely, "g2-standard-4")
    assert option.service is not None
    assert option.service.risks == ("ttft",)
    assert any("wait for a cold start (5s" in reason for reason in option.reasons)
    busy = on(
        plan(workload(rate="0.5/s", targets="ttft: 1s", where="platform: cloud-run")),
        "g2-standard-4",
    )
    assert busy.service is not None
    assert busy.service.risks == ()


def test_cost_never_falls_with_load() -> None:
    costs = [plan(workload(rate=f"{rate}/s")).options[0].usd for rate in (5, 20, 80, 320)]
    assert all(usd is not None for usd in costs)
    assert costs == sorted(costs)  # type: ignore[type-var]


def test_cost_never_falls_with_tighter_target() -> None:
    costs = [plan(workload(targets=f"tpot: {ms}ms")).options[0].usd for ms in (200, 60, 25)]
    assert costs == sorted(costs)  # type: ignore[type-var]


def test_cost_per_token_follows_from_bill() -> None:
    option = plan(workload()).options[0]
    service, usd = option.service, option.usd
    assert service is not None
    assert usd is not None
    assert service.usd_per_million_output_tokens == pytest.approx(usd / (20.0 * 100 * 3600) * 1e6)
    assert service.usd_per_million_tokens == pytest.approx(usd / (20.0 * 600 * 3600) * 1e6)


def test_closed_loop_load_is_planned() -> None:
    wanted = workload(
        rate="", targets="tpot: 60ms", lengths="input: 500, output: 100, concurrency: 64"
    )
    for option in plan(wanted).options:
        assert option.service is not None
        assert option.service.batch_count * option.service.replicas >= 64 - option.service.replicas


def test_weight_dtype_follows_chip() -> None:
    found = plan(workload(where="machines: [a3-ultragpu-8g, a2-highgpu-1g]", targets="tpot: 100ms"))
    service = on(found, "a3-ultragpu-8g").service
    assert service is not None
    assert service.weights in ("bf16", "fp8")
    other = on(found, "a2-highgpu-1g").service
    assert other is not None
    assert other.weights in ("bf16", "int8")


def test_requested_precision_is_used() -> None:
    found = plan(workload(more=", precision: bf16"))
    assert {option.precision for option in found.options} == {"bf16"}
    with pytest.raises(InputError, match="serving engines do not support fp32"):
        plan(workload(more=", precision: fp32"))


def test_4_bit_weights_only_when_no_wider_dtype_fits() -> None:
    where = "machines: [g2-standard-48, g2-standard-96]"
    found = plan(workload("llama-3.3-70b", rate="1/s", targets="tpot: 1s", where=where))
    assert on(found, "g2-standard-96").precision in ("bf16", "fp8")
    assert on(found, "g2-standard-48").precision == "int4-weights"


def test_availability_adds_spare_replicas() -> None:
    where = "machines: [a3-ultragpu-8g]"
    plain = plan(workload("llama-3-70b", rate="20/s", where=where)).options[0]
    sure = plan(
        workload("llama-3-70b", rate="20/s", where=where, more=", availability: 99.999%")
    ).options[0]
    assert plain.service is not None
    assert sure.service is not None
    assert plain.service.spare_replicas == 0
    assert sure.service.spare_replicas > 0
    assert sure.cluster.machine_count > plain.cluster.machine_count
    assert sure.service.autoscaling.min_replicas > plain.service.autoscaling.min_replicas


def test_spot_is_used_only_when_named() -> None:
    ways = {bill.consumption for option in plan(workload()).options for bill in option.bills}
    assert not ways & {"spot", "flex-start"}
    named = plan(workload(where="machines: [g2-standard-*], consumption: [spot]"))
    assert {bill.consumption for option in named.options for bill in option.bills} == {"spot"}


def test_cloud_run_service_scales_to_zero() -> None:
    where = "platform: cloud-run, region: us-central1"
    targets = "ttft: 2s, tpot: 100ms"
    busy = plan(workload(rate="2/s", targets=targets, where=where)).options[0]
    idle = plan(workload(rate="1/h", targets=targets, where=where)).options[0]
    assert busy.service is not None
    assert idle.service is not None
    assert busy.service.serverless
    assert busy.service.chips_per_replica == 1
    assert idle.service.autoscaling.min_replicas == 0
    assert idle.service.autoscaling.start_s == 5.0
    assert idle.usd is not None
    assert busy.usd is not None
    assert 0.0 < idle.usd < 0.25 * busy.usd


def test_cpu_only_serving_is_planned_when_sufficient() -> None:
    found = plan(
        workload(
            "llama-3.2-1b", rate="1/s", targets="tpot: 200ms", where="machines: [c3-standard-44]"
        )
    )
    service = found.options[0].service
    assert service is not None
    assert service.engine.name == "vllm-cpu"
    assert found.options[0].cluster.chip_count == 0
    assert service.engine.command[0].startswith("VLLM_CPU_KVCACHE_SPACE=")


def test_replica_spans_machines_when_one_is_too_small() -> None:
    wanted = workload(
        "deepseek-r1", rate="2/s", targets="tpot: 200ms", where="machines: [a3-megagpu-8g]"
    )
    option = plan(wanted).options[0]
    assert option.service is not None
    assert option.service.chips_per_replica > 8
    assert option.service.weights == "fp8-block"
    assert len(option.service.engine.command) > 1 or "srun" in option.service.engine.command[0]


def test_model_larger_than_memory_is_infeasible() -> None:
    found = refused(workload("llama-3.1-405b", where="machines: [g2-standard-4]"))
    assert found.binding == "memory"
    assert "g2-standard-4: int4-weights weights on one chip need" in found.what
    assert found.what.endswith("GiB of 20.2GiB per chip")  # 90 % of 23034 MiB
    assert "allow machines with about" in found.fix


def test_tpot_below_bandwidth_bound_is_infeasible() -> None:
    found = refused(
        workload("llama-3-70b", rate="1/s", targets="tpot: 1ms", where="machines: [a3-ultragpu-8g]")
    )
    assert found.binding == "requirements.tpot"
    assert "TPOT 1ms is below the " in found.what
    assert "on TP8 a3-ultragpu-8g (fp8)" in found.what
    limit = parse(found.what.split("bound of ")[1].split(" on")[0], DURATION)
    model = CATALOG.model("llama-3-70b").transformer
    assert model is not None
    read = (
        shape_of(model).parameters - model.vocab * model.hidden
    )  # the embedding is looked up, not read
    assert limit == pytest.approx(read / 8 / 4.8e12, rel=0.05)


def test_applying_fix_gives_plan() -> None:
    first = workload(
        "llama-3-70b", rate="1/s", targets="tpot: 5ms", where="machines: [a3-ultragpu-8g]"
    )
    fix = refused(first).fix
    assert fix.startswith("raise tpot to ")
    raised = fix.removeprefix("raise tpot to ").split(",")[0]
    plan(
        workload(
            "llama-3-70b", rate="1/s", targets=f"tpot: {raised}", where="machines: [a3-ultragpu-8g]"
        )
    )


def test_load_above_allowed_machines_is_infeasible() -> None:
    found = refused(workload(rate="9000/s", where="machines: [g2-standard-4], max_chips: 2"))
    assert found.binding == "where.max_chips"
    assert "2 are allowed" in found.what


def test_frontier_is_monotonic_per_chip() -> None:
    found = plan(workload())
    assert {point.chip for point in found.frontier} == {"l4", "h200-sxm"}
    for chip in ("l4", "h200-sxm"):
        own = [point for point in found.frontier if point.chip == chip]
        speeds = [point.tokens_per_s_per_user for point in own]
        yields = [point.tokens_per_s_per_chip for point in own]
        assert speeds == sorted(speeds, reverse=True)
        assert yields == sorted(yields)
    front = [point for point in found.frontier if point.on_pareto_front]
    for point in found.frontier:
        beaten = any(
            other.tokens_per_s_per_user >= point.tokens_per_s_per_user
            and other.tokens_per_s_per_chip > point.tokens_per_s_per_chip
            for other in front
        )
        assert beaten != point.on_pareto_front or point in front


@pytest.mark.slow
@pytest.mark.parametrize("name", ["inference", "inference-trace", "inference-long"])
def test_examples_are_planned_deterministically(name: str) -> None:
    wanted = read_workload(EXAMPLES / f"{name}.yaml", CATALOG)
    first, second = (plan_service(wanted, CATALOG, EXAMPLES) for _ in range(2))
    assert isinstance(first, Plan)
    assert dump_json(first) == dump_json(second)
    assert load_json(dump_json(first), Plan) == first
    assert all(option.service and option.service.simulated for option in first.options)


def test_infeasible_load_is_returned_as_result() -> None:
    assert isinstance(refused(workload(targets="tpot: 1us")), Infeasible)
