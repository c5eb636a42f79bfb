"""PFC deadlock: prove that there is no cyclic buffer dependency, or find one.

A lossless switch holds a packet until the next buffer has room. If waiting buffers form a cycle,
nothing moves again. Valley-free routes form none: order the links by climb, then by descent, and
every wait goes forward. So the first question is whether the policy lets any route go up after it
came from above, under any failures. Only if it does are states with none, one and two failures
tried, with the traffic that bounces in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from gpuyard.document.field_types import Doc
from gpuyard.fabric.verify.failures import required_reachability
from gpuyard.fabric.verify.rib import FailureState, Rib, alive, rib_to
from gpuyard.fabric.verify.switch_classes import (
    SwitchClasses,
    equivalent_switches,
    link_classes,
    split_failed_switches,
)
from gpuyard.fabric.verify.switch_graph import DOWN, LEVEL, UP, Bools, SwitchGraph

MAX_STATES = 400  # failure states tried where the policy gives no proof
SAMPLE_SIZE = 4  # members per class searched for a cycle, which needs two leaves and two spines

_RouteState = tuple[int, int, bool]  # switch, label of the route there, whether it passed its top


@dataclass(frozen=True, slots=True, kw_only=True)
class Valley:
    """A route that the policy lets go down and up again; traffic flows in the other direction."""

    switches: tuple[str, ...]

    def __str__(self) -> str:
        return " → ".join(reversed(self.switches))


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferCycle:
    """A cyclic buffer dependency, and the failures that lead to it."""

    switches: tuple[str, ...]
    failed: tuple[str, ...]

    def __str__(self) -> str:
        return " → ".join((*self.switches, self.switches[0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlock:
    """The result: without a valley there is no cyclic buffer dependency, whatever fails."""

    valley: Valley | None
    cycle: BufferCycle | None
    tried_count: Annotated[int, Doc("failure states tried, one per class; 0 if proven without")]
    bounced: Annotated[
        tuple[str, ...], Doc("failures after which traffic bounces, if no cycle was found")
    ] = ()


def deadlock(network: SwitchGraph, failures: int = 2) -> Deadlock:
    """Search for a cyclic buffer dependency after up to N failures unless policy excludes it."""
    valley = find_valley(network)
    if valley is None:
        return Deadlock(valley=None, cycle=None, tried_count=0)
    bounced: tuple[str, ...] = ()
    tried = 0
    for failed, state, classes in _states(network, failures):
        if tried == MAX_STATES:
            break
        tried += 1
        cycle = find_buffer_cycle(network, state, classes)
        if isinstance(cycle, BufferCycle):
            named = BufferCycle(switches=cycle.switches, failed=failed)
            return Deadlock(valley=valley, cycle=named, tried_count=tried)
        if cycle and not bounced:
            bounced = failed or ("nothing",)
    return Deadlock(valley=valley, cycle=None, tried_count=tried, bounced=bounced)


def find_valley(network: SwitchGraph) -> Valley | None:
    """Return a path on which the policy lets a route go down, or level, and then up; else None."""
    # Breadth-first search over everything that the policy permits, not only the best routes, so the
    # result holds under any failures.
    start: list[_RouteState] = [(node, 0, False) for node in range(network.size)]
    came_from: dict[_RouteState, _RouteState | None] = dict.fromkeys(start)
    frontier = start
    while frontier:
        reached: list[_RouteState] = []
        for state in frontier:
            node, label, over = state
            before = came_from[state]
            neighbours = network.edge_node[network.starts[node] : network.starts[node + 1]]
            for far in np.unique(neighbours).tolist():
                direction = _direction(network, node, far)
                if (
                    label & network.refuses[node, direction]
                    or (label | network.as_bits[node]) & network.as_bits[far]
                ):
                    continue
                if over and direction != DOWN:
                    if before is None or far != before[0]:
                        path = _path(network, came_from, state)
                        return Valley(switches=(*path, network.names[far]))
                    continue
                carried = int(label | network.marks[node, direction] | network.as_bits[node])
                onward = (far, carried, over or direction != UP)
                if onward not in came_from:
                    came_from[onward] = state
                    reached.append(onward)
        frontier = reached
    return None


def _path(
    network: SwitchGraph, came_from: dict[_RouteState, _RouteState | None], state: _RouteState
) -> tuple[str, ...]:
    names = []
    at: _RouteState | None = state
    while at is not None:
        names.append(network.names[at[0]])
        at = came_from[at]
    return tuple(reversed(names))


def _direction(network: SwitchGraph, near: int, far: int) -> int:
    here, there = network.tiers[near], network.tiers[far]
    return UP if there > here else DOWN if there < here else LEVEL


def _states(
    network: SwitchGraph, failures: int
) -> Iterator[tuple[tuple[str, ...], FailureState, SwitchClasses]]:
    # After none, one, … failures of links and switches, one per class.
    layer: list[tuple[tuple[str, ...], FailureState, SwitchClasses]] = [
        ((), alive(network), equivalent_switches(network))
    ]
    for depth in range(failures + 1):
        yield from layer
        if depth < failures:
            layer = [after for before in layer for after in _after(network, *before)]


def _after(
    network: SwitchGraph, failed: tuple[str, ...], state: FailureState, classes: SwitchClasses
) -> Iterator[tuple[tuple[str, ...], FailureState, SwitchClasses]]:
    works = np.flatnonzero(state.links & state.nodes[network.ends].all(axis=1))
    for link in link_classes(network, classes, works):
        a, b = network.ends[link].tolist()
        yield (
            (*failed, str(network.links[link])),
            state.without(link=link),
            split_failed_switches(classes, a, b),
        )
    for one in classes.by_number().values():
        if state.nodes[one.first] and network.tiers[one.first] > 1:
            yield (
                (*failed, network.names[one.first]),
                state.without(node=one.first),
                split_failed_switches(classes, one.first),
            )


def find_buffer_cycle(
    network: SwitchGraph, state: FailureState, classes: SwitchClasses
) -> BufferCycle | bool:
    """Return the buffer cycle of a state, or whether traffic bounces without forming one."""
    sampled = _sample(network, classes)
    demand = np.where(state.nodes, network.demand_bits_per_s, 0.0)
    groups = required_reachability(network)
    waits: dict[int, set[int]] = {}
    bounced = False
    for destination in np.flatnonzero(sampled & (demand > 0)).tolist():
        sent = np.where(groups == groups[destination], demand, 0.0)
        sent[destination] = 0.0
        rib = rib_to(network, destination, state, sent)
        bounced = bounced or bool(rib.bounces.any())
        _add_waits(network, rib, sampled, waits)
    if not bounced:
        return False
    cycle = _cycle(waits)
    if cycle is None:
        return True
    near = np.repeat(np.arange(network.size), np.diff(network.starts))
    return BufferCycle(switches=tuple(network.names[near[edge]] for edge in cycle), failed=())


def _sample(network: SwitchGraph, classes: SwitchClasses) -> Bools:
    # A few switches per class: if all of them form a cycle, so do these.
    seen: dict[int, int] = {}
    sampled = np.zeros(network.size, np.bool_)
    for node, number in enumerate(classes.of.tolist()):
        seen[number] = seen.get(number, 0) + 1
        sampled[node] = seen[number] <= SAMPLE_SIZE
    return sampled


def _add_waits(network: SwitchGraph, rib: Rib, sampled: Bools, waits: dict[int, set[int]]) -> None:
    # The buffer at the end of a link waits for the buffers of the next links of its traffic.
    busy = np.flatnonzero(rib.loads_bits_per_s > 0)
    near = np.searchsorted(network.starts, busy, side="right") - 1
    far = network.edge_node[busy]
    inside = sampled[near] & sampled[far]
    out: dict[int, list[int]] = {}
    for edge, node in zip(busy[inside].tolist(), near[inside].tolist(), strict=True):
        out.setdefault(node, []).append(edge)
    for edge, node in zip(busy[inside].tolist(), far[inside].tolist(), strict=True):
        waits.setdefault(edge, set()).update(out.get(node, ()))


def _cycle(waits: dict[int, set[int]]) -> tuple[int, ...] | None:
    # Depth-first search: an edge back to a node on the current path closes a cycle.
    done: set[int] = set()
    for root in sorted(waits):
        if root in done:
            continue
        path: list[int] = [root]
        on_path = {root}
        steps = [iter(sorted(waits[root]))]
        while steps:
            following = next(steps[-1], None)
            if following is None:
                steps.pop()
                on_path.discard(path[-1])
                done.add(path.pop())
            elif following in on_path:
                return tuple(path[path.index(following) :])
            elif following not in done:
                path.append(following)
                on_path.add(following)
                steps.append(iter(sorted(waits.get(following, ()))))
    return None
