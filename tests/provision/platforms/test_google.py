"""Compute Engine, GKE and Cloud TPU: networks, capacity, TTL, scaling and placement."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import yaml

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.catalog.load import load_catalog
from gpuyard.provision.deployment_settings import DeploymentSettings
from gpuyard.provision.platform import Artefacts, Unsuitable
from gpuyard.provision.platforms import platform_named

from .rendering import blueprint_of, render

CATALOG = load_catalog()


def rendered(platform: str, blueprint: Blueprint, **requested: Any) -> Artefacts:
    result = platform_named(platform)
    assert result is not None
    result = render(result, blueprint, DeploymentSettings(**requested))
    assert isinstance(result, Artefacts), result
    return result


def bodies(result: Artefacts, method: str) -> list[dict[str, Any]]:
    trees = [json.loads(file.text) for file in result.files if file.name.endswith(".json")]
    return [tree["body"] for tree in trees if tree["method"] == method]


def objects(result: Artefacts, kind: str) -> list[dict[str, Any]]:
    files = [file for file in result.files if file.name.endswith(".yaml")]
    return [
        item for file in files for item in yaml.safe_load_all(file.text) if item["kind"] == kind
    ]


def test_rdma_network_uses_profile_of_zone() -> None:
    result = rendered("compute-engine", blueprint_of("a3-ultragpu-8g", "multi-node", "spot"))
    profiles = [
        body.get("networkProfile", "") for body in bodies(result, "compute.networks.insert")
    ]
    assert [text.rsplit("/", 1)[-1] for text in profiles if text] == ["us-central1-b-vpc-roce"]
    nics = bodies(result, "compute.instanceTemplates.insert")[0]["properties"]["networkInterfaces"]
    assert [nic["nicType"] for nic in nics] == ["GVNIC"] * 2 + ["MRDMA"] * 8
    assert len({nic["subnetwork"] for nic in nics}) == 10
    rules = bodies(result, "compute.firewalls.insert")
    assert not any("rdma" in rule["network"] for rule in rules)


def test_flex_start_requests_all_machines_at_once() -> None:
    result = rendered("compute-engine", blueprint_of("a4-highgpu-8g", "multi-node", "flex-start"))
    group = bodies(result, "compute.instanceGroupManagers.insert")[0]
    request = bodies(result, "compute.instanceGroupManagerResizeRequests.insert")[0]
    scheduling = bodies(result, "compute.instanceTemplates.insert")[0]["properties"]["scheduling"]
    assert group["targetSize"] == 0
    assert request["resizeBy"] == 2
    assert scheduling["provisioningModel"] == "FLEX_START"
    assert scheduling["maxRunDuration"] == request["requestedRunDuration"]


@pytest.mark.parametrize(
    ("machine", "way", "model"),
    [
        ("a3-megagpu-8g", "reservation", "RESERVATION_BOUND"),
        ("a2-ultragpu-8g", "reservation", "STANDARD"),
        ("a3-megagpu-8g", "on-demand", "STANDARD"),
        ("a3-megagpu-8g", "spot", "SPOT"),
    ],
)
def test_instances_have_provisioning_model_and_ttl(machine: str, way: str, model: str) -> None:
    result = rendered("compute-engine", blueprint_of(machine, "single-node", way), ttl_s=7200)
    body = bodies(result, "compute.instances.insert")[0]
    assert body["scheduling"]["provisioningModel"] == model
    assert body["scheduling"]["maxRunDuration"] == {"seconds": "7200"}
    assert body["scheduling"]["instanceTerminationAction"] == "DELETE"
    assert ("reservationAffinity" in body) == (way != "on-demand")


def test_compute_engine_service_is_healed_scaled_and_internal() -> None:
    result = rendered("compute-engine", blueprint_of("g2-standard-48", "service", "on-demand"))
    assert (
        bodies(result, "compute.healthChecks.insert")[0]["httpHealthCheck"]["requestPath"]
        == "/health"
    )
    policy = bodies(result, "compute.autoscalers.insert")[0]["autoscalingPolicy"]
    assert (policy["minNumReplicas"], policy["maxNumReplicas"]) == (1, 4)
    assert bodies(result, "compute.forwardingRules.insert")[0]["loadBalancingScheme"] == "INTERNAL"


def test_multi_machine_replica_on_compute_engine_suggests_gke() -> None:
    platform = platform_named("compute-engine")
    assert platform is not None
    result = render(
        platform, blueprint_of("a3-megagpu-8g", "service", "spot", 2), DeploymentSettings()
    )
    assert isinstance(result, Unsuitable)
    assert result.nearest == "gke"


def test_gke_cluster_is_private_with_dns_endpoint() -> None:
    result = rendered("gke", blueprint_of("a3-megagpu-8g", "multi-node", "spot"))
    cluster = bodies(result, "container.projects.locations.clusters.create")[0]["cluster"]
    assert cluster["networkConfig"]["defaultEnablePrivateNodes"] is True
    assert cluster["networkConfig"]["enableMultiNetworking"] is True
    assert cluster["controlPlaneEndpointsConfig"]["ipEndpointsConfig"]["enabled"] is False
    assert len(objects(result, "Network")) == 8


def test_gke_rdma_uses_claims_or_networks() -> None:
    blueprint = blueprint_of("a4-highgpu-8g", "multi-node", "reservation")
    claimed = rendered("gke", blueprint)
    pool = bodies(claimed, "container.projects.locations.clusters.nodePools.create")[0]["nodePool"]
    assert pool["networkConfig"]["acceleratorNetworkProfile"] == "auto"
    assert objects(claimed, "ResourceClaimTemplate")
    assert not objects(claimed, "Network")
    classic = rendered("gke", blueprint, claims=False)
    assert len(objects(classic, "Network")) == 8
    assert not objects(classic, "ResourceClaimTemplate")


def test_gke_places_by_topology_except_for_flex_start() -> None:
    there = rendered("gke", blueprint_of("a4-highgpu-8g", "multi-node", "reservation"))
    assert objects(there, "Topology")
    assert not objects(there, "AdmissionCheck")
    waited = rendered("gke", blueprint_of("a4-highgpu-8g", "multi-node", "flex-start"))
    assert objects(waited, "AdmissionCheck")
    assert not objects(waited, "Topology")
    jobset = objects(waited, "JobSet")[0]
    assert jobset["spec"]["suspend"] is True
    job = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert job["parallelism"] == job["completions"] == 2


def test_gke_nvlink_domain_has_a_channel() -> None:
    result = rendered("gke", blueprint_of("a4x-highgpu-4g", "multi-node", "reservation"))
    domain = objects(result, "ComputeDomain")[0]
    assert domain["spec"]["numNodes"] == 18
    pod = objects(result, "JobSet")[0]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"][
        "spec"
    ]
    assert {claim["name"] for claim in pod["resourceClaims"]} == {"rdma", "nvlink"}


def test_gke_autoscales_deployment_and_leader_worker_set() -> None:
    alone = rendered("gke", blueprint_of("g2-standard-48", "service", "spot"))
    assert (
        objects(alone, "HorizontalPodAutoscaler")[0]["spec"]["scaleTargetRef"]["kind"]
        == "Deployment"
    )
    groups = rendered("gke", blueprint_of("a3-megagpu-8g", "service", "spot", 2))
    scaler = objects(groups, "HorizontalPodAutoscaler")[0]["spec"]
    assert scaler["scaleTargetRef"]["kind"] == "LeaderWorkerSet"
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (1, 4)
    assert objects(groups, "LeaderWorkerSet")[0]["spec"]["leaderWorkerTemplate"]["size"] == 2
    assert objects(groups, "Service")[0]["spec"]["type"] == "ClusterIP"


def test_gke_tpu_slices_are_pools_with_topology() -> None:
    result = rendered("gke", blueprint_of("ct6e-standard-4t", "multi-node", "spot"))
    pool = bodies(result, "container.projects.locations.clusters.nodePools.create")[0]["nodePool"]
    assert pool["placementPolicy"] == {"type": "COMPACT", "tpuTopology": "2x4"}
    by_policy = rendered("gke", blueprint_of("tpu7x-standard-4t", "multi-node", "flex-start"))
    policy = bodies(by_policy, "compute.resourcePolicies.insert")[0]
    assert policy["workloadPolicy"]["acceleratorTopology"] == "2x2x2"


def test_cloud_tpu_requests_slices_with_topology() -> None:
    result = rendered("tpu", blueprint_of("ct6e-standard-4t", "multi-node", "spot"))
    body = bodies(result, "tpu.projects.locations.queuedResources.create")[0]
    node = body["tpu"]["nodeSpec"][0]["node"]
    assert node["acceleratorConfig"] == {"type": "V6E", "topology": "2x4"}
    assert node["networkConfig"]["enableExternalIps"] is False
    assert body["spot"] == {}
    assert "systemd-run --on-active=" in node["metadata"]["startup-script"]


def test_compute_engine_renders_tpus_as_cloud_tpu() -> None:
    blueprint = blueprint_of("ct6e-standard-4t", "multi-node", "spot")
    result = rendered("compute-engine", blueprint)
    assert result == replace(rendered("tpu", blueprint), platform="compute-engine")


def test_existing_bucket_is_not_created() -> None:
    blueprint = blueprint_of("a3-megagpu-8g", "single-node", "spot")
    assert bodies(rendered("compute-engine", blueprint), "storage.buckets.insert")
    assert not bodies(
        rendered("compute-engine", blueprint, bucket="mine"), "storage.buckets.insert"
    )


def test_rollback_deletes_created_resources_in_reverse_order() -> None:
    result = rendered("gke", blueprint_of("a3-megagpu-8g", "multi-node", "spot"))
    requests = [step for step in result.steps if ".json" in step.command]
    assert all(step.undo.startswith("bash call.sh --delete https://") for step in requests)
    assert any(step.command == "kubectl apply -f 50-job.yaml" for step in result.steps)
