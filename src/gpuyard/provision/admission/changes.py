"""The smallest changes that make a blocked job fit, each verified by placing it.

They come in the order of what they cost: an annotation of the job, moving other work, the shape of
the job's pods, and last the job's size. Every change is the least of its kind: the narrowest level
that holds the job, a set of workloads none of which can stay, the largest pods, the most pods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from gpuyard.provision.admission.flavor_nodes import FlavorNodes, owner
from gpuyard.provision.admission.job_requests import JobPods
from gpuyard.provision.admission.placement import PodSet

MAX_NAMES = 8


def smallest_changes(
    nodes: FlavorNodes, victims: frozenset[str], everyone: frozenset[str]
) -> tuple[str, ...]:
    """Return what makes the job fit; `victims` may be preempted, `everyone` may be moved."""
    if len(nodes.job.pod_sets) != 1:
        return tuple(_moves(nodes, victims, everyone))
    item = nodes.job.pod_sets[0]
    return (
        *_wider_level(nodes, item, victims),
        *_smaller_slices(nodes, item, victims),
        *_moves(nodes, victims, everyone),
        *_smaller_pods(nodes, item, victims),
        *_fewer_pods(nodes, item, victims),
    )


def _fits(nodes: FlavorNodes, item: JobPods, pods: PodSet, gone: Collection[str]) -> bool:
    return nodes.place(gone, (replace(item, pods=pods),)) is not None


def _wider_level(nodes: FlavorNodes, item: JobPods, victims: frozenset[str]) -> Iterator[str]:
    level = item.pods.required
    if not level or level not in nodes.levels:
        return
    for wider in reversed(nodes.levels[: nodes.levels.index(level)]):
        if _fits(nodes, item, replace(item.pods, required=wider), victims):
            yield f"podset-required-topology: {wider} instead of {level}"
            return
    if _fits(nodes, item, replace(item.pods, required="", preferred=level), victims):
        yield f"podset-preferred-topology instead of podset-required-topology: {level}"


def _smaller_slices(nodes: FlavorNodes, item: JobPods, victims: frozenset[str]) -> Iterator[str]:
    pods = item.pods
    for size in range(pods.slice_pod_count - 1, 0, -1):
        if pods.pod_count % size == 0 and _fits(
            nodes, item, replace(pods, slice_pod_count=size), victims
        ):
            yield f"podset-slice-size: {size} instead of {pods.slice_pod_count}"
            return


def _moves(nodes: FlavorNodes, victims: frozenset[str], everyone: frozenset[str]) -> Iterator[str]:
    if nodes.place(everyone) is None:
        return
    gone = set(everyone)
    sizes: dict[str, int] = {}
    for pod in nodes.state.pods:
        sizes[owner(pod)] = sizes.get(owner(pod), 0) + 1
    # The largest stay first: moving many small ones costs less than moving a large one.
    for name in sorted(everyone - victims, key=lambda name: (-sizes.get(name, 0), name)):
        if nodes.place(gone - {name}) is not None:
            gone.discard(name)
    moved = sorted(gone - victims)
    if moved:
        shown = ", ".join(moved[:MAX_NAMES])
        more = f" and {len(moved) - MAX_NAMES} more" if len(moved) > MAX_NAMES else ""
        yield f"wait for, or move, {len(moved)} workloads: {shown}{more}"


def _smaller_pods(nodes: FlavorNodes, item: JobPods, victims: frozenset[str]) -> Iterator[str]:
    pods = item.pods
    scarce = next((name for name in pods.requests if "/" in name), "")
    amount = int(pods.requests.get(scarce, 0.0))
    for size in range(amount - 1, 0, -1):
        parts, rest = divmod(amount, size)
        if rest:
            continue
        requests = {name: value / parts for name, value in pods.requests.items()} | {"pods": 1.0}
        smaller = replace(
            pods,
            pod_count=pods.pod_count * parts,
            requests=requests,
            slice_pod_count=pods.slice_pod_count * (parts if pods.slice_level else 1),
        )
        if _fits(nodes, item, smaller, victims):
            instead = f"instead of {pods.pod_count} of {amount}"
            yield f"{smaller.pod_count} pods of {size} {scarce} {instead}"
            return


def _fewer_pods(nodes: FlavorNodes, item: JobPods, victims: frozenset[str]) -> Iterator[str]:
    pods = item.pods
    step = pods.slice_pod_count
    low, high = 0, pods.pod_count // step
    while low < high:  # fits with `low` slices; more slices never fit better
        middle = (low + high + 1) // 2
        if _fits(nodes, item, replace(pods, pod_count=middle * step), victims):
            low = middle
        else:
            high = middle - 1
    if low:
        yield f"{low * step} pods instead of {pods.pod_count}"
