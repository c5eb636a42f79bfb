"""Distances and ECMP link sets from switches to groups of hosts, compiled.

Idea. For each group, a breadth-first search backwards from its leaves gives every switch its
distance. With up-down routing there are two searches: first over descending links alone, then
upwards from every switch that can descend, because such a switch always descends. A switch's
equal-cost links are those to neighbours one hop nearer that continue the same pattern.

Invariant of up-down routing: a path climbs, crosses between switches of one tier at most once, and
descends. No path turns upwards again, so PFC buffers cannot depend on each other in a cycle.

Neighbouring groups mostly have the same links, so a switch's set is stored once for them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpuyard.jit import jit

FAR = 30_000  # hops; no path has that many
LAST = -2  # in the table: the switch is a neighbour of the destination
NONE = -1


class SwitchLinks(NamedTuple):
    """Links between switches: those out of switch s are at `offset[s]` to `offset[s + 1]`."""

    tier: npt.NDArray[np.int8]  # of each switch
    offset: npt.NDArray[np.int32]
    link: npt.NDArray[np.int64]
    to: npt.NDArray[np.int32]  # the switch at the other end


class Distances(NamedTuple):
    """Links from each switch to each group of hosts; FAR if there is no path."""

    hops: npt.NDArray[np.int16]  # by any allowed path
    down: npt.NDArray[np.int16]  # by descending alone


class LinkSets(NamedTuple):
    """Sets of equal-cost links: those of set k are at `offset[k]` to `offset[k + 1]`."""

    table: npt.NDArray[np.int32]  # [switch, group]: a set, NONE or LAST
    offset: npt.NDArray[np.int32]
    link: npt.NDArray[np.int32]


@jit
def distances(
    switches: SwitchLinks,
    leaves: npt.NDArray[np.int32],
    leaf_index: npt.NDArray[np.int32],
    up_down: bool,
) -> Distances:
    """Return the distances to the groups whose leaves are given in CSR form."""
    count, groups = len(switches.tier), len(leaf_index) - 1
    hops = np.full((count, groups), FAR, dtype=np.int16)
    down = np.full((count, groups), FAR, dtype=np.int16)
    for group in range(groups):
        descent = np.full(count, FAR, dtype=np.int16)
        for leaf in leaves[leaf_index[group] : leaf_index[group + 1]]:
            descent[leaf] = 1
        near = descent.copy()
        if up_down:
            _search(switches, descent, descent, True, True)
            near[:] = descent
        _search(switches, near, descent, False, up_down)
        hops[:, group] = near
        down[:, group] = descent
    return Distances(hops, down)


@jit(allocates=False)
def _search(
    switches: SwitchLinks,
    hops: npt.NDArray[np.int16],
    down: npt.NDArray[np.int16],
    descending: bool,
    up_down: bool,
) -> None:
    """Extend distances backwards, over allowed links or over descending links alone."""
    tier, index, to = switches.tier, switches.offset, switches.to
    distance, pending = 1, True
    while pending:
        pending = False
        for here in range(len(tier)):
            if hops[here] > distance and hops[here] < FAR:
                pending = True
            if hops[here] != distance:
                continue
            for place in range(index[here], index[here + 1]):  # the reverse leads here
                there = to[place]
                if descending:
                    allowed = tier[there] > tier[here] and down[here] < FAR
                else:
                    allowed = tier[there] < tier[here] or down[here] < FAR or not up_down
                if hops[there] > distance + 1 and allowed:
                    hops[there] = distance + 1
                    pending = True
        distance += 1


def link_sets(switches: SwitchLinks, distance: Distances, up_down: bool) -> LinkSets:
    """Return the sets of equal-cost links."""
    room = 2 * len(switches.link) + 64  # enough for a fat tree
    while True:
        sets = LinkSets(
            table=np.full(distance.hops.shape, NONE, dtype=np.int32),
            offset=np.zeros(room, dtype=np.int32),
            link=np.empty(room, dtype=np.int32),
        )
        count = _fill_sets(switches, distance, up_down, sets)
        if count != NONE:
            used = sets.offset[count]
            return LinkSets(sets.table, sets.offset[: count + 1].copy(), sets.link[:used].copy())
        room *= 2


@jit(allocates=False)
def _fill_sets(switches: SwitchLinks, distance: Distances, up_down: bool, sets: LinkSets) -> int:
    """Write the sets and return their number; NONE if there is not enough room for them."""
    hops, down, index = distance.hops, distance.down, switches.offset
    count = 0
    for switch in range(len(hops)):
        first = previous = NONE
        for group in range(hops.shape[1]):
            far, descent = hops[switch, group], down[switch, group]
            if far == 1:
                sets.table[switch, group] = LAST
            if far == 1 or far == FAR:
                continue
            begin = end = sets.offset[count]
            if count + 1 == len(sets.offset) or (
                begin + index[switch + 1] - index[switch] > len(sets.link)
            ):
                return NONE
            for place in range(index[switch], index[switch + 1]):
                there = switches.to[place]
                climb = int(switches.tier[there]) - int(switches.tier[switch])
                if _is_onward(climb, far, descent, hops[there, group], down[there, group], up_down):
                    sets.link[end] = switches.link[place]
                    end += 1
            chosen = _equal_set(sets, begin, end, previous, first)
            if chosen == NONE:
                chosen = count
                count += 1
                sets.offset[count] = end
            first = chosen if first == NONE else first
            previous = sets.table[switch, group] = chosen
    return count


@jit(allocates=False)
def _is_onward(
    climb: int, hops: int, down: int, hops_there: int, down_there: int, up_down: bool
) -> bool:
    """Whether a neighbour, `climb` tiers higher, is on an equal-cost path."""
    if not up_down:
        return hops_there + 1 == hops
    if down < FAR:
        return climb < 0 and down_there + 1 == down
    if climb == 0:
        return hops_there + 1 == hops and down_there < FAR
    return hops_there + 1 == hops and climb > 0


@jit(allocates=False)
def _equal_set(sets: LinkSets, begin: int, end: int, one: int, other: int) -> int:
    """Which of two sets is equal to the links from `begin` to `end`; NONE if neither."""
    for candidate in (one, other):
        if candidate != NONE and sets.offset[candidate + 1] - sets.offset[candidate] == end - begin:
            equal = True
            for place in range(end - begin):
                same = sets.link[sets.offset[candidate] + place] == sets.link[begin + place]
                equal = equal and same
            if equal:
                return candidate
    return NONE
