"""Training plans on the built-in catalog: limits met, reasons given, infeasible with a fix."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.document.encode import dump_json, load_json
from gpuyard.errors import Infeasible, InputError
from gpuyard.perf.error_bars import training_error_bar
from gpuyard.plan.demand import training_demand
from gpuyard.plan.option import Plan
from gpuyard.plan.training import plan_training
from gpuyard.workload.read import parse_workload
from gpuyard.workload.workload import Workload

PRETRAIN = """
task: pretraining
model: llama-3-8b
data: {tokens: 1T, sequence: 8192}
training: {global_batch: 1024}
where: {machines: [a3-ultragpu-8g, a2-ultragpu-8g, ct6e-standard-4t, a3-megagpu-8g], region: us-central1}
"""


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def workload(catalog: Catalog, text: str = PRETRAIN) -> Workload:
    return parse_workload(text, "w.yaml", catalog)


@pytest.fixture(scope="module")
def plan(catalog: Catalog) -> Plan:
    found = plan_training(workload(catalog), catalog)
    assert isinstance(found, Plan)
    return found


def test_options_are_ranked_by_cost_and_terms_add_up(plan: Plan) -> None:
    costs = [option.usd for option in plan.options if option.usd is not None]
    assert costs[0] <= 1.1 * min(costs)
    for option in plan.options:
        assert sum(part.value for part in option.step_parts) == pytest.approx(
            option.step_s, rel=1e-9
        )
        assert sum(part.value for part in option.memory_parts) == pytest.approx(
            option.memory_bytes, rel=1e-9
        )
        assert option.memory_bytes <= option.memory_capacity_bytes
        assert (
            option.expected_s >= option.ideal_s == pytest.approx(option.step_s * option.steps_count)
        )
        assert 0.0 < (option.mfu_ratio or 0) < 1.0
        degrees = option.arrangement
        assert degrees is not None
        assert degrees.tp * degrees.pp * degrees.cp * degrees.dp == option.cluster.chip_count
        assert degrees.dp * degrees.micro_batch * degrees.gradient_accumulation == 1024
        assert option.platforms
        assert option.storage
        assert option.reasons


def test_planned_run_is_as_far_from_published_runs_as_another_source(plan: Plan) -> None:
    least = training_error_bar("release", "dense")
    for option in plan.options:
        assert option.error_ratio >= least.high_ratio - 1e-9
        assert option.error_low_ratio is not None
        assert option.error_low_ratio >= least.low_ratio - 1e-9


def test_pareto_front_is_not_dominated(plan: Plan) -> None:
    front = [option for option in plan.options if option.on_pareto_front]
    assert front
    for option in front:
        for other in plan.options:
            better = (
                other.expected_s <= option.expected_s
                and (other.usd or 9e99) <= (option.usd or 9e99)
                and other.cluster.chip_count <= option.cluster.chip_count
            )
            equal = (other.expected_s, other.usd, other.cluster.chip_count) == (
                option.expected_s,
                option.usd,
                option.cluster.chip_count,
            )
            assert not better or equal


def test_gpus_and_tpus_are_compared(plan: Plan) -> None:
    assert {"h200-sxm", "tpu-v6e"} <= {option.cluster.chip for option in plan.options}


def test_plan_round_trips(plan: Plan) -> None:
    assert load_json(dump_json(plan), Plan) == plan


def test_step_time_never_grows_with_chips(plan: Plan) -> None:
    by_machine: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for option in plan.options:
        key = (option.cluster.machine, option.precision)
        by_machine.setdefault(key, []).append((option.cluster.chip_count, option.step_s))
    doubled = 0
    for pairs in by_machine.values():
        steps = dict(pairs)
        for chips, step in steps.items():
            if 2 * chips in steps:
                doubled += 1
                assert (
                    steps[2 * chips] <= step * 1.02
                )  # the best layout for half of them is tried for all of them
    assert doubled > 5


def test_options_meet_limits(catalog: Catalog) -> None:
    limited = workload(
        catalog, PRETRAIN + "requirements: {deadline: 20d, budget: $400k, precision: bf16}\n"
    )
    found = plan_training(limited, catalog)
    assert isinstance(found, Plan)
    for option in found.options:
        assert option.expected_s <= 20 * 86400
        assert (option.usd or 0.0) <= 400_000
        assert option.precision == "bf16"


@pytest.mark.parametrize(
    ("limit", "binding"),
    [
        ("{deadline: 1h}", "requirements.deadline"),
        ("{budget: $100}", "requirements.budget"),
        ("{precision: fp4}", "requirements.precision"),
    ],
)
def test_infeasible_reports_binding_constraint_and_fix(
    catalog: Catalog, limit: str, binding: str
) -> None:
    found = plan_training(workload(catalog, f"{PRETRAIN}requirements: {limit}\n"), catalog)
    assert isinstance(found, Infeasible)
    assert found.binding == binding
    assert found.fix


def test_model_larger_than_memory_reports_how_much(catalog: Catalog) -> None:
    text = (
        PRETRAIN.replace("llama-3-8b", "gpt-3-175b")
        .replace("8192", "2048")
        .replace(
            "[a3-ultragpu-8g, a2-ultragpu-8g, ct6e-standard-4t, a3-megagpu-8g]",
            "[a2-ultragpu-8g], max_chips: 8",
        )
    )
    found = plan_training(workload(catalog, text), catalog)
    assert isinstance(found, Infeasible)
    assert found.binding == "memory"
    assert "the leanest layout needs" in found.what
    assert "times as many chips" in found.fix


def test_lora_needs_less_memory_and_time_than_full_training(catalog: Catalog) -> None:
    full = """
task: finetuning
model: llama-3-8b
data: {tokens: 100M, sequence: 4096}
training: {method: full, global_batch: 64}
where: {machines: [a3-highgpu-8g]}
requirements: {precision: bf16}
"""
    plans = []
    for text in (full, full.replace("method: full", "method: lora, lora_rank: 16")):
        found = plan_training(workload(catalog, text), catalog)
        assert isinstance(found, Plan)
        one = next(option for option in found.options if option.cluster.machine_count == 1)
        plans.append(one)
    assert plans[1].step_s < plans[0].step_s
    assert plans[1].storage_need is not None
    assert plans[0].storage_need is not None
    assert plans[1].storage_need.checkpoint_bytes < plans[0].storage_need.checkpoint_bytes


def test_default_batch_is_chosen_and_noted(catalog: Catalog) -> None:
    demand = training_demand(
        workload(catalog, PRETRAIN.replace("training: {global_batch: 1024}\n", ""))
    )
    assert demand.global_batch_count & (demand.global_batch_count - 1) == 0
    assert "arXiv 2401.02954" in demand.notes[0]
    assert training_demand(workload(catalog)).notes == ()


def test_profile_is_selected_and_unknown_profile_raises_input_error(catalog: Catalog) -> None:
    one = workload(
        catalog,
        PRETRAIN.replace(
            "[a3-ultragpu-8g, a2-ultragpu-8g, ct6e-standard-4t, a3-megagpu-8g]",
            "[a3-mega*], max_chips: 64",
        ),
    )
    named = plan_training(one, catalog, "nemo-25")
    assert isinstance(named, Plan)
    assert named.profile == "nemo-25"
    with pytest.raises(InputError, match='no software profile named "nemo-99"'):
        plan_training(one, catalog, "nemo-99")


def test_model_without_shape_raises_input_error(catalog: Catalog) -> None:
    other = replace(workload(catalog), model=catalog.model("resnet-50"))
    with pytest.raises(InputError, match="is not a transformer"):
        plan_training(other, catalog)
