"""The state of a Kubernetes cluster, read from what `kubectl get ... -o json` printed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.admission.placement import Resources
from gpuyard.provision.resource_quantity import quantity

COMMAND = (
    "kubectl get nodes,pods,topologies,resourceflavors,clusterqueues,localqueues,workloads,"
    "workloadpriorityclasses -A -o json"
)
HARD_EFFECTS = ("NoSchedule", "NoExecute")
ENDED = ("Succeeded", "Failed")
# Labels by which a pod names the object that a Workload stands for.
OWNER_LABELS = (
    "jobset.sigs.k8s.io/jobset-name",
    "batch.kubernetes.io/job-name",
    "job-name",
    "leaderworkerset.sigs.k8s.io/name",
    "ray.io/cluster",
    "kueue.x-k8s.io/pod-group-name",
)
Tree = dict[str, Plain]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """What keeps pods away from a node, unless they tolerate it."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNode:
    """A node: what it offers, and whether it takes new pods."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: Resources
    is_usable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPod:
    """A pod on a node."""

    name: str
    namespace: str
    node: str
    requests: Resources
    priority: int
    workload: Annotated[str, Doc("the Kueue workload it belongs to; empty: none")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningWorkload:
    """A workload that holds quota."""

    name: str
    queue: Annotated[str, Doc("its ClusterQueue")]
    priority: int
    usage: Annotated[Mapping[tuple[str, str], float], Doc("by flavor and resource")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """Nodes, pods, workloads, and the objects of Kueue by kind and name."""

    nodes: tuple[ClusterNode, ...]
    pods: tuple[RunningPod, ...]
    workloads: tuple[RunningWorkload, ...]
    objects: Mapping[str, Mapping[str, Tree]]

    def named(self, kind: str, name: str) -> Tree:
        """Return the spec of an object; empty if there is none."""
        return part(self.objects.get(kind, {}).get(name, {}), "spec")


def part(tree: Tree, *keys: str) -> Tree:
    """Return the mapping below some keys; empty if there is none."""
    for key in keys:
        value = tree.get(key)
        tree = value if isinstance(value, dict) else {}
    return tree


def rows(tree: Tree, key: str) -> list[Tree]:
    """Return the mappings in a list; empty if there is none."""
    values = tree.get(key)
    return [row for row in values if isinstance(row, dict)] if isinstance(values, list) else []


def resources_of(spec: Tree) -> dict[str, float]:
    """Return what a pod requests; a limit is the default of a request."""
    total: dict[str, float] = defaultdict(float)
    for box in rows(spec, "containers"):
        limits, requests = part(box, "resources", "limits"), part(box, "resources", "requests")
        for name, value in {**limits, **requests}.items():
            total[name] += quantity(value)
    total["pods"] = 1.0
    return dict(total)


def cluster_state(objects: Iterable[Tree]) -> ClusterState:
    """Return the state that a list of objects describes."""
    by_kind: dict[str, dict[str, Tree]] = defaultdict(dict)
    nodes, pods, owners = [], [], {}
    workloads = []
    listed = list(objects)
    for tree in listed:
        kind, meta = str(tree.get("kind", "")), part(tree, "metadata")
        name = str(meta.get("name", ""))
        if kind == "Node":
            nodes.append(_node(name, tree))
        elif kind == "Workload" and (workload := _workload(name, tree)):
            workloads.append(workload)
            for owner in rows(meta, "ownerReferences"):
                owners[str(meta.get("namespace", "")), str(owner.get("name"))] = name
        elif kind == "LocalQueue":
            by_kind[kind][f"{meta.get('namespace', 'default')}/{name}"] = tree
        elif kind in ("Topology", "ResourceFlavor", "ClusterQueue", "WorkloadPriorityClass"):
            by_kind[kind][name] = tree
    for tree in listed:
        if tree.get("kind") == "Pod" and (pod := _pod(tree, owners)):
            pods.append(pod)
    return ClusterState(
        nodes=tuple(nodes), pods=tuple(pods), workloads=tuple(workloads), objects=dict(by_kind)
    )


def _node(name: str, tree: Tree) -> ClusterNode:
    spec, status = part(tree, "spec"), part(tree, "status")
    ready = [row for row in rows(status, "conditions") if row.get("type") == "Ready"]
    is_ready = not ready or ready[0].get("status") == "True"
    taints = tuple(
        Taint(
            key=str(row.get("key", "")),
            value=str(row.get("value") or ""),
            effect=str(row.get("effect", "")),
        )
        for row in rows(spec, "taints")
    )
    labels = {key: str(value) for key, value in part(tree, "metadata", "labels").items()}
    return ClusterNode(
        name=name,
        labels={"kubernetes.io/hostname": name, **labels},
        taints=taints,
        allocatable={key: quantity(row) for key, row in part(status, "allocatable").items()},
        is_usable=is_ready and spec.get("unschedulable") is not True,
    )


def _pod(tree: Tree, owners: Mapping[tuple[str, str], str]) -> RunningPod | None:
    meta, spec = part(tree, "metadata"), part(tree, "spec")
    node = str(spec.get("nodeName") or "")
    if not node or part(tree, "status").get("phase") in ENDED:
        return None
    namespace = str(meta.get("namespace", ""))
    labels = part(meta, "labels")
    names = [str(row.get("name")) for row in rows(meta, "ownerReferences")]
    names += [str(labels[label]) for label in OWNER_LABELS if label in labels]
    names.append(str(meta.get("name")))
    workload = next((owners[namespace, item] for item in names if (namespace, item) in owners), "")
    return RunningPod(
        name=str(meta.get("name")),
        namespace=namespace,
        node=node,
        requests=resources_of(spec),
        priority=int(quantity(spec.get("priority"))),
        workload=workload,
    )


def _workload(name: str, tree: Tree) -> RunningWorkload | None:
    """A workload that holds quota; None for one that waits or has finished."""
    admission = part(tree, "status", "admission")
    finished = any(
        row.get("type") == "Finished" and row.get("status") == "True"
        for row in rows(part(tree, "status"), "conditions")
    )
    if not admission or finished:
        return None
    usage: dict[tuple[str, str], float] = defaultdict(float)
    for assignment in rows(admission, "podSetAssignments"):
        flavors = part(assignment, "flavors")
        for resource, value in part(assignment, "resourceUsage").items():
            usage[str(flavors.get(resource, "")), resource] += quantity(value)
    return RunningWorkload(
        name=name,
        queue=str(admission.get("clusterQueue", "")),
        priority=int(quantity(part(tree, "spec").get("priority"))),
        usage=dict(usage),
    )
