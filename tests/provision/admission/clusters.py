"""Small clusters as `kubectl get -o json` and `scontrol` print them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

GPU = "nvidia.com/gpu"
HOST = "kubernetes.io/hostname"
Tree = dict[str, Any]


def node(name: str, gpus: int, labels: dict[str, str] | None = None, **spec: Any) -> Tree:
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOST: name, **(labels or {})}},
        "spec": spec,
        "status": {
            "allocatable": {GPU: str(gpus), "cpu": "64", "memory": "512Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def workload(name: str, queue: str, gpus: int, priority: int, flavor: str = "gpu") -> Tree:
    return {
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": "default",
            "ownerReferences": [{"kind": "Job", "name": name}],
        },
        "spec": {"priority": priority},
        "status": {
            "admission": {
                "clusterQueue": queue,
                "podSetAssignments": [
                    {"flavors": {GPU: flavor}, "resourceUsage": {GPU: str(gpus)}, "count": 1}
                ],
            }
        },
    }


def pod(name: str, owner: str, host: str, gpus: int, priority: int = 0) -> Tree:
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "ownerReferences": [{"kind": "Job", "name": owner}],
        },
        "spec": {"nodeName": host, "priority": priority, "containers": [box(gpus)]},
        "status": {"phase": "Running"},
    }


def box(gpus: int) -> Tree:
    return {"name": "main", "image": "image", "resources": {"limits": {GPU: gpus}}}


def queues(
    quotas: dict[str, int], levels: Iterable[str], *, cohort: str = "", **preemption: str
) -> list[Tree]:
    """One flavor with a topology, and a ClusterQueue and a LocalQueue of each name."""
    objects: list[Tree] = [
        {"kind": "Topology", "metadata": {"name": "t"},
         "spec": {"levels": [{"nodeLabel": level} for level in levels]}},
        {"kind": "ResourceFlavor", "metadata": {"name": "gpu"}, "spec": {"topologyName": "t"}},
        {"kind": "WorkloadPriorityClass", "metadata": {"name": "high"}, "value": 1000},
    ]  # fmt: skip
    for name, quota in quotas.items():
        flavor = {"name": "gpu", "resources": [{"name": GPU, "nominalQuota": str(quota)}]}
        spec: Tree = {
            "resourceGroups": [{"coveredResources": [GPU], "flavors": [flavor]}],
            "preemption": preemption,
        }
        if cohort:
            spec["cohort"] = cohort
        objects.append({"kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec})
        objects.append(
            {
                "kind": "LocalQueue",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"clusterQueue": name},
            }
        )
    return objects


def job(queue: str, gpus: int, pods: int = 1, priority: str = "high", **annotations: str) -> str:
    """A Job as YAML; annotations by their words: required_topology="rack"."""
    lines = "".join(
        f"        kueue.x-k8s.io/podset-{key.replace('_', '-')}: '{value}'\n"
        for key, value in annotations.items()
    )
    meta = f"      annotations:\n{lines}" if lines else ""
    return (
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: train\n  labels:\n"
        f"    kueue.x-k8s.io/queue-name: {queue}\n    kueue.x-k8s.io/priority-class: {priority}\n"
        f"spec:\n  parallelism: {pods}\n  completions: {pods}\n  template:\n    metadata:\n{meta}"
        "      labels: {a: b}\n    spec:\n      restartPolicy: Never\n      containers:\n"
        f"      - name: main\n        image: image\n        resources: {{limits: {{{GPU}: {gpus}}}}}\n"
    )
