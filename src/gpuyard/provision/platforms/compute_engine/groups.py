"""Managed instance groups: template, policy, resize request, health check, autoscaler."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.invariants.facts import MachineFabric, read_facts
from gpuyard.provision.launch.launch import Launch
from gpuyard.provision.launch.replicas import replicas_per_machine, service_of
from gpuyard.provision.platforms.compute_engine.instance_properties import MAX_RUN_S
from gpuyard.provision.platforms.compute_engine.startup import FRONT_PORT
from gpuyard.provision.platforms.compute_engine.supervision import recreates_machines
from gpuyard.provision.platforms.google_machine_types import COMPACT_FLEX
from gpuyard.provision.platforms.requests import Request
from gpuyard.provision.platforms.vpc import Vpc

GPU_METRIC = "agent.googleapis.com/gpu/utilization"  # from the Ops Agent, per machine
GPU_TARGET = 80.0  # percent; a group cannot scale on the length of an engine's queue


def template_request(settings: ResolvedSettings, properties: dict[str, Plain]) -> Request:
    """Return the request that creates the instance template."""
    return Request(
        file="40-template.json",
        what="Create the instance template: machine, NICs, consumption option, TTL, startup script",
        method="compute.instanceTemplates.insert",
        parameters={"project": settings.project},
        body={"name": settings.name, "description": settings.labels_text, "properties": properties},
        resource=settings.name,
    )


def job_requests(
    blueprint: Blueprint,
    settings: ResolvedSettings,
    properties: dict[str, Plain],
    fabric: MachineFabric | None,
) -> Iterator[Request]:
    """Yield the requests for a multi-node job: machines close to each other that start together."""
    is_flex = blueprint.consumption == "flex-start"
    count = blueprint.machine_count
    policy = _policy(blueprint, settings, fabric)
    if policy is not None:
        yield policy
    yield template_request(settings, properties)
    # The supervisors wait for all machines; bulk creation exists for reservation-bound and
    # flex-start machines only (docs.cloud.google.com/compute/docs/instance-groups:
    # bulk-create-instances-in-mig, 2026-11).
    action = "REPAIR" if recreates_machines(blueprint) else "DO_NOTHING"
    options: dict[str, Plain] = {
        "targetSize": 0 if is_flex else count,
        "instanceLifecyclePolicy": {"defaultActionOnFailure": action},
    }
    options |= _placement(settings, policy)
    empty = ", empty until the resize request is met" if is_flex else ""
    yield _group(settings, options, f"Create a group of {count} machines{empty}")
    if is_flex:
        yield _resize(settings, count)


def workstation_requests(
    blueprint: Blueprint, settings: ResolvedSettings, properties: dict[str, Plain]
) -> Iterator[Request]:
    """Yield the requests for workstations.

    A failed machine is not recreated, because home directories are on its disk.
    """
    yield template_request(settings, properties)
    options: dict[str, Plain] = {
        "targetSize": blueprint.machine_count,
        "instanceLifecyclePolicy": {"defaultActionOnFailure": "DO_NOTHING"},
    }
    yield _group(settings, options, f"Create a group of {blueprint.machine_count} machines")


def _placement(settings: ResolvedSettings, policy: Request | None) -> dict[str, Plain]:
    if policy is None:
        return {}
    link = (
        f"projects/{settings.project}/regions/{settings.region}/resourcePolicies/{policy.resource}"
    )
    return {"resourcePolicies": {"workloadPolicy": link}}


def _group(settings: ResolvedSettings, options: dict[str, Plain], what: str) -> Request:
    body: dict[str, Plain] = {
        "name": settings.name,
        "description": settings.labels_text,
        "baseInstanceName": settings.name,
        "instanceTemplate": f"projects/{settings.project}/global/instanceTemplates/{settings.name}",
        **options,
    }
    return Request(
        file="50-group.json",
        what=what,
        method="compute.instanceGroupManagers.insert",
        parameters={"project": settings.project, "zone": settings.zone},
        body=body,
        resource=settings.name,
    )


def _resize(settings: ResolvedSettings, count: int) -> Request:
    # Flex-start: all machines at once, when they are available, for the requested duration.
    name = f"{settings.name}-all"
    body: dict[str, Plain] = {
        "name": name,
        "description": settings.labels_text,
        "resizeBy": count,
        "requestedRunDuration": {"seconds": str(min(settings.ttl_s, MAX_RUN_S))},
    }
    parameters: dict[str, Plain] = {
        "project": settings.project,
        "zone": settings.zone,
        "instanceGroupManager": settings.name,
    }
    return Request(
        file="60-resize-request.json",
        what=f"Request {count} machines at once by flex-start",
        method="compute.instanceGroupManagerResizeRequests.insert",
        parameters=parameters,
        body=body,
        resource=name,
    )


def _policy(
    blueprint: Blueprint, settings: ResolvedSettings, fabric: MachineFabric | None
) -> Request | None:
    # Whole NVLink domains, or one block; a reservation has its own placement.
    workload: dict[str, Plain] = {"type": "HIGH_THROUGHPUT"}
    if fabric is None:
        return None
    if fabric.domain_node_count:
        workload["acceleratorTopology"] = (
            f"1x{int(blueprint.machine.chip_count * fabric.domain_node_count)}"
        )
    elif blueprint.consumption == "reservation" or (
        blueprint.consumption == "flex-start" and blueprint.machine.series not in COMPACT_FLEX
    ):
        return None
    else:
        workload["maxTopologyDistance"] = "BLOCK"
    name = f"{settings.name}-near"
    return Request(
        file="30-policy.json",
        what="Create the workload policy that places the machines close to each other",
        method="compute.resourcePolicies.insert",
        parameters={"project": settings.project, "region": settings.region},
        body={"name": name, "description": settings.labels_text, "workloadPolicy": workload},
        resource=name,
    )


def balancer_requests(settings: ResolvedSettings, vpc: Vpc) -> Iterator[Request]:
    """Yield the requests for an internal load balancer: one address inside the VPC."""
    base = f"projects/{settings.project}"
    where: dict[str, Plain] = {"project": settings.project, "region": settings.region}
    link = f"{base}/regions/{settings.region}/backendServices/{settings.name}"
    backend: dict[str, Plain] = {
        "group": f"{base}/zones/{settings.zone}/instanceGroups/{settings.name}",
        "balancingMode": "CONNECTION",
    }
    yield Request(
        file="70-backend.json",
        what="Create the backend of the load balancer",
        method="compute.regionBackendServices.insert",
        parameters=where,
        resource=settings.name,
        body={
            "name": settings.name,
            "description": settings.labels_text,
            "loadBalancingScheme": "INTERNAL",
            "protocol": "TCP",
            "healthChecks": [f"{base}/global/healthChecks/{settings.name}-ready"],
            "backends": [backend],
        },
    )
    yield Request(
        file="75-address.json",
        what=f"Create the internal address, port {FRONT_PORT}",
        method="compute.forwardingRules.insert",
        parameters=where,
        resource=settings.name,
        body={
            "name": settings.name,
            "description": settings.labels_text,
            "labels": settings.labels,
            "loadBalancingScheme": "INTERNAL",
            "IPProtocol": "TCP",
            "ports": [str(FRONT_PORT)],
            "backendService": link,
            "network": f"{base}/global/networks/{vpc.name}",
            "subnetwork": f"{base}/regions/{settings.region}/subnetworks/{vpc.subnets[0].name}",
        },
    )


def service_requests(
    blueprint: Blueprint, settings: ResolvedSettings, properties: dict[str, Plain], launch: Launch
) -> Iterator[Request]:
    """Yield the requests for a service: a group with autohealing and autoscaling."""
    fabric = read_facts().fabric(blueprint.machine.name)
    policy = _policy(blueprint, settings, fabric) if fabric and fabric.domain_node_count else None
    if policy is not None:
        yield policy
    scaling = service_of(blueprint).autoscaling
    per_machine = replicas_per_machine(blueprint)
    least = max(1, math.ceil(scaling.min_replicas / per_machine))
    most = max(least, math.ceil(scaling.max_replicas / per_machine))
    check = f"{settings.name}-ready"
    kind: dict[str, Plain] = (
        {"type": "HTTP", "httpHealthCheck": {"port": FRONT_PORT, "requestPath": launch.health}}
        if launch.health
        else {"type": "TCP", "tcpHealthCheck": {"port": FRONT_PORT}}
    )
    yield Request(
        file="35-health-check.json",
        what="Create the health check",
        method="compute.healthChecks.insert",
        parameters={"project": settings.project},
        resource=check,
        body={
            "name": check,
            "description": settings.labels_text,
            "checkIntervalSec": 10,
            "timeoutSec": 5,
            "unhealthyThreshold": 6,
            **kind,
        },
    )
    yield template_request(settings, properties)
    link = f"projects/{settings.project}/global/healthChecks/{check}"
    options: dict[str, Plain] = {
        "targetSize": min(most, max(least, blueprint.machine_count)),
        "autoHealingPolicies": [{"healthCheck": link, "initialDelaySec": 1800}],
        **_placement(settings, policy),
    }
    yield _group(settings, options, f"Create a group of {least} to {most} machines")
    yield _autoscaler(settings, least, most)


def _autoscaler(settings: ResolvedSettings, least: int, most: int) -> Request:
    target = (
        f"projects/{settings.project}/zones/{settings.zone}/instanceGroupManagers/{settings.name}"
    )
    return Request(
        file="60-autoscaler.json",
        what=f"Create the autoscaler: {least} to {most} machines by GPU utilisation",
        method="compute.autoscalers.insert",
        parameters={"project": settings.project, "zone": settings.zone},
        body={
            "name": settings.name,
            "description": settings.labels_text,
            "target": target,
            "autoscalingPolicy": {
                "mode": "ON",
                "minNumReplicas": least,
                "maxNumReplicas": most,
                "coolDownPeriodSec": 900,
                "customMetricUtilizations": [
                    {
                        "metric": GPU_METRIC,
                        "utilizationTargetType": "GAUGE",
                        "utilizationTarget": GPU_TARGET,
                    }
                ],
            },
        },
        resource=settings.name,
    )
