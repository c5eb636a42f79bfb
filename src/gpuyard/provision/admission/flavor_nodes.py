"""The nodes of a Kueue flavor, and the placement of a job's pod sets on them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gpuyard.provision.admission.cluster_state import (
    HARD_EFFECTS,
    ClusterState,
    RunningPod,
    part,
    rows,
)
from gpuyard.provision.admission.job_requests import JobPods, JobRequest, tolerates
from gpuyard.provision.admission.placement import NodeState, PodPlacement, place, without


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorNodes:
    """The nodes of a flavor for each pod set of a job, as a function of which pods are gone."""

    state: ClusterState
    job: JobRequest
    flavor: str
    levels: tuple[str, ...]

    def place(
        self, gone: Collection[str] = (), pod_sets: Sequence[JobPods] | None = None
    ) -> tuple[PodPlacement, ...] | None:
        """Place all pod sets without the pods of `gone`; None if one does not fit."""
        placed: list[tuple[JobPods, PodPlacement]] = []
        for item in pod_sets or self.job.pod_sets:
            nodes = self.nodes(item, gone)
            for earlier, placement in placed:
                nodes = without(nodes, earlier.pods, placement)
            room = place(item.pods, nodes, self.levels)
            if room is None:
                return None
            placed.append((item, room))
        return tuple(placement for _, placement in placed)

    def nodes(self, item: JobPods, gone: Collection[str] = ()) -> tuple[NodeState, ...]:
        """Return the nodes that a pod set may use, with what is free on them."""
        flavor = self.state.named("ResourceFlavor", self.flavor)
        labels = {key: str(value) for key, value in part(flavor, "nodeLabels").items()}
        wanted = {**labels, **item.selector}
        tolerations = (*item.tolerations, *rows(flavor, "tolerations"))
        return tuple(
            NodeState(name=node.name, labels=node.labels, free=self._free(node.name, gone))
            for node in self.state.nodes
            if node.is_usable
            and all(node.labels.get(key) == value for key, value in wanted.items())
            and all(level in node.labels for level in self.levels)
            and all(
                tolerates(taint, tolerations)
                for taint in node.taints
                if taint.effect in HARD_EFFECTS
            )
        )

    def _free(self, name: str, gone: Collection[str]) -> dict[str, float]:
        node = next(node for node in self.state.nodes if node.name == name)
        free = dict(node.allocatable)
        for pod in self.state.pods:
            if pod.node == name and owner(pod) not in gone:
                for resource, amount in pod.requests.items():
                    free[resource] = free.get(resource, 0.0) - amount
        return free


def owner(pod: RunningPod) -> str:
    """Return what has to go for the pod to go: its workload, or the pod itself."""
    return pod.workload or f"{pod.namespace}/{pod.name}"


def requested(job: JobRequest) -> dict[str, float]:
    """Return what all pods of a job request together."""
    total: dict[str, float] = {}
    for item in job.pod_sets:
        for resource, amount in item.pods.requests.items():
            total[resource] = total.get(resource, 0.0) + amount * item.pods.pod_count
    return total
