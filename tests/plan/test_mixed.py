"""Machine types that share a work each take what they can, and together all of it."""

from __future__ import annotations

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import Infeasible
from gpuyard.plan.mixed import plan_mixed, splits
from gpuyard.plan.option import Cluster, Option, Plan
from gpuyard.workload.read import parse_workload
from gpuyard.workload.workload import Workload

CATALOG = load_catalog()
ALONE = Infeasible(binding="where.inventory", what="too few", fix="more")
PER_MACHINE = {"dgx-h100": 10.0, "dgx-a100": 4.0}  # requests per second
TEXT = """
task: inference
model: llama-3.1-8b
traffic: {{input: 1000, output: 200}}
requirements: {{requests: {rate}/s}}
where: {{provider: onprem, inventory: {{dgx-h100: 2, dgx-a100: 3}}}}
"""
RENDER = """
task: graphics
graphics: {{use: rendering, frames: 100, frame_time: 90s, measured_on: l4, memory: 12GB}}
requirements: {{{limits}}}
"""


def workload(rate: float) -> Workload:
    return parse_workload(TEXT.format(rate=rate), "w.yaml", CATALOG)


def planner(part: Workload) -> Plan | Infeasible:
    """Feasible up to a rate per machine."""
    (item,) = part.where.inventory
    rate = part.requirements.requests_per_s or 0.0
    if rate > item.count * PER_MACHINE[item.name]:
        return ALONE
    option = Option(
        cluster=Cluster(machine=item.name, machine_count=item.count, chip_count=8 * item.count),
        precision="bf16", step_s=rate, step_parts=(), memory_bytes=1.0, memory_parts=(),
        memory_capacity_bytes=2.0, ideal_s=1.0, expected_s=1.0, error_ratio=0.1, bills=(),
        platforms=(), network="roce",
    )  # fmt: skip
    return Plan(workload="w", task="inference", options=(option,), rejected=(), searched_count=1)


@pytest.mark.parametrize("rate", [21.0, 25.0, 31.0])
def test_shares_add_up_to_the_work(rate: float) -> None:
    plan = plan_mixed(workload(rate), ALONE, planner)
    assert isinstance(plan, Plan)
    assert plan.combined
    assert plan.options[0].cluster.machine == "dgx-h100"  # the most capable machines come first
    assert sum(option.step_s for option in plan.options) == pytest.approx(rate)


def test_too_much_work_names_what_all_machines_carry() -> None:
    found = plan_mixed(workload(40.0), ALONE, planner)
    assert isinstance(found, Infeasible)
    rate = float(found.fix.removeprefix("add machines, or reduce requests to ").removesuffix("/s"))
    assert 30.0 <= rate <= 32.0


def test_one_machine_type_stays_infeasible() -> None:
    one = parse_workload(TEXT.format(rate=40.0).replace(", dgx-a100: 3", ""), "w.yaml", CATALOG)
    assert plan_mixed(one, ALONE, planner) is ALONE


def test_only_independent_work_with_a_limit_splits() -> None:
    assert splits(parse_workload(RENDER.format(limits="deadline: 1h"), "w.yaml", CATALOG))
    assert not splits(parse_workload(RENDER.format(limits=""), "w.yaml", CATALOG))
