"""What a file pins is kept, and the plan says what would be better."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuyard.app.plan import plan_workload
from gpuyard.app.workspace import Workspace
from gpuyard.catalog.load import load_catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.home import Home
from gpuyard.plan.option import Plan
from gpuyard.workload.read import parse_workload

CATALOG = load_catalog()
TRAIN = """
task: pretraining
model: llama-3.1-70b
data: {{tokens: 1T, sequence: 8192}}
training: {{global_batch: 1024}}
pinned: {{{pinned}}}
where: {{region: us-central1, cluster: {{a3-megagpu-8g: 64}}}}
"""
SERVE = """
task: inference
model: llama-3.3-70b
traffic: {{input: 1000, output: 200}}
requirements: {{requests: 10/s, ttft: 1s, tpot: 80ms}}
pinned: {{{pinned}}}
where: {{region: us-central1, {where}}}
"""


def result(text: str) -> Plan | Infeasible:
    workload = parse_workload(text, "w.yaml", CATALOG)
    return plan_workload(
        Workspace(workload=workload, catalog=CATALOG, home=Home(path=Path()), folder=Path())
    )


def plan(text: str) -> Plan:
    found = result(text)
    assert isinstance(found, Plan), found
    return found


def test_training_keeps_machines_layout_and_recomputation() -> None:
    found = plan(TRAIN.format(pinned="tp: 4, pp: 4, micro_batch: 2, recompute: full"))
    (option,) = found.options
    layout = option.arrangement
    assert layout is not None
    assert (layout.tp, layout.pp, layout.micro_batch) == (4, 4, 2)
    assert layout.recompute == "full"
    assert (option.cluster.machine_count, option.cluster.chip_count) == (64, 512)
    assert found.notes[0].startswith("better: ")


def test_infeasible_pinned_layout_is_named() -> None:
    found = result(TRAIN.format(pinned="tp: 4, pp: 3"))
    assert isinstance(found, Infeasible)
    assert found.binding == "pinned"


def test_service_keeps_engine_formats_layout_and_machines() -> None:
    pinned = "engine: vllm, tp: 8, weights: bf16, kv: bf16"
    found = plan(SERVE.format(pinned=pinned, where="cluster: {a3-highgpu-8g: 2}"))
    (option,) = found.options
    service = option.service
    assert service is not None
    assert (service.tp, service.replicas, service.weights, service.kv) == (8, 2, "bf16", "bf16")
    assert service.engine.name == "vllm"
    assert option.cluster.machine_count == 2


def test_service_keeps_the_number_of_replicas() -> None:
    found = plan(SERVE.format(pinned="replicas: 3, tp: 2", where="machines: [a3-ultragpu-8g]"))
    service = found.options[0].service
    assert service is not None
    assert (service.replicas, service.tp) == (3, 2)


@pytest.mark.parametrize("pinned", ["engine: llamacpp", "weights: fp3", "kv: int4"])
def test_unknown_engine_or_format_is_an_error(pinned: str) -> None:
    with pytest.raises(InputError) as raised:
        result(SERVE.format(pinned=pinned, where="machines: [a3-ultragpu-8g]"))
    assert raised.value.problems[0].where == f"pinned.{pinned.partition(':')[0]}"


def test_machine_under_cluster_must_exist() -> None:
    with pytest.raises(InputError) as raised:
        parse_workload(
            SERVE.format(pinned="tp: 8", where="cluster: {a9-highgpu-8g: 2}"), "w", CATALOG
        )
    assert "where.cluster" in str(raised.value)
