"""Can buffers wait for each other in a circle? Either a proof that they cannot, or the circle itself.

A switch that may not drop a packet holds it until the next buffer has room. If the buffers that wait form a circle,
nothing moves again. Routes that climb and then descend form none: order the links by climb, then by descent, and
every wait goes forward. So the first question is whether policy lets any route leave a switch upward after it came
from above, in whatever failure. Only if it does are failures tried, none, one and two, with the traffic that
really bounces then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from gpuyard.document import Doc
from gpuyard.fabric.verify.failures import mutual
from gpuyard.fabric.verify.network import DOWN, LEVEL, UP, Network
from gpuyard.fabric.verify.rib import Rib, State, alive, rib_to
from gpuyard.fabric.verify.symmetry import Classes, alone, link_classes, twins

__all__ = ["Circle", "Deadlock", "Valley", "circle", "deadlock", "valley"]

MAX_STATES = 400  # failures tried where policy gives no proof
KEPT = 4  # members of a class whose links are looked at for a circle; a circle needs two leaves and two spines


@dataclass(frozen=True, slots=True, kw_only=True)
class Valley:
    """A route that policy lets go down and up again; traffic takes the same way in the other direction."""

    switches: tuple[str, ...]

    def __str__(self) -> str:
        return " → ".join(reversed(self.switches))


@dataclass(frozen=True, slots=True, kw_only=True)
class Circle:
    """Buffers that wait for each other, and the failures after which they do."""

    switches: tuple[str, ...]
    failed: tuple[str, ...]

    def __str__(self) -> str:
        return " → ".join((*self.switches, self.switches[0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlock:
    """The answer: without a valley nothing can wait in a circle, whatever fails."""

    valley: Valley | None
    circle: Circle | None
    tried_count: Annotated[int, Doc("states tried, each standing for all alike; 0 where the proof needs none")]
    bounced: Annotated[tuple[str, ...], Doc("failures after which traffic bounces, if no circle was found")] = ()


def deadlock(network: Network, failures: int = 2) -> Deadlock:
    """Whether buffers can wait in a circle after up to so many failures."""
    way = valley(network)
    if way is None:
        return Deadlock(valley=None, circle=None, tried_count=0)
    bounced: tuple[str, ...] = ()
    tried = 0
    for failed, state, classes in _states(network, failures):
        if tried == MAX_STATES:
            break
        tried += 1
        found = circle(network, state, classes)
        if isinstance(found, Circle):
            named = Circle(switches=found.switches, failed=failed)
            return Deadlock(valley=way, circle=named, tried_count=tried)
        if found and not bounced:
            bounced = failed or ("nothing",)
    return Deadlock(valley=way, circle=None, tried_count=tried, bounced=bounced)


def valley(network: Network) -> Valley | None:
    """A way on which policy lets a route go down, or level, and then up; None if there is none in any failure."""
    # All that policy permits, not only what is best now: a state is a switch, what a route carries there, and
    # whether it has passed its top.
    start = [(node, 0, False) for node in range(network.size)]
    came: dict[tuple[int, int, bool], tuple[int, int, bool] | None] = dict.fromkeys(start)
    edge = start
    while edge:
        reached: list[tuple[int, int, bool]] = []
        for state in edge:
            node, label, over = state
            before = came[state]
            for far in np.unique(network.edge_node[network.starts[node] : network.starts[node + 1]]).tolist():
                way = _way(network, node, far)
                if label & network.refuses[node, way] or (label | network.as_bits[node]) & network.as_bits[far]:
                    continue
                if over and way != DOWN:
                    if before is None or far != before[0]:
                        return Valley(switches=(*_back(network, came, state), network.names[far]))
                    continue
                carried = int(label | network.marks[node, way] | network.as_bits[node])
                onward = (far, carried, over or way != UP)
                if onward not in came:
                    came[onward] = state
                    reached.append(onward)
        edge = reached
    return None


def _back(
    network: Network, came: dict[tuple[int, int, bool], tuple[int, int, bool] | None], state: tuple[int, int, bool]
) -> tuple[str, ...]:  # fmt: skip
    """The switches that a route passed, from its origin."""
    names = []
    at: tuple[int, int, bool] | None = state
    while at is not None:
        names.append(network.names[at[0]])
        at = came[at]
    return tuple(reversed(names))


def _way(network: Network, near: int, far: int) -> int:
    """DOWN, LEVEL or UP."""
    here, there = network.tiers[near], network.tiers[far]
    return UP if there > here else DOWN if there < here else LEVEL


def _states(network: Network, failures: int) -> Iterator[tuple[tuple[str, ...], State, Classes]]:
    """The network after none, one, … failures of links and switches, one of each class."""
    layer: list[tuple[tuple[str, ...], State, Classes]] = [((), alive(network), twins(network))]
    for depth in range(failures + 1):
        yield from layer
        if depth < failures:
            layer = [after for before in layer for after in _after(network, *before)]


def _after(
    network: Network, failed: tuple[str, ...], state: State, classes: Classes
) -> Iterator[tuple[tuple[str, ...], State, Classes]]:  # fmt: skip
    """One more failure, one of each class of what still works."""
    works = np.flatnonzero(state.links & state.nodes[network.ends].all(axis=1))
    for link in link_classes(network, classes, works):
        a, b = network.ends[link].tolist()
        yield (*failed, str(network.links[link])), state.without(link=link), alone(classes, a, b)
    for kin in classes.kin().values():
        if state.nodes[kin.first] and network.tiers[kin.first] > 1:
            yield (*failed, network.names[kin.first]), state.without(node=kin.first), alone(classes, kin.first)


def circle(network: Network, state: State, classes: Classes) -> Circle | bool:
    """The circle of waits in a state; True if traffic bounces without one, False if none bounces."""
    kept = _kept(network, classes)
    demand = np.where(state.nodes, network.demand_bits_per_s, 0.0)
    groups = mutual(network)
    waits: dict[int, set[int]] = {}
    bounced = False
    for destination in np.flatnonzero(kept & (demand > 0)).tolist():
        sent = np.where(groups == groups[destination], demand, 0.0)
        sent[destination] = 0.0
        rib = rib_to(network, destination, state, sent)
        bounced = bounced or bool(rib.bounces.any())
        _add_waits(network, rib, kept, waits)
    if not bounced:
        return False
    around = _around(waits)
    if around is None:
        return True
    near = np.repeat(np.arange(network.size), np.diff(network.starts))
    return Circle(switches=tuple(network.names[near[edge]] for edge in around), failed=())


def _kept(network: Network, classes: Classes) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """A few switches of each class: a circle among all of them is one among these too, and found sooner."""
    seen: dict[int, int] = {}
    kept = np.zeros(network.size, np.bool_)
    for node, number in enumerate(classes.of.tolist()):
        seen[number] = seen.get(number, 0) + 1
        kept[node] = seen[number] <= KEPT
    return kept


def _add_waits(
    network: Network, rib: Rib, kept: np.ndarray[tuple[int], np.dtype[np.bool_]], waits: dict[int, set[int]]
) -> None:  # fmt: skip
    """Which link's buffer waits for which, for traffic to one destination."""
    busy = np.flatnonzero(rib.loads_bits_per_s > 0)
    near = np.searchsorted(network.starts, busy, side="right") - 1
    far = network.edge_node[busy]
    inside = kept[near] & kept[far]
    out: dict[int, list[int]] = {}
    for edge, node in zip(busy[inside].tolist(), near[inside].tolist(), strict=True):
        out.setdefault(node, []).append(edge)
    for edge, node in zip(busy[inside].tolist(), far[inside].tolist(), strict=True):
        waits.setdefault(edge, set()).update(out.get(node, ()))


def _around(waits: dict[int, set[int]]) -> tuple[int, ...] | None:
    """A circle in a graph, found by walking until a node on the way is met again."""
    done: set[int] = set()
    for root in sorted(waits):
        if root in done:
            continue
        way: list[int] = [root]
        on_way = {root}
        steps = [iter(sorted(waits[root]))]
        while steps:
            following = next(steps[-1], None)
            if following is None:
                steps.pop()
                on_way.discard(way[-1])
                done.add(way.pop())
            elif following in on_way:
                return tuple(way[way.index(following) :])
            elif following not in done:
                way.append(following)
                on_way.add(following)
                steps.append(iter(sorted(waits.get(following, ()))))
    return None
