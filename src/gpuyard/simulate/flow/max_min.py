"""Max-min fair rates by progressive filling (water filling).

Idea: raise all rates together until a link saturates, freeze the flows through it, and continue
with the others on what is left. With weights, a link saturates when the common rate reaches its
fair share: spare capacity over the total share of its flows that are not frozen yet.

Invariant: freezing a flow at the current rate never lowers the fair share of another link. So a
heap of links may hold old shares, which are lower bounds: the first link is the next to saturate
once its own share is up to date.

Source: D. Bertsekas, R. Gallager, "Data Networks", 2nd ed. 1992, section 6.5.2.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuyard.jit import jit
from gpuyard.simulate import heap
from gpuyard.simulate.flow.problem import LinkShares

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

TOLERANCE = 1e-12  # a fair share that rose by less, relatively, is up to date
NO_LOAD = 1e-300  # what rounding leaves of the load of a link whose flows are all frozen


def max_min_rates(shares: LinkShares, capacity: Floats) -> Floats:
    """Return the rate of every flow."""
    flows = np.arange(len(shares.offset) - 1)
    rates = np.zeros(len(flows))
    bottleneck_link = np.zeros(len(flows), dtype=np.int64)
    water_fill(flows, shares, capacity, rates, bottleneck_link, np.zeros(len(capacity), np.int64))
    return rates


@jit
def water_fill(
    flows: Ints,
    shares: LinkShares,
    capacity: Floats,
    rates: Floats,
    bottleneck_link: Ints,
    member_count: Ints,
) -> None:
    """Write the rates of some flows, which share `capacity`, and the link that limits each.

    `member_count` is a scratch array over links, zero before and after.
    """
    link, member_index = _used_links(flows, shares, member_count)
    size = len(link)
    local = np.empty(len(capacity), dtype=np.int64)  # of a link: its number among the used ones
    open_count, spare = np.empty(size, dtype=np.int64), np.empty(size)
    for k in range(size):
        local[link[k]] = k
        spare[k] = capacity[link[k]]
        open_count[k] = member_count[link[k]]
        member_count[link[k]] = 0
    member, load = _members(flows, shares, local, member_index, rates)
    fair_share, order = np.empty(size), np.empty(size, dtype=np.int64)
    for k in range(size):
        fair_share[k] = spare[k] / load[k] if load[k] != 0.0 else np.inf
        order[k] = k
    heap.build(order, size, fair_share)
    while size:
        k = order[0]
        rate = max(spare[k], 0.0) / load[k] if open_count[k] and load[k] > NO_LOAD else np.inf
        if fair_share[k] * (1.0 + TOLERANCE) < rate < np.inf:
            fair_share[k] = rate
            heap.sift_down(order, size, fair_share, 0)
            continue
        size = heap.pop(order, size, fair_share)
        if open_count[k] == 0:
            continue
        for m in range(member_index[k], member_index[k + 1]):
            flow = member[m]
            if rates[flow] >= 0.0:
                continue
            rates[flow], bottleneck_link[flow] = rate, link[k]
            for e in range(shares.offset[flow], shares.offset[flow + 1]):
                other = local[shares.link[e]]
                spare[other] -= rate * shares.share[e]
                load[other] -= shares.share[e]
                open_count[other] -= 1


@jit
def _used_links(flows: Ints, shares: LinkShares, member_count: Ints) -> tuple[Ints, Ints]:
    """The links of the flows, and where the members of each will begin; counts the members."""
    total = 0
    for flow in flows:
        total += shares.offset[flow + 1] - shares.offset[flow]
    used = np.empty(min(total, len(member_count)), dtype=np.int64)
    count = 0
    for flow in flows:
        for e in range(shares.offset[flow], shares.offset[flow + 1]):
            link = shares.link[e]
            if member_count[link] == 0:
                used[count] = link
                count += 1
            member_count[link] += 1
    member_index = np.zeros(count + 1, dtype=np.int64)
    for k in range(count):
        member_index[k + 1] = member_index[k] + member_count[used[k]]
    return used[:count], member_index


@jit
def _members(
    flows: Ints, shares: LinkShares, local: Ints, member_index: Ints, rates: Floats
) -> tuple[Ints, Floats]:
    """The flows of each link and their total share; sets rates to -1, which means not frozen."""
    member, cursor = np.empty(member_index[-1], dtype=np.int64), member_index.copy()
    load = np.zeros(len(member_index) - 1)
    for flow in flows:
        rates[flow] = -1.0
        for e in range(shares.offset[flow], shares.offset[flow + 1]):
            k = local[shares.link[e]]
            member[cursor[k]] = flow
            cursor[k] += 1
            load[k] += shares.share[e]
    return member, load
