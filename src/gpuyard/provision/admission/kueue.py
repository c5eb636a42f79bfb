"""Whether Kueue admits a job and its pods then find nodes, computed before it is submitted.

Kueue reserves quota first; only with topology-aware scheduling does it also look for nodes, and
what it preempts is chosen by quota. That fails in two cases: preempted pods free quota on nodes
that together do not fit one pod of the job (kubernetes-sigs/kueue#5243), and preemption across a
cohort frees enough GPUs but no domain that fits a slice (kubernetes-sigs/kueue#10815). So placement
is computed here on the nodes: as they are, without preemptible pods, and empty.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from gpuyard.provision.admission.admission import Admission, AdmissionVerdict
from gpuyard.provision.admission.changes import smallest_changes
from gpuyard.provision.admission.cluster_state import ClusterState, RunningPod, rows
from gpuyard.provision.admission.flavor_nodes import FlavorNodes, owner, requested
from gpuyard.provision.admission.job_requests import JobRequest
from gpuyard.provision.admission.placement import PodPlacement, place
from gpuyard.provision.admission.queue_quota import (
    FlavorQuota,
    available,
    flavor_quotas,
    preemptible,
)

UNITS = "pods"  # every node limits them; no queue has to


def kueue_admissions(jobs: Sequence[JobRequest], state: ClusterState) -> Iterator[Admission]:
    """Yield what Kueue would do with every job, each as if it came first."""
    for job in jobs:
        queue = str(state.named("LocalQueue", f"{job.namespace}/{job.queue}").get("clusterQueue"))
        if queue not in state.objects.get("ClusterQueue", {}):
            what = f"no LocalQueue {job.queue} with a ClusterQueue in namespace {job.namespace}"
            change = f"create the LocalQueue, or set the label to one of {_queues(state, job)}"
            yield _admission(job, "never", what, changes=(change,))
            continue
        tried = [_in_flavor(job, state, quotas) for quotas in _by_flavor(state, job, queue)]
        order: tuple[AdmissionVerdict, ...] = ("placed", "preempts", "waits", "never")
        if tried:
            yield min(tried, key=lambda item: order.index(item.verdict))
        else:
            what = f"no flavor of {queue} covers what it requests"
            yield _admission(job, "never", what, changes=("add the resource to a resourceGroup",))


def _queues(state: ClusterState, job: JobRequest) -> str:
    names = [
        key.partition("/")[2]
        for key in state.objects.get("LocalQueue", {})
        if key.startswith(f"{job.namespace}/")
    ]
    return ", ".join(names) or "the queues of the namespace (there are none)"


def _by_flavor(
    state: ClusterState, job: JobRequest, queue: str
) -> Iterator[tuple[FlavorQuota, ...]]:
    needs = requested(job)
    quotas = [row for row in flavor_quotas(state, queue) if row.resource in needs]
    for flavor in dict.fromkeys(row.flavor for row in quotas):
        yield tuple(row for row in quotas if row.flavor == flavor)


def _in_flavor(job: JobRequest, state: ClusterState, quotas: tuple[FlavorQuota, ...]) -> Admission:
    flavor = quotas[0].flavor
    topology = state.named(
        "Topology", str(state.named("ResourceFlavor", flavor).get("topologyName"))
    )
    levels = tuple(str(row.get("nodeLabel")) for row in rows(topology, "levels"))
    nodes = FlavorNodes(state=state, job=job, flavor=flavor, levels=levels)
    unknown_level = _unknown_level(job, levels)
    if unknown_level:
        what = f"{unknown_level} is no level of the topology of flavor {flavor}"
        return _admission(job, "never", what, changes=(f"use one of {', '.join(levels)}",))
    everyone = frozenset(
        {owner(pod) for pod in state.pods if _competes(pod, job)}
        | {row.name for row in state.workloads}
    )
    short = _short_quota(job, state, quotas, everyone)
    if short:
        return short
    now = nodes.place()
    if now and not any(_lacks(job, state, row) for row in quotas):
        return _admission(job, "placed", _placed_text(now), placements=now)
    priority = _priority(job, state)
    victims = frozenset(item.name for row in quotas for item in preemptible(state, row, priority))
    after = nodes.place(victims)
    if after and not any(_lacks(job, state, row, victims) for row in quotas):
        gone = _fewest(nodes, job, quotas, victims)
        what = f"{_placed_text(nodes.place(gone) or after)} once {_names(gone)} are preempted"
        return _admission(job, "preempts", what, placements=nodes.place(gone), preempted=gone)
    return _blocked(nodes, quotas, victims, everyone)


def _unknown_level(job: JobRequest, levels: tuple[str, ...]) -> str:
    for item in job.pod_sets:
        for level in (item.pods.required, item.pods.preferred, item.pods.slice_level):
            if level and level not in levels:
                return level
    return ""


def _competes(pod: RunningPod, job: JobRequest) -> bool:
    """Whether a pod takes what the job waits for; a DaemonSet's pods do not go away."""
    scarce = {name for name in requested(job) if "/" in name}
    return bool(pod.workload) or any(pod.requests.get(name) for name in scarce)


def _short_quota(
    job: JobRequest,
    state: ClusterState,
    quotas: tuple[FlavorQuota, ...],
    everyone: frozenset[str],
) -> Admission | None:
    for row in quotas:
        lacking = _lacks(job, state, row, everyone)
        if lacking:
            need = requested(job)[row.resource]
            what = f"needs {need:g} {row.resource}, {lacking:g} more than {row.queue} can ever have"
            total = row.nominal + lacking
            change = f"raise nominalQuota of flavor {row.flavor} in {row.queue} to {total:g}"
            return _admission(job, "never", what, changes=(change,))
    return None


def _lacks(
    job: JobRequest, state: ClusterState, quota: FlavorQuota, gone: Collection[str] = ()
) -> float:
    return max(0.0, requested(job)[quota.resource] - available(state, quota, gone))


def _priority(job: JobRequest, state: ClusterState) -> int:
    tree = state.objects.get("WorkloadPriorityClass", {}).get(job.priority_class, {})
    value = tree.get("value")
    return value if isinstance(value, int) else 0


def _fewest(
    nodes: FlavorNodes, job: JobRequest, quotas: tuple[FlavorQuota, ...], victims: frozenset[str]
) -> tuple[str, ...]:
    """Put victims back while the job still fits: no smaller subset of the rest would do."""
    gone = set(victims)
    for name in sorted(victims):
        fewer = gone - {name}
        if nodes.place(fewer) and not any(_lacks(job, nodes.state, row, fewer) for row in quotas):
            gone = fewer
    return tuple(sorted(gone))


def _blocked(
    nodes: FlavorNodes,
    quotas: tuple[FlavorQuota, ...],
    victims: frozenset[str],
    everyone: frozenset[str],
) -> Admission:
    job, state = nodes.job, nodes.state
    by_quota = not any(_lacks(job, state, row, victims) for row in quotas)
    empty = nodes.place(everyone)
    verdict: AdmissionVerdict = "waits" if empty else "never"
    what = "its pods do not fit even on the empty nodes" if not empty else _why_not(nodes, victims)
    if by_quota:
        freed = f" after preempting {len(victims)} workloads" if victims else ""
        what += (
            f"; by quota alone it is admitted{freed}, and then holds quota while pods stay pending"
        )
    changes = smallest_changes(nodes, victims, everyone)
    return _admission(job, verdict, what, changes=changes)


def _why_not(nodes: FlavorNodes, victims: frozenset[str]) -> str:
    for item in nodes.job.pod_sets:
        scarce = next((name for name in item.pods.requests if "/" in name), UNITS)
        free = [node.free.get(scarce, 0.0) for node in nodes.nodes(item, victims)]
        if free and place(item.pods, nodes.nodes(item, victims), nodes.levels) is None:
            most = f"one node has at most {max(free):g} free, all have {sum(free):g}"
            slices = ""
            if item.pods.slice_pod_count > 1:
                slices = (
                    f", in slices of {item.pods.slice_pod_count} pods per {item.pods.slice_level}"
                )
            need = f"{item.pods.pod_count} pods of {item.pods.requests.get(scarce, 0.0):g} {scarce}"
            return f"{need}{slices}: {most}"
    return "its pod sets do not fit together, or quota is in use"


def _placed_text(placements: Sequence[PodPlacement]) -> str:
    pods = sum(count for item in placements for _, count in item.pods)
    names = {name for item in placements for name, _ in item.pods}
    return f"{pods} pods on {len(names)} nodes"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _admission(
    job: JobRequest,
    verdict: AdmissionVerdict,
    what: str,
    *,
    changes: tuple[str, ...] = (),
    placements: Sequence[PodPlacement] | None = None,
    preempted: tuple[str, ...] = (),
) -> Admission:
    counts: dict[str, int] = {}
    for placement in placements or ():
        for name, count in placement.pods:
            counts[name] = counts.get(name, 0) + count
    return Admission(
        job=job.name,
        scheduler="Kueue",
        verdict=verdict,
        what=what,
        changes=changes,
        nodes=tuple(sorted(counts.items())),
        preempted=preempted,
    )
