"""A plan on the terminal: one line per option within 80 columns, the recommendation first."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.plan.option import Plan
from gpuyard.plan.training import plan_training
from gpuyard.report.plan import text_notes
from gpuyard.report.plan_lines import WIDTH, plan_text
from gpuyard.report.recommendation import reasons
from gpuyard.workload.read import parse_workload, read_workload

EXAMPLES = Path(__file__).parents[2] / "examples"
CATALOG = load_catalog()


@pytest.fixture(scope="module")
def plan() -> Plan:
    found = plan_training(read_workload(EXAMPLES / "pretraining.yaml", CATALOG), CATALOG)
    assert isinstance(found, Plan)
    return found


def test_every_line_fits_80_columns(plan: Plan) -> None:
    lines = plan_text(plan, 10, text_notes(plan)).splitlines()
    assert max(len(line) for line in lines) <= WIDTH


def test_recommendation_and_reasons_come_before_the_list(plan: Plan) -> None:
    lines = plan_text(plan, 5, text_notes(plan)).splitlines()
    best = plan.options[0].cluster
    assert lines[0].startswith(f"Use {best.machine_count} × {best.machine}")
    first = next(at for at, line in enumerate(lines) if line.startswith(" 1 "))
    shown = min(5, len(plan.options))
    assert any(line.startswith("before option 2:") for line in lines[:first])
    numbers = [line.split()[0] for line in lines[first : first + shown]]
    assert numbers == [str(number) for number in range(1, shown + 1)]


def test_reasons_name_margin_bottleneck_runner_up_and_sensitivity(plan: Plan) -> None:
    assert [name for name, _ in reasons(plan, 1)] == [
        "margin",
        "bottleneck",
        "before option 2",
        "what would change this",
    ]
    assert "behind option 1" in dict(reasons(plan, 2))


def test_owned_machines_are_compared_by_time() -> None:
    workload = read_workload(EXAMPLES / "onprem-1024" / "workload.yaml", CATALOG)
    plan = plan_training(workload, CATALOG)
    assert isinstance(plan, Plan)
    first, second = plan.options[:2]
    text = dict(reasons(plan, 1))["before option 2"]
    assert first.bill is second.bill is None
    assert ("more chips" in text) == (second.cluster.chip_count > first.cluster.chip_count)
    assert ("longer" in text) == (
        second.cluster.chip_count <= first.cluster.chip_count
        and second.expected_s > first.expected_s
    )


def test_missed_limit_states_the_speed_it_needs() -> None:
    text = (EXAMPLES / "onprem-1024" / "workload.yaml").read_text(encoding="utf-8")
    free = plan_training(parse_workload(text, "w.yaml", CATALOG), CATALOG)
    assert isinstance(free, Plan)
    days = 1.01 * min(option.expected_s for option in free.options) / 86400
    late = text.replace("requirements:\n", f"requirements:\n  deadline: {days:.2f}d\n")
    plan = plan_training(parse_workload(late, "w.yaml", CATALOG), CATALOG)
    assert isinstance(plan, Plan)
    words = [dict(reasons(plan, number + 1)) for number in range(len(plan.options))]
    assert all("-" not in row["what would change this"].split("is missed")[-1] for row in words)
