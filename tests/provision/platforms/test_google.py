"""Compute Engine, GKE and Cloud TPU: what a careful engineer would look for in their files."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import yaml

from gpuyard.blueprint import Blueprint
from gpuyard.catalog import load_catalog
from gpuyard.provision.platform import Artefacts, Unsuitable
from gpuyard.provision.platforms import platform_named
from gpuyard.provision.samples import SHAPES, Sample, sample_blueprint
from gpuyard.provision.settings import Settings

CATALOG = load_catalog()


def decision(machine: str, shape: str, way: str | None, machines_per_replica: int = 1) -> Blueprint:
    row = next(item for item in CATALOG.machines if item.name == machine)
    kind = next(item for item in SHAPES if item == shape)
    sample = Sample(machine=row, shape=kind, way=way)  # type: ignore[arg-type]
    return sample_blueprint(sample, CATALOG, machines_per_replica)


def rendered(platform: str, blueprint: Blueprint, **told: Any) -> Artefacts:
    found = platform_named(platform)
    assert found is not None
    made = found.render(blueprint, Settings(**told))
    assert isinstance(made, Artefacts), made
    return made


def bodies(found: Artefacts, method: str) -> list[dict[str, Any]]:
    trees = [json.loads(file.text) for file in found.files if file.name.endswith(".json")]
    return [tree["body"] for tree in trees if tree["method"] == method]


def objects(found: Artefacts, kind: str) -> list[dict[str, Any]]:
    files = [file for file in found.files if file.name.endswith(".yaml")]
    return [item for file in files for item in yaml.safe_load_all(file.text) if item["kind"] == kind]


def test_rdma_machines_stand_in_one_network_with_the_profile_of_their_zone() -> None:
    found = rendered("compute-engine", decision("a3-ultragpu-8g", "multi-node", "spot"))
    profiles = [body.get("networkProfile", "") for body in bodies(found, "compute.networks.insert")]
    assert [text.rsplit("/", 1)[-1] for text in profiles if text] == ["us-central1-b-vpc-roce"]
    nics = bodies(found, "compute.instanceTemplates.insert")[0]["properties"]["networkInterfaces"]
    assert [nic["nicType"] for nic in nics] == ["GVNIC"] * 2 + ["MRDMA"] * 8
    assert len({nic["subnetwork"] for nic in nics}) == 10
    rules = bodies(found, "compute.firewalls.insert")
    assert not any("rdma" in rule["network"] for rule in rules)


def test_flex_start_asks_for_all_machines_at_once() -> None:
    found = rendered("compute-engine", decision("a4-highgpu-8g", "multi-node", "flex-start"))
    group = bodies(found, "compute.instanceGroupManagers.insert")[0]
    request = bodies(found, "compute.instanceGroupManagerResizeRequests.insert")[0]
    scheduling = bodies(found, "compute.instanceTemplates.insert")[0]["properties"]["scheduling"]
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
def test_each_way_has_its_provisioning_model_and_an_end(machine: str, way: str, model: str) -> None:
    found = rendered("compute-engine", decision(machine, "single-node", way), ttl_s=7200)
    body = bodies(found, "compute.instances.insert")[0]
    assert body["scheduling"]["provisioningModel"] == model
    assert body["scheduling"]["maxRunDuration"] == {"seconds": "7200"}
    assert body["scheduling"]["instanceTerminationAction"] == "DELETE"
    assert ("reservationAffinity" in body) == (way != "on-demand")


def test_a_service_is_healed_scaled_and_reached_inside_only() -> None:
    found = rendered("compute-engine", decision("g2-standard-48", "service", "on-demand"))
    assert bodies(found, "compute.healthChecks.insert")[0]["httpHealthCheck"]["requestPath"] == "/health"
    policy = bodies(found, "compute.autoscalers.insert")[0]["autoscalingPolicy"]
    assert (policy["minNumReplicas"], policy["maxNumReplicas"]) == (1, 4)
    assert bodies(found, "compute.forwardingRules.insert")[0]["loadBalancingScheme"] == "INTERNAL"


def test_a_replica_of_several_machines_is_for_gke() -> None:
    platform = platform_named("compute-engine")
    assert platform is not None
    found = platform.render(decision("a3-megagpu-8g", "service", "spot", 2), Settings())
    assert isinstance(found, Unsuitable)
    assert found.nearest == "gke"


def test_a_gke_cluster_is_private_and_reached_by_identity() -> None:
    found = rendered("gke", decision("a3-megagpu-8g", "multi-node", "spot"))
    cluster = bodies(found, "container.projects.locations.clusters.create")[0]["cluster"]
    assert cluster["networkConfig"]["defaultEnablePrivateNodes"] is True
    assert cluster["networkConfig"]["enableMultiNetworking"] is True
    assert cluster["controlPlaneEndpointsConfig"]["ipEndpointsConfig"]["enabled"] is False
    assert len(objects(found, "Network")) == 8


def test_rdma_comes_by_claims_or_by_networks() -> None:
    blueprint = decision("a4-highgpu-8g", "multi-node", "reservation")
    claimed = rendered("gke", blueprint)
    pool = bodies(claimed, "container.projects.locations.clusters.nodePools.create")[0]["nodePool"]
    assert pool["networkConfig"]["acceleratorNetworkProfile"] == "auto"
    assert objects(claimed, "ResourceClaimTemplate")
    assert not objects(claimed, "Network")
    classic = rendered("gke", blueprint, claims=False)
    assert len(objects(classic, "Network")) == 8
    assert not objects(classic, "ResourceClaimTemplate")


def test_gke_places_by_topology_what_is_there_and_queues_what_is_not() -> None:
    there = rendered("gke", decision("a4-highgpu-8g", "multi-node", "reservation"))
    assert objects(there, "Topology")
    assert not objects(there, "AdmissionCheck")
    waited = rendered("gke", decision("a4-highgpu-8g", "multi-node", "flex-start"))
    assert objects(waited, "AdmissionCheck")
    assert not objects(waited, "Topology")
    jobset = objects(waited, "JobSet")[0]
    assert jobset["spec"]["suspend"] is True
    job = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert job["parallelism"] == job["completions"] == 2


def test_an_nvlink_domain_has_its_channel() -> None:
    found = rendered("gke", decision("a4x-highgpu-4g", "multi-node", "reservation"))
    domain = objects(found, "ComputeDomain")[0]
    assert domain["spec"]["numNodes"] == 18
    pod = objects(found, "JobSet")[0]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert {claim["name"] for claim in pod["resourceClaims"]} == {"rdma", "nvlink"}


def test_gke_scales_replicas_of_one_machine_and_of_several() -> None:
    alone = rendered("gke", decision("g2-standard-48", "service", "spot"))
    assert objects(alone, "HorizontalPodAutoscaler")[0]["spec"]["scaleTargetRef"]["kind"] == "Deployment"
    groups = rendered("gke", decision("a3-megagpu-8g", "service", "spot", 2))
    scaler = objects(groups, "HorizontalPodAutoscaler")[0]["spec"]
    assert scaler["scaleTargetRef"]["kind"] == "LeaderWorkerSet"
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (1, 4)
    assert objects(groups, "LeaderWorkerSet")[0]["spec"]["leaderWorkerTemplate"]["size"] == 2
    assert objects(groups, "Service")[0]["spec"]["type"] == "ClusterIP"


def test_tpu_slices_are_pools_with_a_topology() -> None:
    found = rendered("gke", decision("ct6e-standard-4t", "multi-node", "spot"))
    pool = bodies(found, "container.projects.locations.clusters.nodePools.create")[0]["nodePool"]
    assert pool["placementPolicy"] == {"type": "COMPACT", "tpuTopology": "2x4"}
    by_policy = rendered("gke", decision("tpu7x-standard-4t", "multi-node", "flex-start"))
    policy = bodies(by_policy, "compute.resourcePolicies.insert")[0]
    assert policy["workloadPolicy"]["acceleratorTopology"] == "2x2x2"


def test_cloud_tpu_queues_slices_of_a_topology() -> None:
    found = rendered("tpu", decision("ct6e-standard-4t", "multi-node", "spot"))
    body = bodies(found, "tpu.projects.locations.queuedResources.create")[0]
    node = body["tpu"]["nodeSpec"][0]["node"]
    assert node["acceleratorConfig"] == {"type": "V6E", "topology": "2x4"}
    assert node["networkConfig"]["enableExternalIps"] is False
    assert body["spot"] == {}
    assert "systemd-run --on-active=" in node["metadata"]["startup-script"]


def test_compute_engine_gives_tpus_to_cloud_tpu() -> None:
    blueprint = decision("ct6e-standard-4t", "multi-node", "spot")
    found = rendered("compute-engine", blueprint)
    assert found == replace(rendered("tpu", blueprint), platform="compute-engine")


def test_a_bucket_that_exists_is_not_made() -> None:
    blueprint = decision("a3-megagpu-8g", "single-node", "spot")
    assert bodies(rendered("compute-engine", blueprint), "storage.buckets.insert")
    assert not bodies(rendered("compute-engine", blueprint, bucket="mine"), "storage.buckets.insert")


def test_steps_are_taken_back_in_reverse_where_they_made_something() -> None:
    found = rendered("gke", decision("a3-megagpu-8g", "multi-node", "spot"))
    made = [step for step in found.steps if ".json" in step.command]
    assert all(step.undo.startswith("bash call.sh --delete https://") for step in made)
    assert any(step.command == "kubectl apply -f 50-job.yaml" for step in found.steps)
