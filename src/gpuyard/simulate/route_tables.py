"""Distances from switches to groups of hosts, and from them the sets of equal-cost links; all compiled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuyard.compiled import compiled

__all__ = ["FAR", "LAST", "NONE", "distances", "link_sets"]

FAR = 30_000  # hops that no path has
LAST = -2  # in the table: the switch is a neighbour of the destination
NONE = -1


@compiled
def _spread(
    tier: npt.NDArray[np.int8],
    out_index: npt.NDArray[np.int32],
    out_to: npt.NDArray[np.int32],
    hops: npt.NDArray[np.int16],
    down: npt.NDArray[np.int16],
    climb: bool,
    up_down: bool,
) -> None:
    """Spreads distances backwards from the switches that have one; with `climb`, over descending links alone."""
    distance, waiting = 1, True
    while waiting:
        waiting = False
        for here in range(len(tier)):
            if hops[here] > distance and hops[here] < FAR:
                waiting = True
            if hops[here] != distance:
                continue
            for place in range(out_index[here], out_index[here + 1]):  # links go both ways: these also lead here
                there = out_to[place]
                descends = tier[there] > tier[here] and down[here] < FAR
                allowed = descends if climb else (tier[there] < tier[here] or down[here] < FAR or not up_down)
                if hops[there] > distance + 1 and allowed:
                    hops[there] = distance + 1
                    waiting = True
        distance += 1


@compiled
def distances(
    tier: npt.NDArray[np.int8],
    out_index: npt.NDArray[np.int32],
    out_to: npt.NDArray[np.int32],
    leaves: npt.NDArray[np.int32],
    leaf_index: npt.NDArray[np.int32],
    up_down: bool,
) -> tuple[int, npt.NDArray[np.int16], npt.NDArray[np.int16]]:
    """Links from every switch to every group, by any allowed way and by descending alone; and the longest."""
    switches, groups = len(tier), len(leaf_index) - 1
    hops = np.full((switches, groups), FAR, dtype=np.int16)
    down = np.full((switches, groups), FAR, dtype=np.int16)
    longest = 1
    for group in range(groups):
        descent = np.full(switches, FAR, dtype=np.int16)
        for place in range(leaf_index[group], leaf_index[group + 1]):
            descent[leaves[place]] = 1
        near = descent.copy()
        if up_down:
            _spread(tier, out_index, out_to, descent, descent, True, True)
            near[:] = descent  # a switch that can descend does
        _spread(tier, out_index, out_to, near, descent, False, up_down)
        for switch in range(switches):
            hops[switch, group] = near[switch]
            down[switch, group] = descent[switch]
            if near[switch] < FAR:
                longest = max(longest, int(near[switch]))
    return longest, hops, down


@compiled
def _is_onward(tier_step: int, hops: int, down: int, hops_there: int, down_there: int, up_down: bool) -> bool:
    """True if the way over a neighbour so many tiers up is an equal-cost way."""
    if not up_down:
        return hops_there + 1 == hops
    if down < FAR:
        return tier_step < 0 and down_there + 1 == down
    if tier_step == 0:
        return hops_there + 1 == hops and down_there < FAR
    return hops_there + 1 == hops and tier_step > 0


def link_sets(
    tier: npt.NDArray[np.int8],
    out_index: npt.NDArray[np.int32],
    out_links: npt.NDArray[np.int64],
    out_to: npt.NDArray[np.int32],
    hops: npt.NDArray[np.int16],
    down: npt.NDArray[np.int16],
    up_down: bool,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The sets of equal-cost links; a set is kept once if the switch's group before, or its first, had it too."""
    table = np.empty(hops.shape, dtype=np.int32)
    room = 2 * len(out_links) + 64  # what a fat tree takes; others are tried again with more
    while True:
        index, links = np.zeros(room, dtype=np.int32), np.empty(room, dtype=np.int32)
        sets = _fill_sets(tier, out_index, out_links, out_to, hops, down, up_down, table, index, links)
        if sets != NONE:
            return table, index[: sets + 1].copy(), links[: index[sets]].copy()
        room *= 2


@compiled
def _fill_sets(
    tier: npt.NDArray[np.int8],
    out_index: npt.NDArray[np.int32],
    out_links: npt.NDArray[np.int64],
    out_to: npt.NDArray[np.int32],
    hops: npt.NDArray[np.int16],
    down: npt.NDArray[np.int16],
    up_down: bool,
    table: npt.NDArray[np.int32],
    index: npt.NDArray[np.int32],
    links: npt.NDArray[np.int32],
) -> int:
    """Writes the sets and gives their number; NONE if there is no room for them."""
    switches, groups = hops.shape
    table[:] = NONE
    sets = 0
    for switch in range(switches):
        first = before = NONE
        for group in range(groups):
            far, descent = hops[switch, group], down[switch, group]
            if far == 1:
                table[switch, group] = LAST
            if far == 1 or far == FAR:
                continue
            end = begin = index[sets]
            if sets + 1 == len(index) or begin + out_index[switch + 1] - out_index[switch] > len(links):
                return NONE
            for place in range(out_index[switch], out_index[switch + 1]):
                there = out_to[place]
                step = int(tier[there]) - int(tier[switch])
                if _is_onward(step, far, descent, hops[there, group], down[there, group], up_down):
                    links[end] = out_links[place]
                    end += 1
            chosen = _same_set(index, links, begin, end, before, first)
            if chosen == NONE:
                chosen = sets
                sets += 1
                index[sets] = end
            first = chosen if first == NONE else first
            before = table[switch, group] = chosen
    return sets


@compiled
def _same_set(
    index: npt.NDArray[np.int32], links: npt.NDArray[np.int32], begin: int, end: int, one: int, other: int
) -> int:
    """Which of two sets the links from `begin` to `end` repeat; -1 if neither."""
    for old in (one, other):
        if old != NONE and index[old + 1] - index[old] == end - begin:
            same = True
            for place in range(end - begin):
                same = same and links[index[old] + place] == links[begin + place]
            if same:
                return old
    return NONE
