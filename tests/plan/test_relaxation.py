"""An infeasible plan names the limit that binds, and its fix makes the plan feasible."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpuyard.app.plan import plan_workload
from gpuyard.app.workspace import Workspace
from gpuyard.catalog.load import load_catalog
from gpuyard.errors import Infeasible
from gpuyard.home import Home
from gpuyard.plan.option import Plan
from gpuyard.plan.relaxation import LIMITS
from gpuyard.workload.read import parse_workload

CATALOG = load_catalog()
TRAIN = """
task: pretraining
model: llama-3-8b
data: {tokens: 1T, sequence: 8192}
training: {global_batch: 1024}
where: {machines: [a3-ultragpu-8g, a3-megagpu-8g], max_chips: 64, region: us-central1}
"""
SERVE = """
task: inference
model: llama-3.1-8b
traffic: {input: 1000, output: 200}
where: {machines: [g2-standard-4, g2-standard-24], region: us-central1}
"""
RENDER = """
task: graphics
graphics: {use: rendering, frames: 2400, frame_time: 90s, measured_on: l4, memory: 12GB}
where: {machines: [g2-*], region: us-central1}
"""


def result(text: str, limits: dict[str, str]) -> Plan | Infeasible:
    document = {**yaml.safe_load(text), "requirements": limits}
    workload = parse_workload(yaml.safe_dump(document), "w.yaml", CATALOG)
    return plan_workload(
        Workspace(workload=workload, catalog=CATALOG, home=Home(path=Path()), folder=Path())
    )


@pytest.mark.parametrize(
    ("text", "limits", "binding"),
    [
        (TRAIN, {"deadline": "2d"}, "requirements.deadline"),
        (TRAIN, {"budget": "$1k"}, "requirements.budget"),
        (TRAIN, {"deadline": "100d", "budget": "$1k"}, "requirements.budget"),
        (RENDER, {"deadline": "3h", "budget": "$1"}, "requirements.budget"),
        pytest.param(
            SERVE,
            {"requests": "20/s", "ttft": "500ms", "tpot": "50ms", "hourly_budget": "$1/h"},
            "requirements.hourly_budget",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            SERVE, {"requests": "2/s", "tpot": "1ms"}, "requirements.tpot", marks=pytest.mark.slow
        ),
    ],
)
def test_fix_makes_the_plan_feasible(text: str, limits: dict[str, str], binding: str) -> None:
    refused = result(text, limits)
    assert isinstance(refused, Infeasible)
    assert refused.binding == binding
    changed = dict(limits)
    for part in refused.fix.split(" and "):
        key, value = part.removeprefix("raise ").split(" to ")
        assert key in {limit.key for limit in LIMITS}
        changed[key] = value
    feasible = result(text, changed)
    assert isinstance(feasible, Plan)
    assert feasible.options[0].chance >= 0.5


def test_reason_without_a_limit_stays() -> None:
    refused = result(SERVE.replace("llama-3.1-8b", "llama-3.1-405b"), {"requests": "1/s"})
    assert isinstance(refused, Infeasible)
    assert refused.binding == "memory"
