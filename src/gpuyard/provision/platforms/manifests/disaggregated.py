"""Disaggregated serving: prefill and decode pools with stable addresses, and their router.

The router gets the address of every replica, so the pools have the planned sizes and are not
scaled. A pool is a StatefulSet, or a LeaderWorkerSet if a replica has several machines: both give
replica i the address POOL-i.POOL. The replicas of both pools share the machines.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.plan.service import PrefillPool
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.launch import Launch
from gpuyard.provision.launch.replicas import (
    machines_per_replica,
    replicas_per_machine,
    service_of,
)
from gpuyard.provision.launch.server import PORT, server_launch, with_fabric
from gpuyard.provision.platforms.manifests.expiry import expiry_objects
from gpuyard.provision.platforms.manifests.fabric_setup import claim_objects
from gpuyard.provision.platforms.manifests.nodes import PodNodes
from gpuyard.provision.platforms.manifests.pod_requests import pod_requests
from gpuyard.provision.platforms.manifests.pods import metadata, pod_template, storage_objects
from gpuyard.provision.platforms.manifests.services import (
    disruption_budget,
    leader_worker_set,
    pod_metrics,
    service_address,
    with_probes,
)
from gpuyard.provision.platforms.manifests.text import Object

PoolName = Literal["prefill", "decode"]
POOLS: tuple[PoolName, PoolName] = ("decode", "prefill")
# A decode replica often needs more GPUs of one machine than a prefill replica. It displaces prefill
# replicas that were scheduled first, which then go where GPUs are left.
DECODE_PRIORITY = 1000
ROUTER_SHARE = 0.25  # of the requests of a whole machine
POOL_NOTE = (
    "The pools have the planned sizes and do not scale; the lengths of prompts and answers decide "
    "their ratio. The router is one pod and starts when every replica is ready."
)
HOST_NIC_NOTE = (
    "KV caches cross the host NIC: NIXL has no plugin for the GPUDirect-TCPX fabrics of this "
    "machine."
)


def is_disaggregated(blueprint: Blueprint) -> bool:
    """Return whether the service has separate prefill and decode pools."""
    service = blueprint.option.service
    return service is not None and service.prefill is not None


def pools_obstacle(blueprint: Blueprint) -> str:
    """Return why pods of both pools cannot share the machines; empty if they can."""
    if blueprint.machine.provider == "google":
        return ""
    if any(replicas_per_machine(pool_blueprint(blueprint, name)) > 1 for name in POOLS):
        return "replicas on the host's network would share the ports of their machine"
    return ""


def pools_of(blueprint: Blueprint) -> tuple[Blueprint, ...]:
    """Return each pool as a service; the service itself if it has one pool."""
    if not is_disaggregated(blueprint):
        return (blueprint,)
    return tuple(pool_blueprint(blueprint, name) for name in POOLS)


def prefill_of(blueprint: Blueprint) -> PrefillPool:
    """Return the prefill pool of a disaggregated service."""
    prefill = service_of(blueprint).prefill
    assert prefill is not None
    return prefill


def pool_blueprint(blueprint: Blueprint, name: PoolName) -> Blueprint:
    """Return one pool as a service."""
    service, prefill = service_of(blueprint), prefill_of(blueprint)
    pool = replace(service, prefill=None)
    if name == "prefill":
        pool = replace(
            pool,
            replicas=prefill.replicas,
            spare_replicas=0,
            chips_per_replica=prefill.chips_per_replica,
            engine=prefill.engine,
        )
    return replace(blueprint, option=replace(blueprint.option, service=pool))


def pool_settings(settings: ResolvedSettings, name: PoolName) -> ResolvedSettings:
    """Return the settings with the pool's name for its resources."""
    return replace(settings, name=f"{settings.name}-{name}")


def pool_hosts(blueprint: Blueprint, settings: ResolvedSettings, name: PoolName) -> tuple[str, ...]:
    """Return host:port of every replica of a pool."""
    pool = pool_settings(settings, name).name
    count = service_of(pool_blueprint(blueprint, name)).replicas
    return tuple(f"{pool}-{index}.{pool}:{PORT}" for index in range(count))


def disaggregated_objects(
    blueprint: Blueprint, settings: ResolvedSettings, nodes: PodNodes
) -> tuple[Object, ...]:
    """Return both pools, the router, its address, and the end of all of them."""
    objects: list[Object] = [_priority(settings)]
    for name in POOLS:
        objects += _pool_objects(
            pool_blueprint(blueprint, name),
            pool_settings(settings, name),
            replace(nodes, priority=f"{settings.name}-decode") if name == "decode" else nodes,
        )
    router = _router(blueprint, settings, nodes)
    launch = server_launch(pool_blueprint(blueprint, "decode"), settings, "pod")
    objects += [router, service_address(settings, launch, has_leader=False)]
    ends = () if nodes.is_onprem else expiry_objects(settings, tuple(objects))
    return (*objects, *ends)


def _priority(settings: ResolvedSettings) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": f"{settings.name}-decode", "labels": settings.labels},
        "value": DECODE_PRIORITY,
        "description": "decode replicas are scheduled before prefill replicas",
    }


def _pool_objects(
    pool: Blueprint, settings: ResolvedSettings, nodes: PodNodes
) -> tuple[Object, ...]:
    launch = server_launch(pool, settings, "pod")
    if nodes.fabric is not None:
        launch = with_fabric(launch, pool, "pod")
    machines = machines_per_replica(pool)
    nodes = _pool_nodes(pool, nodes)
    if machines > 1:
        replicas = leader_worker_set(pool, settings, launch, nodes, service_of(pool).replicas)
    else:
        replicas = _stateful_set(pool, settings, launch, nodes)
    return (
        *storage_objects(pool, settings, launch, nodes),
        *claim_objects(nodes, settings, settings.labels, machines),
        *(() if machines > 1 else (_headless(settings),)),
        replicas,
        *pod_metrics(settings, launch, nodes),
        disruption_budget(settings),
    )


def _pool_nodes(pool: Blueprint, nodes: PodNodes) -> PodNodes:
    """A replica gets its share of the machine's NICs; one machine needs no NVLink domain."""
    if machines_per_replica(pool) > 1 or nodes.fabric is None:
        return nodes
    share = service_of(pool).chips_per_replica / pool.machine.chip_count
    count = max(1, int(nodes.fabric.data_nic_count * share))
    fabric = replace(nodes.fabric, data_nic_count=count)
    return replace(nodes, fabric=fabric, domain_machines=None)


def _stateful_set(
    pool: Blueprint, settings: ResolvedSettings, launch: Launch, nodes: PodNodes
) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata(settings),
        "spec": {
            "serviceName": settings.name,
            "replicas": service_of(pool).replicas,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": settings.name}},
            "template": with_probes(pod_template(pool, settings, launch, nodes), launch),
        },
    }


def _headless(settings: ResolvedSettings) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(settings),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"app": settings.name},
            "ports": [{"name": "http", "port": PORT, "targetPort": "http"}],
        },
    }


def _router(blueprint: Blueprint, settings: ResolvedSettings, nodes: PodNodes) -> Object:
    launch = server_launch(pool_blueprint(blueprint, "decode"), settings, "pod")
    hosts = {name: " ".join(pool_hosts(blueprint, settings, name)) for name in POOLS}
    lines = (
        "set -euo pipefail",
        f'export PREFILL="{hosts["prefill"]}"',
        f'export DECODE="{hosts["decode"]}"',
        "for host in $PREFILL $DECODE; do",
        f'  until curl -fsS "http://$host{launch.health}" >/dev/null 2>&1; do sleep 5; done',
        "done",
        *_install(launch.framework),
        prefill_of(blueprint).router,
    )
    container: Object = {
        "name": "router",
        "image": launch.image,
        "command": ["bash", "-c", "\n".join(lines) + "\n"],
        "resources": {"requests": pod_requests(blueprint.machine, ROUTER_SHARE)},
        "ports": [{"name": "http", "containerPort": PORT}],
    }
    template: Object = {
        "metadata": {"labels": {**settings.labels, "app": settings.name}},
        "spec": {
            "nodeSelector": nodes.selector,
            "tolerations": list(nodes.tolerations),
            "containers": [container],
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(settings),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": settings.name}},
            "template": with_probes(template, launch),
        },
    }


def _install(engine: str) -> tuple[str, ...]:
    # The images of SGLang and TensorRT-LLM hold their routers; vLLM's is a package of its project.
    if engine != "vllm":
        return ()
    return ("command -v vllm-router >/dev/null || pip install --no-cache-dir vllm-router",)
