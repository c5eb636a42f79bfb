"""Services: a Deployment or LeaderWorkerSet, with internal address and autoscaler."""

from __future__ import annotations

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.launch import Launch
from gpuyard.provision.launch.replicas import machines_per_replica, service_of
from gpuyard.provision.launch.server import SERVERS
from gpuyard.provision.platforms.manifests.expiry import expiry_objects
from gpuyard.provision.platforms.manifests.fabric_setup import claim_objects
from gpuyard.provision.platforms.manifests.inference_gateway import gateway_objects
from gpuyard.provision.platforms.manifests.nodes import CPU, PodNodes
from gpuyard.provision.platforms.manifests.pods import metadata, pod_template, storage_objects
from gpuyard.provision.platforms.manifests.text import Object
from gpuyard.units import HOUR_S

START_TIMEOUT_S = HOUR_S  # loading the weights takes long
RANK = (
    'export NODE_RANK="$LWS_WORKER_INDEX" NODE_COUNT="$LWS_GROUP_SIZE" '
    'MASTER_ADDR="$LWS_LEADER_ADDRESS"'
)
SCALE_DOWN_DELAY_S = 600  # replicas start slowly, so they are not removed early

GPU_TARGET = 80.0  # percent, also of CPUs
# Waiting requests per replica: 3 to 5 to begin with
# (GKE: best practices for autoscaling LLM inference workloads with GPUs).
QUEUE_TARGET = 5.0


def replica_bounds(blueprint: Blueprint) -> tuple[int, int]:
    """Return the minimum and maximum replicas; a HorizontalPodAutoscaler keeps at least one."""
    scaling = service_of(blueprint).autoscaling
    least = max(1, scaling.min_replicas)
    return least, max(least, scaling.max_replicas)


def planned_replicas(blueprint: Blueprint) -> int:
    """Return the replicas at the start: those that the plan needs for the load."""
    least, most = replica_bounds(blueprint)
    return min(most, max(least, service_of(blueprint).replicas))


def service_objects(
    blueprint: Blueprint, settings: ResolvedSettings, launch: Launch, nodes: PodNodes
) -> tuple[Object, ...]:
    """Return the replicas, their address, autoscaler and disruption budget."""
    machines = machines_per_replica(blueprint)
    claims: tuple[Object, ...] = ()
    if machines > 1:
        replicas = leader_worker_set(
            blueprint, settings, launch, nodes, planned_replicas(blueprint)
        )
        claims = claim_objects(nodes, settings, settings.labels, machines)
    else:
        replicas = _deployment(blueprint, settings, launch, nodes)
    autoscaler = _autoscaler(blueprint, settings, nodes, replicas)
    gateway: tuple[Object, ...] = ()
    if settings.requested.gateway:
        gateway = gateway_objects(blueprint, settings, launch, nodes)
    rented = (replicas, autoscaler, *gateway)
    return (
        *storage_objects(blueprint, settings, launch, nodes),
        *claims,
        replicas,
        service_address(settings, launch, has_leader=machines > 1),
        *pod_metrics(settings, launch, nodes),
        autoscaler,
        disruption_budget(settings),
        *gateway,
        *(() if nodes.is_onprem else expiry_objects(settings, rented)),
    )


def with_probes(template: Object, launch: Launch) -> Object:
    """Return a pod template whose first container has the probes of a server."""
    spec = template["spec"]
    assert isinstance(spec, dict)
    containers = spec["containers"]
    assert isinstance(containers, list)
    container = containers[0]
    assert isinstance(container, dict)
    check: Object = (
        {"httpGet": {"path": launch.health, "port": "http"}}
        if launch.health
        else {"tcpSocket": {"port": "http"}}
    )
    container["startupProbe"] = {
        **check,
        "periodSeconds": 10,
        "failureThreshold": START_TIMEOUT_S // 10,
    }
    container["readinessProbe"] = {**check, "periodSeconds": 10}
    return template


def _deployment(
    blueprint: Blueprint, settings: ResolvedSettings, launch: Launch, nodes: PodNodes
) -> Object:
    template = with_probes(pod_template(blueprint, settings, launch, nodes), launch)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(settings),
        "spec": {
            "replicas": planned_replicas(blueprint),
            "progressDeadlineSeconds": 2 * START_TIMEOUT_S,
            "selector": {"matchLabels": {"app": settings.name}},
            "template": template,
        },
    }


def leader_worker_set(
    blueprint: Blueprint,
    settings: ResolvedSettings,
    launch: Launch,
    nodes: PodNodes,
    replicas: int,
) -> Object:
    """Return the replicas as groups of pods: a leader that serves requests, and workers."""
    leader = with_probes(pod_template(blueprint, settings, launch, nodes, prelude=(RANK,)), launch)
    meta = leader["metadata"]
    assert isinstance(meta, dict)
    assert isinstance(meta["labels"], dict)
    leader["metadata"] = {**meta, "labels": {**meta["labels"], "role": "leader"}}
    worker = pod_template(blueprint, settings, launch, nodes, prelude=(RANK,))
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": metadata(settings),
        "spec": {
            "replicas": replicas,
            "startupPolicy": "LeaderCreated",
            "leaderWorkerTemplate": {
                "size": machines_per_replica(blueprint),
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": leader,
                "workerTemplate": worker,
            },
        },
    }


def service_address(settings: ResolvedSettings, launch: Launch, *, has_leader: bool) -> Object:
    """Return the address of a service, inside the cluster only."""
    selector: Object = {"app": settings.name, **({"role": "leader"} if has_leader else {})}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(settings),
        "spec": {
            "type": "ClusterIP",
            "selector": selector,
            "ports": [{"name": "http", "port": launch.port, "targetPort": "http"}],
        },
    }


def pod_metrics(settings: ResolvedSettings, launch: Launch, nodes: PodNodes) -> tuple[Object, ...]:
    """Return what collects the metrics of an engine on GKE; nothing without such metrics."""
    if nodes.is_onprem or not SERVERS[launch.framework].metric:
        return ()
    monitor: Object = {
        "apiVersion": "monitoring.googleapis.com/v1",
        "kind": "PodMonitoring",
        "metadata": metadata(settings),
        "spec": {
            "selector": {"matchLabels": {"app": settings.name}},
            "endpoints": [{"port": "http", "interval": "15s", "path": "/metrics"}],
        },
    }
    return (monitor,)


def _autoscaler(
    blueprint: Blueprint, settings: ResolvedSettings, nodes: PodNodes, replicas: Object
) -> Object:
    # Scale by the requests per replica, as planned; without such a metric, by GPU utilisation.
    least, most = replica_bounds(blueprint)
    service = service_of(blueprint)
    metric = SERVERS[service.engine.name].metric
    target = service.autoscaling.target if metric else GPU_TARGET
    if nodes.resource == CPU and not metric:
        name = ""
    elif nodes.is_onprem:
        name = metric or "DCGM_FI_DEV_GPU_UTIL"
    elif metric:
        name = f"prometheus.googleapis.com|{metric}|gauge"
    else:
        name = "kubernetes.io|container|accelerator|duty_cycle"
    rules = [_pods_rule(name, target)]
    queue = SERVERS[service.engine.name].queue_metric
    if queue:  # the autoscaler follows the metric that asks for the most replicas
        prefix, suffix = ("", "") if nodes.is_onprem else ("prometheus.googleapis.com|", "|gauge")
        rules.append(_pods_rule(f"{prefix}{queue}{suffix}", QUEUE_TARGET))
    if not name:
        utilization: Object = {"type": "Utilization", "averageUtilization": round(GPU_TARGET)}
        rules = [{"type": "Resource", "resource": {"name": "cpu", "target": utilization}}]
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata(settings),
        "spec": {
            "scaleTargetRef": {
                "apiVersion": replicas["apiVersion"],
                "kind": replicas["kind"],
                "name": settings.name,
            },
            "minReplicas": least,
            "maxReplicas": most,
            "metrics": [*rules],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": SCALE_DOWN_DELAY_S}},
        },
    }


def _pods_rule(name: str, target: float) -> Object:
    return {
        "type": "Pods",
        "pods": {
            "metric": {"name": name},
            "target": {"type": "AverageValue", "averageValue": str(max(1, round(target)))},
        },
    }


def disruption_budget(settings: ResolvedSettings) -> Object:
    """Return the budget that lets one pod at a time be evicted."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(settings),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": settings.name}}},
    }
