"""Plans for language models: every target is kept, more is never cheaper, and a refusal says the number and the fix."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from gpuyard.app.inference import plan_service
from gpuyard.document import dump_json, load_json
from gpuyard.errors import Infeasible, InputError
from gpuyard.perf.inference import shape_of
from gpuyard.plan import Plan
from gpuyard.units import DURATION, parse
from gpuyard.workload import read_workload

from .services import CATALOG, on, plan, refused, workload

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_every_option_keeps_every_target() -> None:
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
        assert sum(part.value for part in option.memory_parts) == pytest.approx(option.memory_capacity_bytes, rel=0.02)
        assert sum(part.value for part in option.step_parts) == pytest.approx(option.step_s)


def test_options_are_ranked_by_cost_and_those_in_doubt_come_last() -> None:
    found = plan(workload(where="region: us-central1")).options
    ranks = [(bool(option.service and option.service.doubts), option.usd or math.inf) for option in found]
    assert len(ranks) > 5
    assert ranks == sorted(ranks)


def test_a_wide_error_bar_puts_a_close_target_in_doubt() -> None:
    found = plan(workload(targets="ttft: 150ms, tpot: 40ms", where="region: us-central1")).options
    for option in found:
        service = option.service
        assert service is not None
        assert service.ttft is not None
        assert service.tpot is not None
        late = [
            name
            for name, spread, limit_s in (("ttft", service.ttft, 0.150), ("tpot", service.tpot, 0.040))
            if spread.error_ratio > 0.5 and spread.mean_s * (1 + spread.error_ratio) > limit_s
        ]
        assert list(service.doubts) == late
        assert bool(late) == any("measure it before you rely on it" in reason for reason in option.reasons)
    assert found[-1].service is not None
    assert found[-1].service.doubts


def test_cold_starts_are_told_and_doubted_where_they_break_the_target() -> None:
    lonely = plan(workload(rate="0.0005/s", targets="ttft: 1s", where="platform: cloud-run"))
    option = on(lonely, "g2-standard-4")
    assert option.service is not None
    assert option.service.doubts == ("ttft",)
    assert any("find no instance up and wait 5s" in reason for reason in option.reasons)
    busy = on(plan(workload(rate="0.5/s", targets="ttft: 1s", where="platform: cloud-run")), "g2-standard-4")
    assert busy.service is not None
    assert busy.service.doubts == ()


def test_more_load_is_never_cheaper() -> None:
    costs = [plan(workload(rate=f"{rate}/s")).options[0].usd for rate in (5, 20, 80, 320)]
    assert all(usd is not None for usd in costs)
    assert costs == sorted(costs)  # type: ignore[type-var]


def test_a_tighter_target_is_never_cheaper() -> None:
    costs = [plan(workload(targets=f"tpot: {ms}ms")).options[0].usd for ms in (200, 60, 25)]
    assert costs == sorted(costs)  # type: ignore[type-var]


def test_costs_of_tokens_follow_from_the_bill() -> None:
    option = plan(workload()).options[0]
    service, usd = option.service, option.usd
    assert service is not None
    assert usd is not None
    assert service.usd_per_million_output_tokens == pytest.approx(usd / (20.0 * 100 * 3600) * 1e6)
    assert service.usd_per_million_tokens == pytest.approx(usd / (20.0 * 600 * 3600) * 1e6)


def test_users_in_a_closed_loop() -> None:
    wanted = workload(rate="", targets="tpot: 60ms", lengths="input: 500, output: 100, concurrency: 64")
    for option in plan(wanted).options:
        assert option.service is not None
        assert option.service.batch_count * option.service.replicas >= 64 - option.service.replicas


def test_quantisation_is_by_what_the_chip_can_do() -> None:
    found = plan(workload(where="machines: [a3-ultragpu-8g, a2-highgpu-1g]", targets="tpot: 100ms"))
    service = on(found, "a3-ultragpu-8g").service
    assert service is not None
    assert service.weights in ("bf16", "fp8")
    other = on(found, "a2-highgpu-1g").service
    assert other is not None
    assert other.weights in ("bf16", "int8")


def test_precision_that_is_asked_for_is_kept() -> None:
    found = plan(workload(more=", precision: bf16"))
    assert {option.precision for option in found.options} == {"bf16"}
    with pytest.raises(InputError, match="serving engines do not run fp32"):
        plan(workload(more=", precision: fp32"))


def test_four_bits_only_where_nothing_wider_fits() -> None:
    where = "machines: [g2-standard-48, g2-standard-96]"
    found = plan(workload("llama-3-70b", rate="1/s", targets="tpot: 1s", where=where))
    assert on(found, "g2-standard-96").precision in ("bf16", "fp8")
    assert on(found, "g2-standard-48").precision == "int4-weights"


def test_spares_for_availability() -> None:
    where = "machines: [a3-ultragpu-8g]"
    plain = plan(workload("llama-3-70b", rate="20/s", where=where)).options[0]
    sure = plan(workload("llama-3-70b", rate="20/s", where=where, more=", availability: 99.999%")).options[0]
    assert plain.service is not None
    assert sure.service is not None
    assert plain.service.spare_replicas == 0
    assert sure.service.spare_replicas > 0
    assert sure.cluster.machine_count > plain.cluster.machine_count
    assert sure.service.autoscaling.least_replicas > plain.service.autoscaling.least_replicas


def test_spot_serves_only_where_it_is_named() -> None:
    ways = {bill.way for option in plan(workload()).options for bill in option.bills}
    assert not ways & {"spot", "flex-start"}
    named = plan(workload(where="machines: [g2-standard-*], consumption: [spot]"))
    assert {bill.way for option in named.options for bill in option.bills} == {"spot"}


def test_cloud_run_scales_to_zero() -> None:
    where = "platform: cloud-run, region: us-central1"
    busy = plan(workload(rate="2/s", where=where)).options[0]
    idle = plan(workload(rate="1/h", where=where)).options[0]
    assert busy.service is not None
    assert idle.service is not None
    assert busy.service.serverless
    assert busy.service.chips_per_replica == 1
    assert idle.service.autoscaling.least_replicas == 0
    assert idle.service.autoscaling.start_s == 5.0
    assert idle.usd is not None
    assert busy.usd is not None
    assert 0.0 < idle.usd < 0.25 * busy.usd


def test_processors_alone_where_they_suffice() -> None:
    found = plan(workload("llama-3.2-1b", rate="1/s", targets="tpot: 200ms", where="machines: [c3-standard-44]"))
    service = found.options[0].service
    assert service is not None
    assert service.engine.name == "vllm-cpu"
    assert found.options[0].cluster.chip_count == 0
    assert service.engine.command[0].startswith("VLLM_CPU_KVCACHE_SPACE=")


def test_several_machines_serve_what_one_does_not_hold() -> None:
    wanted = workload("deepseek-r1", rate="2/s", targets="tpot: 200ms", where="machines: [a3-megagpu-8g]")
    option = plan(wanted).options[0]
    assert option.service is not None
    assert option.service.chips_per_replica > 8
    assert option.service.weights == "fp8-block"
    assert len(option.service.engine.command) > 1 or "srun" in option.service.engine.command[0]


def test_a_model_that_does_not_fit() -> None:
    found = refused(workload("llama-3.1-405b", where="machines: [g2-standard-4]"))
    assert found.binding == "memory"
    assert "g2-standard-4: with int4-weights weights on one chip it needs" in found.what
    assert found.what.endswith("GiB of 22.5GiB a chip")  # nvidia-smi: 23034 MiB of an L4
    assert "allow machines with about" in found.fix


def test_a_target_below_the_physical_limit() -> None:
    found = refused(workload("llama-3-70b", rate="1/s", targets="tpot: 1ms", where="machines: [a3-ultragpu-8g]"))
    assert found.binding == "requirements.tpot"
    assert "TPOT 1ms is below the " in found.what
    assert "that reading the weights takes on TP8 a3-ultragpu-8g (fp8)" in found.what
    limit = parse(found.what.split("below the ")[1].split(" that")[0], DURATION)
    model = CATALOG.model("llama-3-70b").transformer
    assert model is not None
    read = shape_of(model).parameters - model.vocab * model.hidden  # the embedding is looked up, not read
    assert limit == pytest.approx(read / 8 / 4.8e12, rel=0.05)


def test_following_the_advice_gives_a_plan() -> None:
    first = workload("llama-3-70b", rate="1/s", targets="tpot: 5ms", where="machines: [a3-ultragpu-8g]")
    fix = refused(first).fix
    assert fix.startswith("raise tpot to ")
    raised = fix.removeprefix("raise tpot to ").split(",")[0]
    plan(workload("llama-3-70b", rate="1/s", targets=f"tpot: {raised}", where="machines: [a3-ultragpu-8g]"))


def test_more_machines_than_are_allowed() -> None:
    found = refused(workload(rate="9000/s", where="machines: [g2-standard-4], max_chips: 2"))
    assert found.binding == "where.max_chips"
    assert "2 are allowed" in found.what


def test_the_frontier_falls_along_each_chip() -> None:
    found = plan(workload())
    assert {point.chip for point in found.frontier} == {"l4", "h200-sxm"}
    for chip in ("l4", "h200-sxm"):
        own = [point for point in found.frontier if point.chip == chip]
        speeds = [point.tokens_per_s_per_user for point in own]
        yields = [point.tokens_per_s_per_chip for point in own]
        assert speeds == sorted(speeds, reverse=True)
        assert yields == sorted(yields)
    front = [point for point in found.frontier if point.on_front]
    for point in found.frontier:
        beaten = any(
            other.tokens_per_s_per_user >= point.tokens_per_s_per_user
            and other.tokens_per_s_per_chip > point.tokens_per_s_per_chip
            for other in front
        )
        assert beaten != point.on_front or point in front


@pytest.mark.parametrize("name", ["inference", "inference-trace", "inference-long"])
def test_examples_are_planned_the_same_every_time(name: str) -> None:
    wanted = read_workload(EXAMPLES / f"{name}.yaml", CATALOG)
    first, second = (plan_service(wanted, CATALOG, EXAMPLES) for _ in range(2))
    assert isinstance(first, Plan)
    assert dump_json(first) == dump_json(second)
    assert load_json(dump_json(first), Plan) == first
    assert all(option.service and option.service.simulated for option in first.options)


def test_an_infeasible_load_is_a_result() -> None:
    assert isinstance(refused(workload(targets="tpot: 1us")), Infeasible)
