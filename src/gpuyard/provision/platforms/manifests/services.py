"""Services: replicas of one machine (Deployment) or of several (LeaderWorkerSet), reached inside, scaled by load."""

from __future__ import annotations

from gpuyard.blueprint import Blueprint
from gpuyard.document import Plain
from gpuyard.provision.launch import SERVERS, Launch, machines_per_replica, serving_of
from gpuyard.provision.platforms.manifests.nodes import Nodes
from gpuyard.provision.platforms.manifests.plumbing import claim_objects
from gpuyard.provision.platforms.manifests.pods import metadata, pod_template, storage_objects
from gpuyard.provision.platforms.manifests.text import Object
from gpuyard.provision.settings import Place

__all__ = ["replica_bounds", "service_objects"]

LONGEST_START_S = 3600  # weights to load
RANK = ('export NODE_RANK="$LWS_WORKER_INDEX" NODE_COUNT="$LWS_GROUP_SIZE" MASTER_ADDR="$LWS_LEADER_ADDRESS"',)
CALM_S = 600  # replicas are slow to start: none is given up sooner


def replica_bounds(blueprint: Blueprint) -> tuple[int, int]:
    """The least and the most replicas; an autoscaler of pods does not go to zero."""
    scaling = serving_of(blueprint).autoscaling
    least = max(1, scaling.least_replicas)
    return least, max(least, scaling.most_replicas)


def service_objects(blueprint: Blueprint, place: Place, launch: Launch, nodes: Nodes) -> tuple[Object, ...]:
    """The replicas, their address, their autoscaler and what keeps one of them up during upgrades."""
    several = machines_per_replica(blueprint) > 1
    replicas = _groups(blueprint, place, launch, nodes) if several else _pods(blueprint, place, launch, nodes)
    claims = claim_objects(nodes, place, place.labels, machines_per_replica(blueprint)) if several else ()
    return (
        *storage_objects(blueprint, place, launch, nodes),
        *claims,
        replicas,
        _address(place, launch, several),
        *_metrics(place, launch, nodes),
        _scaler(blueprint, place, nodes, replicas),
        _budget(place),
    )


def _probed(template: Object, launch: Launch) -> Object:
    """The template with probes that wait for the weights."""
    spec = template["spec"]
    assert isinstance(spec, dict)
    boxes = spec["containers"]
    assert isinstance(boxes, list)
    assert isinstance(boxes[0], dict)
    check: Object = (
        {"httpGet": {"path": launch.health, "port": "http"}} if launch.health else {"tcpSocket": {"port": "http"}}
    )
    boxes[0]["startupProbe"] = {**check, "periodSeconds": 10, "failureThreshold": LONGEST_START_S // 10}
    boxes[0]["readinessProbe"] = {**check, "periodSeconds": 10}
    return template


def _pods(blueprint: Blueprint, place: Place, launch: Launch, nodes: Nodes) -> Object:
    """A replica is a pod."""
    least, _ = replica_bounds(blueprint)
    template = _probed(pod_template(blueprint, place, launch, nodes), launch)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(place),
        "spec": {
            "replicas": least,
            "progressDeadlineSeconds": 2 * LONGEST_START_S,
            "selector": {"matchLabels": {"app": place.name}},
            "template": template,
        },
    }


def _groups(blueprint: Blueprint, place: Place, launch: Launch, nodes: Nodes) -> Object:
    """A replica is a group of pods: a leader that answers, and workers."""
    least, _ = replica_bounds(blueprint)
    leader = _probed(pod_template(blueprint, place, launch, nodes, prelude=RANK), launch)
    labels = leader["metadata"]
    assert isinstance(labels, dict)
    assert isinstance(labels["labels"], dict)
    leader = {**leader, "metadata": {**labels, "labels": {**labels["labels"], "role": "leader"}}}
    worker = pod_template(blueprint, place, launch, nodes, prelude=RANK)
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": metadata(place),
        "spec": {
            "replicas": least,
            "startupPolicy": "LeaderCreated",
            "leaderWorkerTemplate": {
                "size": machines_per_replica(blueprint),
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": leader,
                "workerTemplate": worker,
            },
        },
    }


def _address(place: Place, launch: Launch, several: bool) -> Object:
    """An address inside the cluster; nothing is published."""
    selector: Object = {"app": place.name, **({"role": "leader"} if several else {})}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(place),
        "spec": {
            "type": "ClusterIP",
            "selector": selector,
            "ports": [{"name": "http", "port": launch.port, "targetPort": "http"}],
        },
    }


def _metrics(place: Place, launch: Launch, nodes: Nodes) -> tuple[Object, ...]:
    """On GKE, what collects the engine's metrics."""
    if nodes.is_own or not SERVERS[launch.framework].metric:
        return ()
    monitor: Object = {
        "apiVersion": "monitoring.googleapis.com/v1",
        "kind": "PodMonitoring",
        "metadata": metadata(place),
        "spec": {
            "selector": {"matchLabels": {"app": place.name}},
            "endpoints": [{"port": "http", "interval": "15s", "path": "/metrics"}],
        },
    }
    return (monitor,)


def _scaler(blueprint: Blueprint, place: Place, nodes: Nodes, replicas: Object) -> Object:
    """Follows the requests in a replica, as the plan sized it; without such a metric, the use of its GPUs."""
    least, most = replica_bounds(blueprint)
    service = serving_of(blueprint)
    metric = SERVERS[service.engine.name].metric
    name, target = (metric, service.autoscaling.target) if metric else ("DCGM_FI_DEV_GPU_UTIL", 80.0)
    if not nodes.is_own:
        name = (
            f"prometheus.googleapis.com|{metric}|gauge" if metric else "kubernetes.io|container|accelerator|duty_cycle"
        )
    average: Plain = str(max(1, round(target)))
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata(place),
        "spec": {
            "scaleTargetRef": {"apiVersion": replicas["apiVersion"], "kind": replicas["kind"], "name": place.name},
            "minReplicas": least,
            "maxReplicas": most,
            "metrics": [
                {
                    "type": "Pods",
                    "pods": {"metric": {"name": name}, "target": {"type": "AverageValue", "averageValue": average}},
                }
            ],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": CALM_S}},
        },
    }


def _budget(place: Place) -> Object:
    """Upgrades take one replica at a time."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(place),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": place.name}}},
    }
