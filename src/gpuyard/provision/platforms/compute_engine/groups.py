"""Groups of machines: template, policy, group, the request for capacity, health check and autoscaler."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gpuyard.blueprint import Blueprint
from gpuyard.document import Plain
from gpuyard.provision.invariants.facts import Fabric, read_facts
from gpuyard.provision.launch import Launch, replicas_per_machine, serving_of
from gpuyard.provision.platforms.compute_engine.machines import MOST_RUN_S
from gpuyard.provision.platforms.compute_engine.startup import FRONT_PORT
from gpuyard.provision.platforms.machines import COMPACT_FLEX
from gpuyard.provision.platforms.requests import Request
from gpuyard.provision.platforms.vpc import Vpc
from gpuyard.provision.settings import Place

__all__ = ["balancer_requests", "desk_requests", "job_requests", "service_requests"]

GPU_METRIC = "agent.googleapis.com/gpu/utilization"  # the Ops Agent's, per machine
GPU_TARGET = 80.0  # per cent; a queue of the engine is not a metric that a group can follow


def template_request(place: Place, properties: dict[str, Plain]) -> Request:
    """The template of the machines."""
    return Request(
        file="40-template.json", what="instance template: machine, NICs, offer, lifetime and startup script",
        method="compute.instanceTemplates.insert", parameters={"project": place.project},
        body={"name": place.name, "description": place.stamp, "properties": properties}, resource=place.name,
    )  # fmt: skip


def job_requests(
    blueprint: Blueprint, place: Place, properties: dict[str, Plain], fabric: Fabric | None
) -> Iterator[Request]:
    """Machines that start together and stay close."""
    policy = _policy(blueprint, place, fabric)
    if policy is not None:
        yield policy
    yield template_request(place, properties)
    flex, count = blueprint.way == "flex-start", blueprint.machine_count
    body: dict[str, Plain] = {
        "name": place.name,
        "description": place.stamp,
        "baseInstanceName": place.name,
        "instanceTemplate": f"projects/{place.project}/global/instanceTemplates/{place.name}",
        "targetSize": 0 if flex else count,
        "instanceLifecyclePolicy": {"defaultActionOnFailure": "DO_NOTHING"},
    }
    if not flex:
        body["targetSizePolicy"] = {"mode": "BULK"}
    body |= _near(place, policy)
    yield _group(place, body, f"group of {count} machines" + (", empty until the request is met" if flex else ""))
    if flex:
        yield _resize(place, count)


def desk_requests(blueprint: Blueprint, place: Place, properties: dict[str, Plain]) -> Iterator[Request]:
    """Machines that people sit at: each is there by itself, and none is made anew, because homes are on their disks."""
    yield template_request(place, properties)
    body: dict[str, Plain] = {
        "name": place.name,
        "description": place.stamp,
        "baseInstanceName": place.name,
        "instanceTemplate": f"projects/{place.project}/global/instanceTemplates/{place.name}",
        "targetSize": blueprint.machine_count,
        "instanceLifecyclePolicy": {"defaultActionOnFailure": "DO_NOTHING"},
    }
    yield _group(place, body, f"group of {blueprint.machine_count} machines")


def _near(place: Place, policy: Request | None) -> dict[str, Plain]:
    """What a group says of its policy."""
    if policy is None:
        return {}
    link = f"projects/{place.project}/regions/{place.region}/resourcePolicies/{policy.resource}"
    return {"resourcePolicies": {"workloadPolicy": link}}


def _group(place: Place, body: dict[str, Plain], what: str) -> Request:
    """The managed instance group."""
    return Request(
        file="50-group.json", what=what, method="compute.instanceGroupManagers.insert",
        parameters={"project": place.project, "zone": place.zone}, body=body, resource=place.name,
    )  # fmt: skip


def _resize(place: Place, count: int) -> Request:
    """Flex-start: all machines at once, when they can be had, for as long as was asked."""
    name = f"{place.name}-all"
    body: dict[str, Plain] = {
        "name": name,
        "description": place.stamp,
        "resizeBy": count,
        "requestedRunDuration": {"seconds": str(min(place.ttl_s, MOST_RUN_S))},
    }
    parameters: dict[str, Plain] = {"project": place.project, "zone": place.zone, "instanceGroupManager": place.name}
    return Request(
        file="60-resize-request.json", what=f"flex-start: {count} machines at once",
        method="compute.instanceGroupManagerResizeRequests.insert", parameters=parameters, body=body, resource=name,
    )  # fmt: skip


def _policy(blueprint: Blueprint, place: Place, fabric: Fabric | None) -> Request | None:
    """How close the machines are: whole NVLink domains, or one block; a reservation brings its own policy."""
    workload: dict[str, Plain] = {"type": "HIGH_THROUGHPUT"}
    if fabric is None:
        return None
    if fabric.domain_node_count:
        workload["acceleratorTopology"] = f"1x{int(blueprint.machine.chip_count * fabric.domain_node_count)}"
    elif blueprint.way == "reservation" or (
        blueprint.way == "flex-start" and blueprint.machine.series not in COMPACT_FLEX
    ):
        return None
    else:
        workload["maxTopologyDistance"] = "BLOCK"
    name = f"{place.name}-near"
    return Request(
        file="30-policy.json", what="workload policy: how close the machines are",
        method="compute.resourcePolicies.insert", parameters={"project": place.project, "region": place.region},
        body={"name": name, "description": place.stamp, "workloadPolicy": workload}, resource=name,
    )  # fmt: skip


def balancer_requests(place: Place, vpc: Vpc) -> Iterator[Request]:
    """An internal load balancer before the group: one address inside the VPC."""
    base, where = f"projects/{place.project}", {"project": place.project, "region": place.region}
    link = f"{base}/regions/{place.region}/backendServices/{place.name}"
    backend: dict[str, Plain] = {
        "group": f"{base}/zones/{place.zone}/instanceGroups/{place.name}",
        "balancingMode": "CONNECTION",
    }
    yield Request(
        file="70-backend.json", what="backend of the load balancer", method="compute.regionBackendServices.insert",
        parameters={**where}, resource=place.name,
        body={
            "name": place.name, "description": place.stamp, "loadBalancingScheme": "INTERNAL", "protocol": "TCP",
            "healthChecks": [f"{base}/global/healthChecks/{place.name}-ready"], "backends": [backend],
        },
    )  # fmt: skip
    yield Request(
        file="75-address.json", what=f"internal address, port {FRONT_PORT}", method="compute.forwardingRules.insert",
        parameters={**where}, resource=place.name,
        body={
            "name": place.name, "description": place.stamp, "labels": place.labels, "loadBalancingScheme": "INTERNAL",
            "IPProtocol": "TCP", "ports": [str(FRONT_PORT)], "backendService": link,
            "network": f"{base}/global/networks/{vpc.name}",
            "subnetwork": f"{base}/regions/{place.region}/subnetworks/{vpc.subnets[0].name}",
        },
    )  # fmt: skip


def service_requests(
    blueprint: Blueprint, place: Place, properties: dict[str, Plain], launch: Launch
) -> Iterator[Request]:
    """A group that is healed and follows the load."""
    fabric = read_facts().fabric(blueprint.machine.name)
    policy = _policy(blueprint, place, fabric) if fabric and fabric.domain_node_count else None
    if policy is not None:
        yield policy
    scaling, per_machine = serving_of(blueprint).autoscaling, replicas_per_machine(blueprint)
    least = max(1, math.ceil(scaling.least_replicas / per_machine))
    most = max(least, math.ceil(scaling.most_replicas / per_machine))
    check = f"{place.name}-ready"
    kind: dict[str, Plain] = (
        {"type": "HTTP", "httpHealthCheck": {"port": FRONT_PORT, "requestPath": launch.health}}
        if launch.health
        else {"type": "TCP", "tcpHealthCheck": {"port": FRONT_PORT}}
    )
    yield Request(
        file="35-health-check.json", what="health check", method="compute.healthChecks.insert",
        parameters={"project": place.project}, resource=check,
        body={
            "name": check, "description": place.stamp, "checkIntervalSec": 10, "timeoutSec": 5,
            "unhealthyThreshold": 6, **kind,
        },
    )  # fmt: skip
    yield template_request(place, properties)
    link = f"projects/{place.project}/global/healthChecks/{check}"
    body: dict[str, Plain] = {
        "name": place.name,
        "description": place.stamp,
        "baseInstanceName": place.name,
        "instanceTemplate": f"projects/{place.project}/global/instanceTemplates/{place.name}",
        "targetSize": least,
        "autoHealingPolicies": [{"healthCheck": link, "initialDelaySec": 1800}],
        **_near(place, policy),
    }
    yield _group(place, body, f"group of {least} to {most} machines")
    yield _scaler(place, least, most)


def _scaler(place: Place, least: int, most: int) -> Request:
    """What follows the load."""
    target = f"projects/{place.project}/zones/{place.zone}/instanceGroupManagers/{place.name}"
    return Request(
        file="60-autoscaler.json", what=f"autoscaler: {least} to {most} machines by the use of their GPUs",
        method="compute.autoscalers.insert", parameters={"project": place.project, "zone": place.zone},
        body={
            "name": place.name, "description": place.stamp, "target": target,
            "autoscalingPolicy": {
                "mode": "ON", "minNumReplicas": least, "maxNumReplicas": most, "coolDownPeriodSec": 900,
                "customMetricUtilizations": [
                    {"metric": GPU_METRIC, "utilizationTargetType": "GAUGE", "utilizationTarget": GPU_TARGET}
                ],
            },
        },
        resource=place.name,
    )  # fmt: skip
