"""Kubernetes: on-premises machines with RDMA, and Ray instead of JobSet and LeaderWorkerSet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.catalog.load import load_catalog
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.machine_demands import demand_for
from gpuyard.plan.service import EngineCommand
from gpuyard.provision.deployment_settings import DeploymentSettings
from gpuyard.provision.lint import lint
from gpuyard.provision.platform import Artefacts, Unsuitable
from gpuyard.provision.platforms import platform_named
from provision_matrix import representatives
from sample_blueprints import sample_blueprint, samples

from .rendering import blueprint_of, render

CATALOG = load_catalog()


def rendered(blueprint: Blueprint, **requested: Any) -> Artefacts:
    platform = platform_named("kubernetes")
    assert platform is not None
    result = render(platform, blueprint, DeploymentSettings(**requested))
    assert isinstance(result, Artefacts), result
    return result


def objects(result: Artefacts, kind: str) -> list[dict[str, Any]]:
    return [
        item
        for file in result.files
        for item in yaml.safe_load_all(file.text)
        if item["kind"] == kind
    ]


def test_onprem_pods_set_traffic_class_of_designed_fabric() -> None:
    row = next(item for item in CATALOG.machines if item.name == "dgx-h100")
    fabric = design(demand_for(row, 4), CATALOG)
    assert isinstance(fabric, Fabric)
    result = rendered(replace(blueprint_of("dgx-h100", "multi-node"), fabric=fabric))
    pod = objects(result, "JobSet")[0]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"][
        "spec"
    ]
    env = {row["name"]: row.get("value") for row in pod["containers"][0]["env"]}
    marks = [mark for row in fabric.lossless.qos.classes if row.lossless for mark in row.dscp]
    assert env["NCCL_IB_TC"] == str(4 * marks[0])
    assert pod["hostNetwork"] is True
    assert "NCCL_IB_TC" not in result.files[0].text.replace("NCCL_IB_TC", "", 1)


def test_onprem_pods_use_volume_claims_instead_of_buckets() -> None:
    result = rendered(blueprint_of("dgx-h100", "single-node"))
    assert {
        item["metadata"]["name"].rsplit("-", 1)[1]
        for item in objects(result, "PersistentVolumeClaim")
    } == {
        "checkpoints",
        "data",
    }
    assert "gcsfuse" not in result.files[0].text


def test_amd_pods_request_amd_resource() -> None:
    result = rendered(blueprint_of("mi300x-8x", "single-node"))
    box = objects(result, "Job")[0]["spec"]["template"]["spec"]["containers"][0]
    assert box["resources"]["limits"] == {"amd.com/gpu": "8"}


def test_kubernetes_with_ray_renders_jobs_and_services() -> None:
    job = objects(
        rendered(blueprint_of("dgx-h100", "multi-node"), ray=True, program="train.py"), "RayJob"
    )[0]["spec"]
    assert job["entrypoint"] == "python train.py"
    assert job["rayClusterSpec"]["workerGroupSpecs"][0]["replicas"] == 2
    assert job["activeDeadlineSeconds"] == 30 * 3600
    service = objects(rendered(blueprint_of("dgx-h100", "service"), ray=True), "RayService")[0][
        "spec"
    ]
    config = yaml.safe_load(service["serveConfigV2"])["applications"][0]["args"]["llm_configs"][0]
    assert config["engine_kwargs"]["tensor_parallel_size"] == 8
    assert config["deployment_config"]["autoscaling_config"]["target_ongoing_requests"] == 48


def test_kubernetes_with_ray_requires_vllm() -> None:
    blueprint = blueprint_of("dgx-h100", "service")
    service = blueprint.option.service
    assert service is not None
    engine = EngineCommand(
        name="sglang", label="SGLang", command=("python -m sglang.launch_server --model-path m",)
    )
    other = replace(
        blueprint, option=replace(blueprint.option, service=replace(service, engine=engine))
    )
    platform = platform_named("kubernetes")
    assert platform is not None
    assert isinstance(render(platform, other, DeploymentSettings(ray=True)), Unsuitable)
    assert isinstance(render(platform, other, DeploymentSettings()), Artefacts)


@pytest.mark.parametrize("requested", [{"ray": True}, {"ray": True, "queue": "q"}, {"queue": "q"}])
def test_kubernetes_manifests_pass_lint_with_other_settings(requested: dict[str, Any]) -> None:
    seen: set[tuple[str, str]] = set()
    chosen = representatives(CATALOG)
    for sample in samples(CATALOG):
        if sample.shape == "workstations":
            continue  # pods have no display
        if sample.machine in chosen and (sample.machine.name, sample.shape) not in seen:
            seen.add((sample.machine.name, sample.shape))
            result = lint(rendered(sample_blueprint(sample, CATALOG), **requested).files, CATALOG)
            assert not (*result.errors, *result.warnings), sample
            assert all(reach.verdict == "yes" for reach in result.fabrics), sample
