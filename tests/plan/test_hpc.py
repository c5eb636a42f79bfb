"""HPC plans: CPUs and accelerators compared, limits met, and infeasible runs report a fix."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.catalog.load import load_catalog
from gpuyard.document.encode import dump_json, load_json
from gpuyard.errors import Infeasible
from gpuyard.plan.hpc import plan_hpc
from gpuyard.plan.option import Plan
from gpuyard.workload.read import parse_workload, read_workload

CATALOG = load_catalog()
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
TEXT = (
    "task: hpc\nhpc: {{offload: {offload}, bound: {bound}, cpu_hours: {hours}, measured_on: c3-standard-176, "
    "memory: 1TB, mpi: true}}\nrequirements: {{{limits}}}\n"
)
FEW = "where: {machines: [h4d-*, a3-ultragpu-8g, g2-standard-96, n1-4xt4]}\n"


def find(
    offload: str = "50%", bound: str = "fp64", hours: str = "50k", limits: str = "deadline: 12h"
) -> Plan | Infeasible:
    text = TEXT.format(offload=offload, bound=bound, hours=hours, limits=limits)
    return plan_hpc(parse_workload(text, "test.yaml", CATALOG), CATALOG)


def plan(
    offload: str = "50%", bound: str = "fp64", hours: str = "50k", limits: str = "deadline: 12h"
) -> Plan:
    found = find(offload, bound, hours, limits)
    assert isinstance(found, Plan), str(found)
    return found


def test_example_has_plan_that_round_trips() -> None:
    workload = read_workload(EXAMPLES / "hpc.yaml", CATALOG)
    found = plan_hpc(workload, CATALOG)
    assert isinstance(found, Plan)
    assert load_json(dump_json(found), Plan) == found
    for option in found.options:
        assert option.expected_s <= 2 * 86400
        assert option.usd is not None
        assert option.usd <= 50_000
        assert sum(part.value for part in option.step_parts) == pytest.approx(option.step_s)
        assert option.memory_bytes <= option.memory_capacity_bytes
        assert option.platforms[0].platform == "slurm"
        assert option.storage_need is not None
        assert option.storage_need.checkpoint_bytes == 2e12


def test_cpus_rank_first_when_accelerators_do_not_pay() -> None:
    assert plan(offload="0%").options[0].cluster.chip is None
    assert plan(offload="20%").options[0].cluster.chip is None
    assert plan(offload="99%").options[0].cluster.chip is not None


def test_cpus_and_accelerators_are_compared() -> None:
    chips = {
        option.cluster.chip is None for option in plan(offload="85%", bound="bandwidth").options
    }
    assert chips == {True, False}


def test_chips_without_precision_are_rejected() -> None:
    rejected = {
        group.family: group for group in plan(limits="deadline: 12h, precision: fp64").rejected
    }
    assert rejected["TPU v6e"].binding == "requirements.precision"


def test_rejected_families_report_binding_constraint() -> None:
    found = plan(offload="99%", limits="deadline: 12h, budget: $1500")
    families = {CATALOG.machine(option.cluster.machine).series for option in found.options}
    assert {group.family for group in found.rejected}.isdisjoint(families)
    c3 = next(group for group in found.rejected if group.family == "C3")
    assert c3.binding == "requirements.budget"
    assert "too much" in c3.what
    assert "raise budget to $" in c3.fix


@pytest.mark.parametrize(
    ("limits", "binding"),
    [
        ("deadline: 12h, budget: $100", "requirements.budget"),
        ("deadline: 30s", "requirements.deadline"),
        ("deadline: 12h, availability: 99.99%", "requirements.availability"),
    ],
)
def test_applying_fix_makes_plan_feasible(limits: str, binding: str) -> None:
    found = find(limits=limits)
    assert isinstance(found, Infeasible)
    assert found.binding == binding
    relaxed = dict(pair.split(": ") for pair in limits.split(", "))
    for advice in found.fix.split(" and "):
        _verb, key, _to, value = advice.split(" ")
        relaxed[key] = value
    assert isinstance(
        find(limits=", ".join(f"{key}: {value}" for key, value in relaxed.items())), Plan
    )


def test_working_set_larger_than_memory_is_infeasible() -> None:
    text = TEXT.format(offload="50%", bound="fp64", hours="1k", limits="").replace("1TB", "900TB")
    found = plan_hpc(
        parse_workload(text + "where: {machines: [a3-*], max_chips: 16}\n", "test.yaml", CATALOG),
        CATALOG,
    )
    assert isinstance(found, Infeasible)
    assert found.binding == "hpc.memory"
    assert "machines" in found.fix


def test_onprem_machines_have_energy_but_no_bill() -> None:
    text = (
        "task: hpc\nhpc: {offload: 90%, bound: fp32, flop: 1e21}\n"
        "where: {provider: onprem, inventory: {dgx-h100: 4}}\n"
    )
    found = plan_hpc(parse_workload(text, "test.yaml", CATALOG), CATALOG)
    assert isinstance(found, Plan)
    for option in found.options:
        assert option.bills == ()
        assert option.cluster.machine_count <= 4
        assert option.energy_joules == pytest.approx(
            10_200 * option.cluster.machine_count * option.expected_s
        )
    assert any("work independently" in note for note in found.notes)


@pytest.mark.slow
@settings(max_examples=20)
@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_cost_never_grows_with_offload(one: float, two: float) -> None:
    costs: list[float] = []
    for share in sorted((one, two)):
        text = TEXT.format(offload=f"{share:.4f}", bound="bandwidth", hours="50k", limits="")
        found = plan_hpc(parse_workload(text + FEW, "test.yaml", CATALOG), CATALOG)
        assert isinstance(found, Plan)
        costs.append(found.options[0].usd or 0.0)
    assert costs[1] <= costs[0] * (1 + 1e-6)
