"""Vertex AI: custom jobs and endpoints."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace

import pytest

from gpuyard.document.frozen_json import Plain
from gpuyard.provision.platform import Unsuitable
from gpuyard.provision.platforms.vertex_ai.vertex_ai_platform import VERTEX_AI
from gpuyard.workload.where import ConsumptionName

from .rendering import (
    SETTINGS,
    at,
    blueprint_of,
    body_of,
    check,
    file_of,
    of_machines,
    render,
    render_artefacts,
)

JOB = "50-custom-job.json"
CLUSTER = {
    "cluster": {
        "workerpool0": ["primary-0:2222"],
        "workerpool1": ["worker-0:2222", "worker-1:2222"],
    },
    "task": {"type": "workerpool1", "index": 1},
}


def pools(machine: str, way: ConsumptionName, count: int = 3) -> list[Plain]:
    """Return the worker pools of a multi-node job."""
    body = body_of(
        render_artefacts(VERTEX_AI, of_machines(blueprint_of(machine, "multi-node", way), count)),
        JOB,
    )
    result = at(body, "jobSpec", "workerPoolSpecs")
    assert isinstance(result, list)
    return result


def test_custom_job_has_one_primary_and_identical_workers() -> None:
    primary, workers = pools("a3-megagpu-8g", "flex-start")
    assert (at(primary, "replicaCount"), at(workers, "replicaCount")) == ("1", "2")
    assert at(primary, "machineSpec") == at(workers, "machineSpec")
    assert at(primary, "machineSpec", "acceleratorType") == "NVIDIA_H100_MEGA_80GB"
    assert at(primary, "diskSpec", "bootDiskType") == "pd-ssd"
    assert at(pools("a4-highgpu-8g", "spot")[0], "diskSpec", "bootDiskType") == "hyperdisk-balanced"


@pytest.mark.parametrize(
    ("way", "strategy"),
    [
        ("on-demand", "STANDARD"),
        ("spot", "SPOT"),
        ("flex-start", "FLEX_START"),
        ("reservation", "STANDARD"),
    ],
)
def test_custom_job_strategy_follows_consumption(way: ConsumptionName, strategy: str) -> None:
    body = body_of(
        render_artefacts(VERTEX_AI, blueprint_of("a3-megagpu-8g", "multi-node", way)), JOB
    )
    assert at(body, "jobSpec", "scheduling", "strategy") == strategy
    assert at(body, "jobSpec", "scheduling", "timeout") == "108000s"
    spec = at(body, "jobSpec", "workerPoolSpecs", 0, "machineSpec")
    assert isinstance(spec, dict)
    assert ("reservationAffinity" in spec) == (way == "reservation")


def test_ranks_come_from_cluster_spec() -> None:
    settings = replace(
        SETTINGS, framework="command", program="echo $NODE_RANK/$NODE_COUNT at $MASTER_ADDR"
    )
    body = body_of(
        render_artefacts(
            VERTEX_AI, of_machines(blueprint_of("g2-standard-8", "multi-node", "spot"), 3), settings
        ),
        JOB,
    )
    script = str(at(body, "jobSpec", "workerPoolSpecs", 0, "containerSpec", "args", 0))
    rank_lines = "\n".join(
        line for line in script.splitlines() if not line.startswith(("ln ", "mkdir "))
    )
    environment = {**os.environ, "CLUSTER_SPEC": json.dumps(CLUSTER)}
    done = subprocess.run(
        ["bash", "-c", rank_lines], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "2/3 at primary-0", done.stderr


def test_custom_job_links_bucket_folders() -> None:
    body = body_of(
        render_artefacts(VERTEX_AI, blueprint_of("g2-standard-8", "single-node", "spot")), JOB
    )
    script = str(at(body, "jobSpec", "workerPoolSpecs", 0, "containerSpec", "args", 0))
    assert "ln -sfn /gcs/sample-data/tokens /mnt/data" in script
    assert "CLUSTER_SPEC" not in script


def test_custom_job_does_not_assume_fabric_paths() -> None:
    result = render_artefacts(VERTEX_AI, blueprint_of("a4-highgpu-8g", "multi-node", "spot"))
    names = [
        at(row, "name") for row in at(pools("a4-highgpu-8g", "spot")[0], "containerSpec", "env")
    ]  # type: ignore[union-attr]
    assert "NCCL_NET" not in names
    assert any("all-reduce" in note for note in result.notes)


def test_custom_job_tpu_slice_is_one_replica() -> None:
    result = body_of(
        render_artefacts(VERTEX_AI, blueprint_of("ct5lp-hightpu-4t", "multi-node", "spot")), JOB
    )
    rows = at(result, "jobSpec", "workerPoolSpecs")
    assert isinstance(rows, list)
    assert len(rows) == 1
    assert at(rows[0], "machineSpec", "tpuTopology") == "2x4"


def test_endpoint_scales_as_planned() -> None:
    result = render_artefacts(VERTEX_AI, blueprint_of("g2-standard-24", "service", "spot"))
    deployed = at(body_of(result, "60-deploy.json"), "deployedModel")
    resources = at(deployed, "dedicatedResources")
    assert (at(resources, "minReplicaCount"), at(resources, "maxReplicaCount")) == (1, 4)
    assert at(resources, "autoscalingMetricSpecs", 0, "target") == 60  # one request per second
    assert at(resources, "spot") is True
    model = body_of(result, "40-model.json")
    assert str(at(deployed, "model")).endswith(f"/models/{at(model, 'modelId')}")
    assert at(model, "model", "containerSpec", "healthRoute") == "/health"
    assert str(at(deployed, "id")).isdigit()
    endpoint = json.loads(file_of(result, "50-endpoint.json").text)["parameters"]["endpointId"]
    assert (
        json.loads(file_of(result, "60-deploy.json").text)["parameters"]["endpointsId"] == endpoint
    )
    addresses = [step.command.split()[-1] for step in result.steps]
    assert addresses[0].startswith(
        "https://us-central1-aiplatform.googleapis.com/v1/projects/my-project/"
    )
    assert "undeploy-model" in result.steps[2].undo
    assert result.steps[0].undo.endswith(f"/models/{at(model, 'modelId')}")


def test_endpoint_replica_may_use_part_of_a_machine() -> None:
    blueprint = blueprint_of("a3-highgpu-8g", "service", "spot")
    service = blueprint.option.service
    assert service is not None
    small = replace(
        blueprint,
        option=replace(blueprint.option, service=replace(service, chips_per_replica=2, tp=2)),
    )
    result = render_artefacts(VERTEX_AI, small)
    spec = at(
        body_of(result, "60-deploy.json"), "deployedModel", "dedicatedResources", "machineSpec"
    )
    assert at(spec, "acceleratorCount") == 2
    assert not check(*result.files).errors
    deploy = file_of(result, "60-deploy.json")
    too_many = replace(
        deploy, text=deploy.text.replace('"acceleratorCount": 2', '"acceleratorCount": 9')
    )
    assert {finding.rule for finding in check(too_many).errors} == {"gpus-agree"}


@pytest.mark.parametrize(
    ("machine", "shape", "way", "replica", "word"),
    [
        ("g2-standard-8", "service", "flex-start", 1, "flex-start"),
        ("n1-4xt4", "multi-node", "flex-start", 1, "flex-start"),
        ("a4x-maxgpu-4g-metal", "multi-node", "reservation", 1, "accelerator type"),
        ("g4-standard-6", "single-node", "spot", 1, "fraction of a GPU"),
        ("a3-ultragpu-8g", "service", "spot", 2, "2 machines"),
    ],
)
def test_vertex_ai_is_unsuitable(
    machine: str, shape: str, way: ConsumptionName, replica: int, word: str
) -> None:
    result = render(VERTEX_AI, blueprint_of(machine, shape, way, replica), SETTINGS)  # type: ignore[arg-type]
    assert isinstance(result, Unsuitable)
    assert word in result.why
    assert result.nearest == "gke"


def test_jobs_have_ttl_and_endpoints_have_none() -> None:
    assert (
        render_artefacts(
            VERTEX_AI, blueprint_of("g2-standard-8", "single-node", "spot")
        ).without_ttl
        == ""
    )
    assert (
        render_artefacts(VERTEX_AI, blueprint_of("g2-standard-8", "service", "spot")).without_ttl
        == "the deployed model"
    )
