"""Equal-cost shortest paths, counted and listed; parallel cables are separate paths.

Servers never forward: with eight NICs on eight leaves, a server would otherwise look like a short
cut from rail to rail. Under `PathPolicy.UP_DOWN` a path climbs the tiers and then descends, with at
most one hop between equal tiers at its top; such paths form no cyclic buffer dependency.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuyard.topology.links import Link
from gpuyard.topology.nodes import ROLES, Role
from gpuyard.topology.wiring import Wiring


class PathPolicy(enum.Enum):
    """Which hops a path may take."""

    ANY = "through any switch"
    UP_DOWN = "up the tiers, then down, and never up again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One path through the fabric, with one more node than links."""

    nodes: tuple[str, ...]
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """Equal-cost shortest paths: their length, their number, and the first of them."""

    hops: int | None  # None if there is no path
    count: int
    listed: tuple[Path, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reachability:
    """Nodes reachable from a source, with hops and the number of equal-cost shortest paths."""

    source: str
    hops: Mapping[str, int]
    path_counts: Mapping[str, int]


def reach(wiring: Wiring, source: str, policy: PathPolicy = PathPolicy.ANY) -> Reachability:
    """Return the nodes reachable from `source`."""
    spread = _spread(wiring, wiring.position(source), policy)
    hops: dict[str, int] = {}
    counts: dict[str, int] = {}
    for depth, layer in enumerate(spread.layers):
        for state in layer:
            name = wiring.nodes[_node(state)].name
            if hops.setdefault(name, depth) == depth:
                counts[name] = counts.get(name, 0) + spread.counts[state]
    return Reachability(source=source, hops=hops, path_counts=counts)


def hop_count(
    wiring: Wiring, source: str, destination: str, policy: PathPolicy = PathPolicy.ANY
) -> int | None:
    """Return the length of the shortest path in links; None if there is no path."""
    return shortest_paths(wiring, source, destination, policy, limit=0).hops


def path_count(
    wiring: Wiring, source: str, destination: str, policy: PathPolicy = PathPolicy.ANY
) -> int:
    """Return the number of equal-cost shortest paths."""
    return shortest_paths(wiring, source, destination, policy, limit=0).count


def next_links(
    wiring: Wiring, source: str, destination: str, policy: PathPolicy = PathPolicy.ANY
) -> tuple[Link, ...]:
    """Return the ECMP group of the source: first links of shortest paths, in port order."""
    root, start = wiring.position(destination), wiring.position(source)
    spread = _spread(wiring, root, policy, until=start)
    onward = _onward(_steps(wiring, root, policy), spread, start)
    first = {
        index
        for state in (start, ~start)
        for _, indexes in onward.get(state, ())
        for index in indexes
    }
    return tuple(
        sorted((wiring.links[index] for index in first), key=lambda link: link.end_at(source).port)
    )


def shortest_paths(
    wiring: Wiring,
    source: str,
    destination: str,
    policy: PathPolicy = PathPolicy.ANY,
    limit: int = 1024,
) -> Paths:
    """Count the equal-cost shortest paths and list the first `limit`, in a stable order."""
    # Both policies are symmetric, so the search runs backwards from the destination.
    root, start = wiring.position(destination), wiring.position(source)
    spread = _spread(wiring, root, policy, until=start)
    ends = [state for state in (start, ~start) if state in spread.hops]
    if not ends:
        return Paths(hops=None, count=0, listed=())
    hops = spread.hops[ends[0]]  # both states are in the layer at which the search stopped
    listed: tuple[Path, ...] = ()
    if limit:
        onward = _onward(_steps(wiring, root, policy), spread, start)
        listed = _list(wiring, onward, ends, hops, limit)
    return Paths(hops=hops, count=sum(spread.counts[state] for state in ends), listed=listed)


def is_up_down(wiring: Wiring, nodes: Sequence[str]) -> bool:
    """Return whether a path climbs, makes at most one hop between equal tiers, then descends."""
    tiers = [wiring.tiers[wiring.position(name)] for name in nodes]
    over = False
    for before, after in itertools.pairwise(tiers):
        if over and after >= before:
            return False
        over = over or after <= before
    return True


def components(wiring: Wiring, roles: Iterable[Role] = ROLES) -> tuple[tuple[str, ...], ...]:
    """Return the connected components of the nodes of these roles, the largest first."""
    wanted = set(roles)
    left = {position for position in wiring.rows if wiring.nodes[position].role in wanted}
    groups: list[tuple[str, ...]] = []
    while left:
        seed = left.pop()
        group, edge = [seed], [seed]
        while edge:
            connected = left.intersection(wiring.rows[edge.pop()])
            left -= connected
            edge += connected
            group += connected
        groups.append(tuple(wiring.nodes[position].name for position in sorted(group)))
    return tuple(sorted(groups, key=lambda names: (-len(names), names)))


def is_connected(wiring: Wiring, roles: Iterable[Role] = ROLES) -> bool:
    """Return whether the nodes of these roles form one connected component."""
    return len(components(wiring, roles)) <= 1


# Breadth-first search over states. A node's position is the state "still climbing" (the only one
# under PathPolicy.ANY); its complement ~position is "descending", from which only down is allowed.
# Invariant: a state's count is final when its layer is complete, because every predecessor on a
# shortest path is in the layer before.
_Steps = Callable[[int], Iterable[tuple[int, tuple[int, ...]]]]  # state -> next states, links there
_Onward = dict[int, list[tuple[int, tuple[int, ...]]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spread:
    """A breadth-first search: hops and path counts of every state, and the states in layers."""

    hops: dict[int, int]
    counts: dict[int, int]
    layers: list[list[int]]


def _node(state: int) -> int:
    return state if state >= 0 else ~state


def _steps(wiring: Wiring, root: int, policy: PathPolicy) -> _Steps:
    rows, tiers = wiring.rows, wiring.tiers

    def anywhere(state: int) -> Iterable[tuple[int, tuple[int, ...]]]:
        return rows[state].items() if tiers[state] or state == root else ()

    def up_down(state: int) -> Iterable[tuple[int, tuple[int, ...]]]:

        here = tiers[_node(state)]
        if state < 0:
            return [(~node, links) for node, links in rows[~state].items() if tiers[node] < here]
        return [
            (node if tiers[node] > here else ~node, links) for node, links in rows[state].items()
        ]

    return anywhere if policy is PathPolicy.ANY else up_down


def _spread(wiring: Wiring, root: int, policy: PathPolicy, until: int | None = None) -> _Spread:

    steps = _steps(wiring, root, policy)
    hops, counts = {root: 0}, {root: 1}
    layers = [[root]]
    while layers[-1] and not (until is not None and (until in hops or ~until in hops)):
        reached: dict[int, int] = {}
        for state in layers[-1]:
            count = counts[state]
            for target, links in steps(state):
                if target not in hops:
                    reached[target] = reached.get(target, 0) + count * len(links)
        hops.update(dict.fromkeys(reached, len(layers)))
        counts.update(reached)
        layers.append(list(reached))
    return _Spread(hops=hops, counts=counts, layers=layers)


def _onward(steps: _Steps, spread: _Spread, start: int) -> _Onward:
    # From every state on a shortest path: the states one hop nearer to the root, and the links.
    onward: _Onward = {}
    wanted = {start, ~start}.intersection(spread.hops)
    for layer in reversed(spread.layers[:-1]):
        nearer: set[int] = set()
        for state in layer:
            for target, links in steps(state):
                if target in wanted:
                    onward.setdefault(target, []).append((state, links))
                    nearer.add(state)
        wanted = nearer
    return onward


def _list(
    wiring: Wiring, onward: _Onward, starts: list[int], hops: int, limit: int
) -> tuple[Path, ...]:
    paths: list[Path] = []
    stack: list[tuple[int, tuple[int, ...]]] = [(state, ()) for state in reversed(starts)]
    while stack and len(paths) < limit:
        state, links = stack.pop()
        if len(links) == hops:
            paths.append(_path(wiring, links, _node(state)))
            continue
        for nearer, indexes in sorted(onward[state], key=lambda step: _node(step[0]), reverse=True):
            stack += [(nearer, (*links, index)) for index in reversed(indexes)]
    return tuple(paths)


def _path(wiring: Wiring, links: tuple[int, ...], last: int) -> Path:
    names = [wiring.nodes[last].name]
    for index in reversed(links):
        names.append(wiring.links[index].far_from(names[-1]).node)
    return Path(nodes=tuple(reversed(names)), links=tuple(wiring.links[index] for index in links))
