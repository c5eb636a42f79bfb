"""An infeasible plan names the limit that binds, and its fix makes the plan feasible."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

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
    assert_fix_helps(text, limits, refused)


def assert_fix_helps(text: str, limits: dict[str, str], refused: Infeasible) -> None:
    """The proposed values, planned again, are feasible; so is the proposed number of chips."""
    changed = dict(limits)
    raised, _, chips = refused.fix.partition(", or max_chips to ")
    for part in raised.split(" and "):
        key, value = part.removeprefix("raise ").split(" to ")
        assert key in {limit.key for limit in LIMITS}
        changed[key] = value
    feasible = result(text, changed)
    assert isinstance(feasible, Plan)
    assert feasible.options[0].chance >= 0.5
    if chips:
        more = re.sub(r"max_chips: \d+", f"max_chips: {chips.replace(',', '')}", text)
        assert isinstance(result(more, limits), Plan)


@settings(max_examples=15)
@given(
    hidden=st.sampled_from([1024, 2048, 4096]),
    tokens=st.sampled_from(["2B", "50B", "1T"]),
    method=st.sampled_from(["full", "lora"]),
    chips=st.sampled_from([8, 64]),
    deadline=st.sampled_from(["30min", "5h", "3d", "40d"]),
    budget=st.sampled_from([None, "$20", "$3k", "$200k"]),
)
def test_fix_of_a_random_training_makes_it_feasible(
    hidden: int, tokens: str, method: str, chips: int, deadline: str, budget: str | None
) -> None:
    adapter = ", lora_rank: 16" if method == "lora" else ""
    text = f"""
task: finetuning
model: {{layers: 24, hidden: {hidden}, heads: 16, ffn: {4 * hidden}, vocab: 32000}}
data: {{tokens: {tokens}, sequence: 2048}}
training: {{method: {method}, global_batch: 64{adapter}}}
where: {{machines: [a3-highgpu-8g, g2-standard-96], max_chips: {chips}, region: us-central1}}
"""
    limits = {"deadline": deadline, **({"budget": budget} if budget else {})}
    refused = result(text, limits)
    if isinstance(refused, Plan):
        assert refused.options[0].chance >= 0.5
        return
    assert refused.binding.removeprefix("requirements.") in limits
    assert_fix_helps(text, limits, refused)


@settings(max_examples=15)
@given(
    minutes=st.sampled_from([1, 30, 600]),
    frames=st.sampled_from([10, 4000]),
    deadline=st.sampled_from(["10min", "6h", "9d"]),
    budget=st.sampled_from(["$1", "$90", "$9k"]),
)
def test_fix_of_a_random_rendering_makes_it_feasible(
    minutes: int, frames: int, deadline: str, budget: str
) -> None:
    text = f"""
task: graphics
graphics: {{use: rendering, frames: {frames}, frame_time: {minutes}min, measured_on: l4}}
where: {{machines: [g2-*], region: us-central1}}
"""
    limits = {"deadline": deadline, "budget": budget}
    refused = result(text, limits)
    if isinstance(refused, Infeasible):
        assert_fix_helps(text, limits, refused)


def test_reason_without_a_limit_stays() -> None:
    refused = result(SERVE.replace("llama-3.1-8b", "llama-3.1-405b"), {"requests": "1/s"})
    assert isinstance(refused, Infeasible)
    assert refused.binding == "memory"


@pytest.mark.slow
@settings(max_examples=6)
@given(
    model=st.sampled_from(["llama-3.1-8b", "qwen3-8b"]),
    requests=st.sampled_from(["1/s", "30/s"]),
    ttft=st.sampled_from(["5ms", "400ms"]),
    tpot=st.sampled_from(["2ms", "60ms"]),
    budget=st.sampled_from(["$0.2/h", "$60/h"]),
)
def test_fix_of_a_random_service_makes_it_feasible(
    model: str, requests: str, ttft: str, tpot: str, budget: str
) -> None:
    text = SERVE.replace("llama-3.1-8b", model)
    limits = {"requests": requests, "ttft": ttft, "tpot": tpot, "hourly_budget": budget}
    refused = result(text, limits)
    if isinstance(refused, Infeasible):
        assert_fix_helps(text, limits, refused)


def plan_of(text: str, **changes: object) -> Plan | Infeasible:
    document = {**yaml.safe_load(text), **changes}
    workload = parse_workload(yaml.safe_dump(document), "w.yaml", CATALOG)
    return plan_workload(
        Workspace(workload=workload, catalog=CATALOG, home=Home(path=Path()), folder=Path())
    )


def test_nominal_plan_says_what_would_meet_the_limits() -> None:
    where = {"cluster": {"a3-ultragpu-8g": 8}}
    options = plan_of(TRAIN, where=where)
    assert isinstance(options, Plan)
    days = options.options[0].expected_s / 86400.0
    plan = plan_of(TRAIN, where=where, requirements={"deadline": f"{1.02 * days:.2f}d"})
    assert isinstance(plan, Plan)
    assert not plan.options[0].meets_limits
    note = next(note for note in plan.notes if note.startswith("to meet every limit with 90%"))
    raised = re.search(r"raise deadline to (\S+d)", note)
    assert raised is not None
    surer = plan_of(TRAIN, where=where, requirements={"deadline": raised[1].rstrip(",")})
    assert isinstance(surer, Plan)
    assert surer.options[0].meets_limits
    more = re.search(r"or use (\d+) × a3-ultragpu-8g", note)
    assert more is not None
    assert int(more[1]) > 8


def test_latency_fix_is_bisected_below_that_of_the_cheapest_service() -> None:
    limits = {"requests": "20/s", "ttft": "500ms", "tpot": "9ms"}
    found = plan_of(SERVE, requirements=limits)
    assert isinstance(found, Infeasible)
    assert found.binding == "requirements.tpot"
    value = re.search(r"raise tpot to ([\d.]+)ms", found.fix)
    assert value is not None
    assert float(value[1]) < 30.0
    fixed = plan_of(SERVE, requirements={**limits, "tpot": f"{value[1]}ms"})
    assert isinstance(fixed, Plan)


@pytest.mark.parametrize(
    ("where", "binding", "words"),
    [
        ({"cluster": {"a3-megagpu-8g": 12}}, "training.global_batch", "96 chips"),
        ({"machines": ["a3-megagpu-8g"], "max_chips": 4}, "where.max_chips", "has 8 chips"),
        (
            {"machines": ["a4x-*", "n1-1xp100"], "region": "us-central1"},
            "where.region",
            "no longer offered",
        ),
    ],
)
def test_no_machine_left_names_the_reasons(
    where: dict[str, object], binding: str, words: str
) -> None:
    found = plan_of(TRAIN, where=where, training={"global_batch": 512})
    assert isinstance(found, Infeasible)
    assert found.binding == binding
    assert words in found.what
