"""The end of a service on Kubernetes: a CronJob that deletes it when its TTL passes.

A run duration on the nodes does not end a service: its autoscaler would replace every node that the
provider deletes, for ever. Without its pods, the autoscaler of the pool removes the nodes.
"""

from __future__ import annotations

import datetime

from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.platforms.manifests.pods import metadata
from gpuyard.provision.platforms.manifests.text import Object
from gpuyard.units import DAY_S

IMAGE = "registry.k8s.io/kubectl:v1.35.0"  # the minor version of the rendered clusters
# A CronJob that was missed, for example because no node was free, still runs within a day.
LATE_S = DAY_S
RESOURCES = {
    "Deployment": ("apps", "deployments"),
    "StatefulSet": ("apps", "statefulsets"),
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io", "leaderworkersets"),
    "RayService": ("ray.io", "rayservices"),
    "Gateway": ("gateway.networking.k8s.io", "gateways"),
    "HorizontalPodAutoscaler": ("autoscaling", "horizontalpodautoscalers"),
}


def has_end(settings: ResolvedSettings) -> bool:
    """Return whether the end of the TTL is known; it counts from the time of rendering."""
    return settings.requested.rendered_s > 0


def expiry_objects(settings: ResolvedSettings, objects: tuple[Object, ...]) -> tuple[Object, ...]:
    """Return the CronJob that deletes the service in `objects`, with the rights that it needs."""
    if not has_end(settings):
        return ()
    ended = [item for item in objects if item["kind"] in RESOURCES]
    name = f"{settings.name}-end"
    rules: list[object] = []
    targets: list[str] = []
    for item in reversed(ended):  # the autoscaler first
        group, resource = RESOURCES[str(item["kind"])]
        meta = item["metadata"]
        assert isinstance(meta, dict)
        rules.append(
            {"apiGroups": [group], "resources": [resource], "verbs": ["get", "list", "delete"]}
        )
        targets.append(f"{resource}.{group}/{meta['name']}")
    meta = metadata(settings, name)
    subject: Object = {
        "kind": "ServiceAccount",
        "name": name,
        "namespace": settings.requested.namespace,
    }
    reference: Object = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    return (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": meta,
            "rules": rules,  # type: ignore[dict-item]
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": reference,
            "subjects": [subject],
        },
        _cron_job(settings, name, targets),
    )


def _cron_job(settings: ResolvedSettings, name: str, targets: list[str]) -> Object:
    end = datetime.datetime.fromtimestamp(
        settings.requested.rendered_s + settings.ttl_s, tz=datetime.UTC
    )
    container: Object = {
        "name": "end",
        "image": IMAGE,
        "args": [
            "delete",
            "--ignore-not-found",
            f"--namespace={settings.requested.namespace}",
            *targets,
        ],
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "256Mi"},
        },
    }
    pod: Object = {
        "metadata": {"labels": settings.labels},
        "spec": {
            "serviceAccountName": name,
            "restartPolicy": "OnFailure",
            "containers": [container],
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": metadata(settings, name),
        "spec": {
            "schedule": f"{end.minute} {end.hour} {end.day} {end.month} *",
            "timeZone": "Etc/UTC",
            "startingDeadlineSeconds": LATE_S,
            "concurrencyPolicy": "Forbid",
            "jobTemplate": {"spec": {"backoffLimit": 20, "template": pod}},
        },
    }
