"""Max-min fair rates: all flows rise together, and those through the link that fills first stop there."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuyard.compiled import compiled

__all__ = ["max_min_rates", "water_fill"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def max_min_rates(entry_index: Ints, entry_link: Ints, entry_weight: Floats, capacity: Floats) -> Floats:
    """The rate of every flow; a flow of rate r puts r x weight on each link of its entries."""
    flows = len(entry_index) - 1
    rates = np.zeros(flows)
    scratch = np.zeros(len(capacity), dtype=np.int64)
    full = np.zeros(flows, dtype=np.int64)
    water_fill(np.arange(flows), flows, entry_index, entry_link, entry_weight, capacity, rates, full, scratch)
    return rates


@compiled
def water_fill(
    active: Ints,
    active_count: int,
    entry_index: Ints,
    entry_link: Ints,
    entry_weight: Floats,
    capacity: Floats,
    rates: Floats,
    full: Ints,
    member_count: Ints,
) -> None:
    """Writes the rates of the active flows and the link that holds each back; `member_count` is zero before and after.

    A link's fair share only rises as other links fill, so a heap with old shares is right once the top is renewed.
    """
    touched, members_at = _touched_links(active, active_count, entry_index, entry_link, member_count)
    size = len(touched)
    place, open_count, left = np.empty(len(capacity), dtype=np.int64), np.empty(size, dtype=np.int64), np.empty(size)
    for k in range(size):
        place[touched[k]], left[k] = k, capacity[touched[k]]
        open_count[k], member_count[touched[k]] = member_count[touched[k]], 0
    member, load = _members(active, active_count, entry_index, entry_link, entry_weight, place, members_at, rates)
    share, heap = np.empty(size), np.empty(size, dtype=np.int64)
    for k in range(size):
        share[k], heap[k] = left[k] / load[k] if load[k] != 0.0 else np.inf, k
    for top in range(size // 2 - 1, -1, -1):
        _sift(heap, share, top, size)
    while size:
        k = heap[0]
        now = max(left[k], 0.0) / load[k] if open_count[k] and load[k] > 1e-300 else np.inf
        if now > share[k] * (1.0 + 1e-12) and now < np.inf:
            share[k] = now
            _sift(heap, share, 0, size)
            continue
        size -= 1
        heap[0] = heap[size]
        _sift(heap, share, 0, size)
        for m in range(members_at[k], members_at[k + 1] if open_count[k] else members_at[k]):
            flow = member[m]
            if rates[flow] >= 0.0:
                continue
            rates[flow], full[flow] = now, touched[k]
            for e in range(entry_index[flow], entry_index[flow + 1]):
                j = place[entry_link[e]]
                left[j] -= now * entry_weight[e]
                load[j] -= entry_weight[e]
                open_count[j] -= 1


@compiled
def _members(
    active: Ints, active_count: int, entry_index: Ints, entry_link: Ints, entry_weight: Floats, place: Ints,
    members_at: Ints, rates: Floats,
) -> tuple[Ints, Floats]:  # fmt: skip
    """The flows of each link and the weight of them all; rates are set to -1, for not known yet."""
    member, cursor = np.empty(members_at[-1], dtype=np.int64), members_at.copy()
    load = np.zeros(len(members_at) - 1)
    for a in range(active_count):
        flow = active[a]
        rates[flow] = -1.0
        for e in range(entry_index[flow], entry_index[flow + 1]):
            k = place[entry_link[e]]
            member[cursor[k]] = flow
            cursor[k] += 1
            load[k] += entry_weight[e]
    return member, load


@compiled
def _touched_links(
    active: Ints, active_count: int, entry_index: Ints, entry_link: Ints, member_count: Ints
) -> tuple[Ints, Ints]:
    """The links that active flows use, and where the members of each will begin."""
    total = 0
    for a in range(active_count):
        total += entry_index[active[a] + 1] - entry_index[active[a]]
    touched = np.empty(min(total, len(member_count)), dtype=np.int64)
    links = 0
    for a in range(active_count):
        for e in range(entry_index[active[a]], entry_index[active[a] + 1]):
            link = entry_link[e]
            if member_count[link] == 0:
                touched[links] = link
                links += 1
            member_count[link] += 1
    begins = np.zeros(links + 1, dtype=np.int64)
    for k in range(links):
        begins[k + 1] = begins[k] + member_count[touched[k]]
    return touched[:links], begins


@compiled
def _sift(heap: Ints, key: Floats, top: int, size: int) -> None:
    """Lets the top of a heap of keys sink to its place."""
    item = heap[top] if size > 0 else 0
    at = top
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and key[heap[child + 1]] < key[heap[child]]:
            child += 1
        if key[heap[child]] >= key[item]:
            break
        heap[at] = heap[child]
        at = child
    if size > 0:
        heap[at] = item
