"""Plain Kubernetes: your own machines with RDMA, and Ray in place of JobSet and LeaderWorkerSet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from gpuyard.blueprint import Blueprint
from gpuyard.catalog import load_catalog
from gpuyard.fabric import Fabric, demand_for, design
from gpuyard.plan import Engine
from gpuyard.provision.lint import lint
from gpuyard.provision.matrix import representatives
from gpuyard.provision.platform import Artefacts, Unsuitable
from gpuyard.provision.platforms import platform_named
from gpuyard.provision.samples import SHAPES, Sample, sample_blueprint, samples
from gpuyard.provision.settings import Settings

CATALOG = load_catalog()


def decision(machine: str, shape: str, way: str | None = None, machines_per_replica: int = 1) -> Blueprint:
    row = next(item for item in CATALOG.machines if item.name == machine)
    kind = next(item for item in SHAPES if item == shape)
    sample = Sample(machine=row, shape=kind, way=way)  # type: ignore[arg-type]
    return sample_blueprint(sample, CATALOG, machines_per_replica)


def rendered(blueprint: Blueprint, **told: Any) -> Artefacts:
    platform = platform_named("kubernetes")
    assert platform is not None
    made = platform.render(blueprint, Settings(**told))
    assert isinstance(made, Artefacts), made
    return made


def objects(found: Artefacts, kind: str) -> list[dict[str, Any]]:
    return [item for file in found.files for item in yaml.safe_load_all(file.text) if item["kind"] == kind]


def test_own_machines_mark_the_lossless_class_of_the_designed_fabric() -> None:
    row = next(item for item in CATALOG.machines if item.name == "dgx-h100")
    fabric = design(demand_for(row, 4), CATALOG)
    assert isinstance(fabric, Fabric)
    found = rendered(replace(decision("dgx-h100", "multi-node"), fabric=fabric))
    pod = objects(found, "JobSet")[0]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    env = {row["name"]: row.get("value") for row in pod["containers"][0]["env"]}
    marks = [mark for row in fabric.lossless.qos.classes if row.lossless for mark in row.dscp]
    assert env["NCCL_IB_TC"] == str(4 * marks[0])
    assert pod["hostNetwork"] is True
    assert "NCCL_IB_TC" not in found.files[0].text.replace("NCCL_IB_TC", "", 1)


def test_own_machines_have_claims_for_storage_and_no_buckets() -> None:
    found = rendered(decision("dgx-h100", "single-node"))
    assert {item["metadata"]["name"].rsplit("-", 1)[1] for item in objects(found, "PersistentVolumeClaim")} == {
        "checkpoints",
        "data",
    }
    assert "gcsfuse" not in found.files[0].text


def test_amd_machines_ask_for_their_own_resource() -> None:
    found = rendered(decision("mi300x-8x", "single-node"))
    box = objects(found, "Job")[0]["spec"]["template"]["spec"]["containers"][0]
    assert box["resources"]["limits"] == {"amd.com/gpu": "8"}


def test_ray_runs_jobs_and_services() -> None:
    job = objects(rendered(decision("dgx-h100", "multi-node"), ray=True, program="train.py"), "RayJob")[0]["spec"]
    assert job["entrypoint"] == "python train.py"
    assert job["rayClusterSpec"]["workerGroupSpecs"][0]["replicas"] == 2
    assert job["activeDeadlineSeconds"] == 30 * 3600
    service = objects(rendered(decision("dgx-h100", "service"), ray=True), "RayService")[0]["spec"]
    config = yaml.safe_load(service["serveConfigV2"])["applications"][0]["args"]["llm_configs"][0]
    assert config["engine_kwargs"]["tensor_parallel_size"] == 8
    assert config["deployment_config"]["autoscaling_config"]["target_ongoing_requests"] == 48


def test_ray_serves_with_vllm_only() -> None:
    blueprint = decision("dgx-h100", "service")
    service = blueprint.option.service
    assert service is not None
    engine = Engine(name="sglang", label="SGLang", command=("python -m sglang.launch_server --model-path m",))
    other = replace(blueprint, option=replace(blueprint.option, service=replace(service, engine=engine)))
    platform = platform_named("kubernetes")
    assert platform is not None
    assert isinstance(platform.render(other, Settings(ray=True)), Unsuitable)
    assert isinstance(platform.render(other, Settings()), Artefacts)


@pytest.mark.parametrize("told", [{"ray": True}, {"ray": True, "queue": "q"}, {"queue": "q"}])
def test_other_controllers_are_as_sound(told: dict[str, Any]) -> None:
    seen: set[tuple[str, str]] = set()
    chosen = representatives(CATALOG)
    for sample in samples(CATALOG):
        if sample.shape == "desks":
            continue  # pods have no display to sit at
        if sample.machine in chosen and (sample.machine.name, sample.shape) not in seen:
            seen.add((sample.machine.name, sample.shape))
            said = lint(rendered(sample_blueprint(sample, CATALOG), **told).files, CATALOG)
            assert not (*said.errors, *said.warnings), sample
            assert all(reach.verdict == "yes" for reach in said.fabrics), sample
