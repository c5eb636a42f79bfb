"""Vertex AI: custom jobs and endpoints."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace

import pytest

from gpuyard.document import Plain
from gpuyard.provision.platform import Unsuitable
from gpuyard.provision.platforms.vertex_ai import VERTEX_AI
from gpuyard.workload import ConsumptionName

from .decisions import SETTINGS, at, body_of, check, decision, file_of, made, of_machines

JOB = "50-custom-job.json"
CLUSTER = {
    "cluster": {"workerpool0": ["primary-0:2222"], "workerpool1": ["worker-0:2222", "worker-1:2222"]},
    "task": {"type": "workerpool1", "index": 1},
}


def pools(machine: str, way: ConsumptionName, count: int = 3) -> list[Plain]:
    """The worker pools of a job of several machines."""
    body = body_of(made(VERTEX_AI, of_machines(decision(machine, "multi-node", way), count)), JOB)
    found = at(body, "jobSpec", "workerPoolSpecs")
    assert isinstance(found, list)
    return found


def test_the_primary_is_alone_and_the_others_are_like_it() -> None:
    primary, workers = pools("a3-megagpu-8g", "flex-start")
    assert (at(primary, "replicaCount"), at(workers, "replicaCount")) == ("1", "2")
    assert at(primary, "machineSpec") == at(workers, "machineSpec")
    assert at(primary, "machineSpec", "acceleratorType") == "NVIDIA_H100_MEGA_80GB"
    assert at(primary, "diskSpec", "bootDiskType") == "pd-ssd"
    assert at(pools("a4-highgpu-8g", "spot")[0], "diskSpec", "bootDiskType") == "hyperdisk-balanced"


@pytest.mark.parametrize(
    ("way", "strategy"),
    [("on-demand", "STANDARD"), ("spot", "SPOT"), ("flex-start", "FLEX_START"), ("reservation", "STANDARD")],
)
def test_ways_of_paying_are_strategies(way: ConsumptionName, strategy: str) -> None:
    body = body_of(made(VERTEX_AI, decision("a3-megagpu-8g", "multi-node", way)), JOB)
    assert at(body, "jobSpec", "scheduling", "strategy") == strategy
    assert at(body, "jobSpec", "scheduling", "timeout") == "108000s"
    spec = at(body, "jobSpec", "workerPoolSpecs", 0, "machineSpec")
    assert isinstance(spec, dict)
    assert ("reservationAffinity" in spec) == (way == "reservation")


def test_ranks_come_from_the_cluster_that_vertex_tells() -> None:
    settings = replace(SETTINGS, framework="command", program="echo $NODE_RANK/$NODE_COUNT at $MASTER_ADDR")
    body = body_of(made(VERTEX_AI, of_machines(decision("g2-standard-8", "multi-node", "spot"), 3), settings), JOB)
    script = str(at(body, "jobSpec", "workerPoolSpecs", 0, "containerSpec", "args", 0))
    kept = "\n".join(line for line in script.splitlines() if not line.startswith(("ln ", "mkdir ")))
    place = {**os.environ, "CLUSTER_SPEC": json.dumps(CLUSTER)}
    done = subprocess.run(["bash", "-c", kept], env=place, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "2/3 at primary-0", done.stderr


def test_buckets_are_folders_where_the_program_looks_for_them() -> None:
    body = body_of(made(VERTEX_AI, decision("g2-standard-8", "single-node", "spot")), JOB)
    script = str(at(body, "jobSpec", "workerPoolSpecs", 0, "containerSpec", "args", 0))
    assert "ln -sfn /gcs/sample-data/tokens /mnt/data" in script
    assert "CLUSTER_SPEC" not in script


def test_the_fabric_is_not_promised() -> None:
    found = made(VERTEX_AI, decision("a4-highgpu-8g", "multi-node", "spot"))
    names = [at(row, "name") for row in at(pools("a4-highgpu-8g", "spot")[0], "containerSpec", "env")]  # type: ignore[union-attr]
    assert "NCCL_NET" not in names
    assert any("all-reduce" in note for note in found.notes)


def test_a_slice_is_one_replica() -> None:
    found = body_of(made(VERTEX_AI, decision("ct5lp-hightpu-4t", "multi-node", "spot")), JOB)
    rows = at(found, "jobSpec", "workerPoolSpecs")
    assert isinstance(rows, list)
    assert len(rows) == 1
    assert at(rows[0], "machineSpec", "tpuTopology") == "2x4"


def test_an_endpoint_follows_the_plan() -> None:
    found = made(VERTEX_AI, decision("g2-standard-24", "service", "spot"))
    deployed = at(body_of(found, "60-deploy.json"), "deployedModel")
    resources = at(deployed, "dedicatedResources")
    assert (at(resources, "minReplicaCount"), at(resources, "maxReplicaCount")) == (1, 4)
    assert at(resources, "autoscalingMetricSpecs", 0, "target") == 60  # a request a second
    assert at(resources, "spot") is True
    model = body_of(found, "40-model.json")
    assert str(at(deployed, "model")).endswith(f"/models/{at(model, 'modelId')}")
    assert at(model, "model", "containerSpec", "healthRoute") == "/health"
    assert str(at(deployed, "id")).isdigit()
    endpoint = json.loads(file_of(found, "50-endpoint.json").text)["parameters"]["endpointId"]
    assert json.loads(file_of(found, "60-deploy.json").text)["parameters"]["endpointsId"] == endpoint
    addresses = [step.command.split()[-1] for step in found.steps]
    assert addresses[0].startswith("https://us-central1-aiplatform.googleapis.com/v1/projects/my-project/")
    assert "undeploy-model" in found.steps[2].undo
    assert found.steps[0].undo.endswith(f"/models/{at(model, 'modelId')}")


def test_replicas_may_share_a_machine() -> None:
    blueprint = decision("a3-highgpu-8g", "service", "spot")
    service = blueprint.option.service
    assert service is not None
    small = replace(blueprint, option=replace(blueprint.option, service=replace(service, chips_per_replica=2, tp=2)))
    found = made(VERTEX_AI, small)
    spec = at(body_of(found, "60-deploy.json"), "deployedModel", "dedicatedResources", "machineSpec")
    assert at(spec, "acceleratorCount") == 2
    assert not check(*found.files).errors
    deploy = file_of(found, "60-deploy.json")
    too_many = replace(deploy, text=deploy.text.replace('"acceleratorCount": 2', '"acceleratorCount": 9'))
    assert {finding.rule for finding in check(too_many).errors} == {"gpus-agree"}


@pytest.mark.parametrize(
    ("machine", "shape", "way", "replica", "word"),
    [
        ("g2-standard-8", "service", "flex-start", 1, "flex-start"),
        ("n1-4xt4", "multi-node", "flex-start", 1, "flex-start"),
        ("a4x-maxgpu-4g-metal", "multi-node", "reservation", 1, "accelerator type"),
        ("g4-standard-6", "single-node", "spot", 1, "share of a GPU"),
        ("a3-ultragpu-8g", "service", "spot", 2, "2 machines"),
    ],
)
def test_what_it_cannot_do(machine: str, shape: str, way: ConsumptionName, replica: int, word: str) -> None:
    found = VERTEX_AI.render(decision(machine, shape, way, replica), SETTINGS)  # type: ignore[arg-type]
    assert isinstance(found, Unsuitable)
    assert word in found.why
    assert found.nearest == "gke"


def test_jobs_are_ended_by_the_server_and_endpoints_by_you() -> None:
    assert made(VERTEX_AI, decision("g2-standard-8", "single-node", "spot")).unended == ""
    assert made(VERTEX_AI, decision("g2-standard-8", "service", "spot")).unended == "the deployed model"
