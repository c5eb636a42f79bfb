"""Shortest paths, counted and listed; a path is a sequence of cables, so parallel cables are separate paths.

Servers send and receive but never forward: with eight NICs on eight leaves, a server would otherwise look like
a short cut from rail to rail. Under `Rule.UP_DOWN` a path climbs the tiers and then descends, with at most one
hop between equals at its top; such paths can form no cycle of buffers that wait for each other.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuyard.topology.links import Link
from gpuyard.topology.nodes import ROLES, Role
from gpuyard.topology.wiring import Wiring

__all__ = [
    "Path", "Paths", "Reach", "Rule", "components", "hop_count", "is_connected", "is_up_down", "next_links",
    "path_count", "reach", "shortest_paths",
]  # fmt: skip


class Rule(enum.Enum):
    """Which ways a path may take."""

    ANY = "through any switch"
    UP_DOWN = "up the tiers, then down, and never up again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One way through the fabric; nodes are one more than links."""

    nodes: tuple[str, ...]
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """Equal-cost shortest paths: how long, how many there are, and those that the limit let be listed."""

    hops: int | None  # None if there is no path
    count: int
    listed: tuple[Path, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Every node that a source reaches, with the hops and the number of equal-cost shortest paths to it."""

    source: str
    hops: Mapping[str, int]
    path_counts: Mapping[str, int]


def reach(wiring: Wiring, source: str, rule: Rule = Rule.ANY) -> Reach:
    """What `source` reaches, how far, and on how many shortest paths."""
    spread = _spread(wiring, wiring.position(source), rule)
    hops: dict[str, int] = {}
    counts: dict[str, int] = {}
    for depth, layer in enumerate(spread.layers):
        for state in layer:
            name = wiring.nodes[_node(state)].name
            if hops.setdefault(name, depth) == depth:
                counts[name] = counts.get(name, 0) + spread.counts[state]
    return Reach(source=source, hops=hops, path_counts=counts)


def hop_count(wiring: Wiring, source: str, destination: str, rule: Rule = Rule.ANY) -> int | None:
    """The length of the shortest path in links; None if there is none."""
    return shortest_paths(wiring, source, destination, rule, limit=0).hops


def path_count(wiring: Wiring, source: str, destination: str, rule: Rule = Rule.ANY) -> int:
    """How many equal-cost shortest paths there are."""
    return shortest_paths(wiring, source, destination, rule, limit=0).count


def next_links(wiring: Wiring, source: str, destination: str, rule: Rule = Rule.ANY) -> tuple[Link, ...]:
    """The cables on which a shortest path may start: the source's ECMP group, in order of its ports."""
    root, start = wiring.position(destination), wiring.position(source)
    spread = _spread(wiring, root, rule, until=start)
    onward = _onward(_steps(wiring, root, rule), spread, start)
    first = {index for state in (start, ~start) for _, indexes in onward.get(state, ()) for index in indexes}
    return tuple(sorted((wiring.links[index] for index in first), key=lambda link: link.end_at(source).port))


def shortest_paths(
    wiring: Wiring, source: str, destination: str, rule: Rule = Rule.ANY, limit: int = 1024
) -> Paths:  # fmt: skip
    """The equal-cost shortest paths; all are counted, the first `limit` are listed, in an order that stays."""
    # Both rules read the same backwards, so the search starts at the destination and paths are told forwards.
    root, start = wiring.position(destination), wiring.position(source)
    spread = _spread(wiring, root, rule, until=start)
    ends = [state for state in (start, ~start) if state in spread.hops]
    if not ends:
        return Paths(hops=None, count=0, listed=())
    hops = spread.hops[ends[0]]  # if both states were met, it was in the same layer, with which the search stopped
    listed = _list(wiring, _onward(_steps(wiring, root, rule), spread, start), ends, hops, limit) if limit else ()
    return Paths(hops=hops, count=sum(spread.counts[state] for state in ends), listed=listed)


def is_up_down(wiring: Wiring, nodes: Sequence[str]) -> bool:
    """True if a path over these nodes climbs, makes at most one hop between equals, and then descends."""
    tiers = [wiring.tiers[wiring.position(name)] for name in nodes]
    over = False
    for before, after in itertools.pairwise(tiers):
        if over and after >= before:
            return False
        over = over or after <= before
    return True


def components(wiring: Wiring, roles: Iterable[Role] = ROLES) -> tuple[tuple[str, ...], ...]:
    """The nodes of these roles in groups that cables between them hold together, the largest group first."""
    wanted = set(roles)
    left = {position for position in wiring.rows if wiring.nodes[position].role in wanted}
    groups: list[tuple[str, ...]] = []
    while left:
        seed = left.pop()
        group, edge = [seed], [seed]
        while edge:
            joined = left.intersection(wiring.rows[edge.pop()])
            left -= joined
            edge += joined
            group += joined
        groups.append(tuple(wiring.nodes[position].name for position in sorted(group)))
    return tuple(sorted(groups, key=lambda names: (-len(names), names)))


def is_connected(wiring: Wiring, roles: Iterable[Role] = ROLES) -> bool:
    """True if cables between nodes of these roles hold them all together."""
    return len(components(wiring, roles)) <= 1


# A search goes over states. A node's position is the state "still climbing" (the only one under Rule.ANY);
# its complement ~position is "over the top", from where the way leads down only.
_Steps = Callable[[int], Iterable[tuple[int, tuple[int, ...]]]]  # state -> next states, and the links there
_Onward = dict[int, list[tuple[int, tuple[int, ...]]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spread:
    """A breadth-first search: hops and path counts of every state, and the states in layers."""

    hops: dict[int, int]
    counts: dict[int, int]
    layers: list[list[int]]


def _node(state: int) -> int:
    """The position of a state's node."""
    return state if state >= 0 else ~state


def _steps(wiring: Wiring, root: int, rule: Rule) -> _Steps:
    """The steps that a search from `root` may take out of a state."""
    rows, tiers = wiring.rows, wiring.tiers

    def anywhere(state: int) -> Iterable[tuple[int, tuple[int, ...]]]:
        """To all neighbours; from a server only where the search starts."""
        return rows[state].items() if tiers[state] or state == root else ()

    def up_down(state: int) -> Iterable[tuple[int, tuple[int, ...]]]:
        """Still climbing: anywhere, and a step that does not climb is over the top. Over the top: down."""
        here = tiers[_node(state)]
        if state < 0:
            return [(~node, links) for node, links in rows[~state].items() if tiers[node] < here]
        return [(node if tiers[node] > here else ~node, links) for node, links in rows[state].items()]

    return anywhere if rule is Rule.ANY else up_down


def _spread(wiring: Wiring, root: int, rule: Rule, until: int | None = None) -> _Spread:
    """The search from `root`; it stops with the layer in which it meets `until`."""
    steps = _steps(wiring, root, rule)
    hops, counts = {root: 0}, {root: 1}
    layers = [[root]]
    while layers[-1] and not (until is not None and (until in hops or ~until in hops)):
        reached: dict[int, int] = {}
        for state in layers[-1]:
            ways = counts[state]
            for target, links in steps(state):
                if target not in hops:
                    reached[target] = reached.get(target, 0) + ways * len(links)
        hops.update(dict.fromkeys(reached, len(layers)))
        counts.update(reached)
        layers.append(list(reached))
    return _Spread(hops=hops, counts=counts, layers=layers)


def _onward(steps: _Steps, spread: _Spread, start: int) -> _Onward:
    """From every state on a shortest path: the states one hop nearer to the root, and the links to them."""
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


def _list(wiring: Wiring, onward: _Onward, starts: list[int], hops: int, limit: int) -> tuple[Path, ...]:
    """The first paths along `onward`, each of the known length."""
    found: list[Path] = []
    stack: list[tuple[int, tuple[int, ...]]] = [(state, ()) for state in reversed(starts)]
    while stack and len(found) < limit:
        state, links = stack.pop()
        if len(links) == hops:
            found.append(_path(wiring, links, _node(state)))
            continue
        for nearer, indexes in sorted(onward[state], key=lambda step: _node(step[0]), reverse=True):
            stack += [(nearer, (*links, index)) for index in reversed(indexes)]
    return tuple(found)


def _path(wiring: Wiring, links: tuple[int, ...], last: int) -> Path:
    """The path over these links that ends at `last`."""
    names = [wiring.nodes[last].name]
    for index in reversed(links):
        names.append(wiring.links[index].far_from(names[-1]).node)
    return Path(nodes=tuple(reversed(names)), links=tuple(wiring.links[index] for index in links))
