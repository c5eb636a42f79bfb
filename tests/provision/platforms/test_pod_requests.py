"""CPU, memory and disk of pods: requests that a queue covers, and a volume for the weights."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpuyard.blueprint.blueprint import Shape
from gpuyard.provision.deployment_settings import DeploymentSettings
from gpuyard.provision.platforms import platform_named
from gpuyard.provision.platforms.manifests.pod_requests import (
    RESERVED_CPU,
    RESERVED_MEMORY,
    allocatable,
)
from gpuyard.provision.resource_quantity import quantity
from gpuyard.workload.where import ConsumptionName

from .rendering import SETTINGS, blueprint_of, catalog, file_of, render_artefacts

GIB = 2**30
JOB = ("a3-megagpu-8g", "multi-node", "reservation")


def objects_of(
    name: str,
    machine: str,
    shape: Shape,
    way: ConsumptionName,
    settings: DeploymentSettings = SETTINGS,
) -> list[dict[str, Any]]:
    platform = platform_named("gke")
    assert platform is not None
    artefacts = render_artefacts(platform, blueprint_of(machine, shape, way), settings)
    return list(yaml.safe_load_all(file_of(artefacts, name).text))


def pod_of(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    spec = next(item for item in objects if item["kind"] == kind)["spec"]
    if kind == "JobSet":
        spec = spec["replicatedJobs"][0]["template"]["spec"]
    pod: dict[str, Any] = spec["template"]["spec"]
    return pod


def test_node_keeps_what_gke_documents() -> None:
    # The example of the page on node sizes, e2-standard-8: 7,910 milli-CPU and 30 GiB less 100 MiB.
    assert allocatable(8, RESERVED_CPU) == pytest.approx(7.91)
    reserved = 32 * GIB - allocatable(32 * GIB, RESERVED_MEMORY)
    assert reserved == pytest.approx((1 + 0.8 + 0.8 + 0.96) * GIB)


@pytest.mark.parametrize("way", ["reservation", "flex-start"])
def test_own_queue_covers_every_request_of_every_container(way: ConsumptionName) -> None:
    queue = objects_of("45-queue.yaml", JOB[0], "multi-node", way)
    group = next(row for row in queue if row["kind"] == "ClusterQueue")["spec"]["resourceGroups"][0]
    quotas = {
        row["name"]: quantity(row["nominalQuota"]) for row in group["flavors"][0]["resources"]
    }
    assert set(quotas) == set(group["coveredResources"])
    pod = pod_of(objects_of("50-job.yaml", JOB[0], "multi-node", way), "JobSet")
    boxes = [*pod.get("initContainers", ()), *pod["containers"]]
    count = blueprint_of(JOB[0], "multi-node", way).machine_count
    for resource in ("cpu", "memory", "nvidia.com/gpu"):
        requested = sum(quantity(box["resources"]["requests"].get(resource, 0)) for box in boxes)
        assert 0 < count * requested <= quotas[resource], resource
    assert all({"cpu", "memory"} <= set(box["resources"]["requests"]) for box in boxes)


def test_existing_queue_gets_a_job_that_requests_accelerators_only() -> None:
    settings = DeploymentSettings(queue="gpus", rendered_s=1_800_000_000.0)
    pod = pod_of(objects_of("50-job.yaml", *JOB, settings=settings), "JobSet")  # type: ignore[arg-type, misc]
    for box in [*pod.get("initContainers", ()), *pod["containers"]]:
        assert set(box.get("resources", {}).get("requests", {})) <= {"nvidia.com/gpu"}


def test_replicas_on_one_machine_fit_on_it_together() -> None:
    objects = objects_of("50-service.yaml", "g2-standard-48", "service", "on-demand")
    (box,) = pod_of(objects, "Deployment")["containers"]
    requests = box["resources"]["requests"]
    replicas = 4 // int(requests["nvidia.com/gpu"])
    machine = catalog().machine("g2-standard-48")
    assert replicas * quantity(requests["cpu"]) < 0.8 * (machine.vcpu_count or 0)
    assert replicas * quantity(requests["memory"]) < 0.8 * machine.memory_bytes


def test_weights_are_downloaded_to_a_volume_of_the_pod() -> None:
    pod = pod_of(objects_of("50-service.yaml", "g2-standard-48", "service", "spot"), "Deployment")
    (box,) = pod["containers"]
    home = next(row["value"] for row in box["env"] if row["name"] == "HF_HOME")
    mounted = next(row["name"] for row in box["volumeMounts"] if row["mountPath"] == home)
    assert {"name": mounted, "emptyDir": {}} in pod["volumes"]


def test_existing_queue_and_resource_claims_are_explained() -> None:
    platform = platform_named("gke")
    assert platform is not None
    blueprint = blueprint_of("a3-ultragpu-8g", "multi-node", "reservation")
    notes = render_artefacts(platform, blueprint, DeploymentSettings(queue="gpus")).notes
    assert any("deviceClassMappings" in note and "--no-dra" in note for note in notes)
    without = DeploymentSettings(queue="gpus", claims=False)
    notes = render_artefacts(platform, blueprint, without).notes
    assert not any("deviceClassMappings" in note for note in notes)
