"""PodPlacement of pods on the nodes of a topology: does a job fit, and where.

A topology is a list of node labels from the widest level (block) to the narrowest (host). Every
domain of a level is the set of nodes with the same labels down to it. A pod set is divided into
slices (one pod each, unless it asks for larger ones); each slice lies inside one domain of its
slice level, and with a required level all slices lie inside one domain of that level. A domain
holds as many slices as its slice-level domains hold together: feasibility needs no search, only
sums from the nodes upwards. This is what Kueue's topology-aware scheduling computes
(https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from gpuyard.document.field_types import Doc

Resources = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """A node that pods of the job may use, and what is free on it."""

    name: str
    labels: Mapping[str, str]
    free: Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """Equal pods of a job, and how close to each other they have to be."""

    name: str
    pod_count: int
    requests: Resources
    required: Annotated[str, Doc("level of which one domain must hold all pods; empty: none")] = ""
    preferred: Annotated[str, Doc("level to try first; wider ones are used if it is too full")] = ""
    slice_level: Annotated[str, Doc("level of which one domain must hold each slice")] = ""
    slice_pod_count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlacement:
    """Pods per node."""

    pods: tuple[tuple[str, int], ...]

    @property
    def node_count(self) -> int:
        return len(self.pods)


def pods_on(node: NodeState, pods: PodSet) -> int:
    """Return how many pods of the set fit on a node."""
    rooms = [
        math.floor(node.free.get(resource, 0.0) / amount + 1e-9)
        for resource, amount in pods.requests.items()
        if amount > 0.0
    ]
    return max(0, min([*rooms, pods.pod_count]))


def domain_of(node: NodeState, levels: Sequence[str], level: str) -> tuple[str, ...]:
    """Return the labels of a node down to a level; empty without a level."""
    if not level:
        return ()
    return tuple(node.labels.get(label, "") for label in levels[: levels.index(level) + 1])


def place(pods: PodSet, nodes: Sequence[NodeState], levels: Sequence[str]) -> PodPlacement | None:
    """Return where the pods go, in as few domains as possible; None if they do not fit."""
    for level in _levels_to_try(pods, levels):
        groups: dict[tuple[str, ...], list[NodeState]] = defaultdict(list)
        for node in nodes:
            groups[domain_of(node, levels, level)].append(node)
        rooms = {key: slice_room(pods, group, levels) for key, group in groups.items()}
        fitting = [key for key, room in rooms.items() if room >= slice_count(pods)]
        if fitting:
            best = min(fitting, key=lambda key: (rooms[key], key))  # keep large domains free
            return _fill(pods, groups[best], levels)
    return None


def slice_count(pods: PodSet) -> int:
    """Return the number of slices of a pod set."""
    return math.ceil(pods.pod_count / pods.slice_pod_count)


def slice_room(pods: PodSet, nodes: Sequence[NodeState], levels: Sequence[str]) -> int:
    """Return how many slices of the pod set these nodes hold."""
    rooms: dict[tuple[str, ...], int] = defaultdict(int)
    lowest = pods.slice_level or (levels[-1] if levels else "")
    for node in nodes:
        rooms[domain_of(node, levels, lowest)] += pods_on(node, replace(pods, pod_count=10**9))
    return sum(room // pods.slice_pod_count for room in rooms.values())


def _levels_to_try(pods: PodSet, levels: Sequence[str]) -> tuple[str, ...]:
    if pods.required:
        return (pods.required,)
    if pods.preferred in levels:
        above = list(levels[: levels.index(pods.preferred) + 1])
        return (*reversed(above), "")
    return ("",)


def _fill(pods: PodSet, nodes: Sequence[NodeState], levels: Sequence[str]) -> PodPlacement:
    lowest = pods.slice_level or (levels[-1] if levels else "")
    groups: dict[tuple[str, ...], list[NodeState]] = defaultdict(list)
    for node in nodes:
        groups[domain_of(node, levels, lowest)].append(node)
    rooms = {key: slice_room(pods, group, levels) for key, group in groups.items()}
    left, counts = pods.pod_count, []
    for key in sorted(groups, key=lambda key: (-rooms[key], key)):
        here = min(left, rooms[key] * pods.slice_pod_count)
        for node in sorted(groups[key], key=lambda node: (-pods_on(node, pods), node.name)):
            count = min(here, pods_on(node, pods))
            if count:
                counts.append((node.name, count))
            left, here = left - count, here - count
    return PodPlacement(pods=tuple(counts))


def without(
    nodes: Sequence[NodeState], pods: PodSet, placed: PodPlacement
) -> tuple[NodeState, ...]:
    """Return the nodes after a pod set was placed on them."""
    counts = dict(placed.pods)
    return tuple(
        replace(
            node,
            free={
                resource: room - counts[node.name] * pods.requests.get(resource, 0.0)
                for resource, room in node.free.items()
            },
        )
        if node.name in counts
        else node
        for node in nodes
    )
