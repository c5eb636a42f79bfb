"""Fault intervals in which the network does not change."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError
from gpuyard.simulate.faults import (
    Fault,
    LinkDown,
    NodeDown,
    PfcStorm,
    SlowLink,
    Straggler,
    check_faults,
    fault_links,
)
from gpuyard.simulate.network import Network

STALLED_BITS_PER_S = 1e-9  # of a link that is down while routes still use it
STALLED_BYTES_PER_S = 1e-9  # of a flow over it, at least


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StableInterval:
    """The network from one fault event to the next."""

    begin_s: float
    end_s: float
    rate_bits_per_s: npt.NDArray[np.float64]
    routed: npt.NDArray[np.bool_]  # links that routes use
    lag_s: npt.NDArray[np.float64]  # of every host: delay before it starts a flow


def stable_intervals(network: Network, faults: tuple[Fault, ...]) -> tuple[StableInterval, ...]:
    """Return the intervals in order; one without end if nothing fails.

    Raises:
        InputError: a fault needs packets.
    """
    check_faults(network, faults)
    if any(isinstance(fault, PfcStorm) for fault in faults):
        raise InputError.one(
            "fault",
            "the flow engine does not model PFC pause frames",
            "use the packet engine for a PFC storm",
        )
    times = {0.0, math.inf}
    for fault in faults:
        times |= {fault.at_s, fault.until_s}
        if isinstance(fault, LinkDown | NodeDown):
            times |= {fault.at_s + fault.reconverge_s, fault.until_s + fault.reconverge_s}
    ordered = sorted(times)
    return tuple(
        _interval(network, faults, begin_s, end_s) for begin_s, end_s in itertools.pairwise(ordered)
    )


def constant_interval(network: Network, faults: tuple[Fault, ...]) -> StableInterval | None:
    """Return the only interval of a network that never changes, None if it changes."""
    if any(isinstance(fault, PfcStorm) for fault in faults):
        return None
    intervals = stable_intervals(network, faults)
    return intervals[0] if len(intervals) == 1 and not intervals[0].lag_s.any() else None


def intervals_of_rounds(
    network: Network, faults: tuple[Fault, ...]
) -> tuple[StableInterval, ...] | None:
    """Return the intervals of a network whose faults rounds can have; None with other faults."""
    if any(isinstance(fault, PfcStorm) for fault in faults):
        return None
    intervals = stable_intervals(network, faults)
    return None if any(one.lag_s.any() for one in intervals) else intervals


def _interval(
    network: Network, faults: tuple[Fault, ...], begin_s: float, end_s: float
) -> StableInterval:
    rate = network.rate_bits_per_s.copy()
    routed = np.ones(network.link_count, dtype=np.bool_)
    lag = np.zeros(network.host_count)
    for fault in faults:
        active = fault.at_s <= begin_s < fault.until_s
        if isinstance(fault, Straggler):
            if active:
                lag[network.node(fault.host)] += fault.lag_s
        elif isinstance(fault, SlowLink):
            if active:
                rate[fault_links(network, fault)] *= fault.rate_ratio
        elif isinstance(fault, LinkDown | NodeDown):
            links = fault_links(network, fault)
            if active:
                rate[links] = STALLED_BITS_PER_S
            if fault.at_s + fault.reconverge_s <= begin_s < fault.until_s + fault.reconverge_s:
                routed[links] = False
    return StableInterval(
        begin_s=begin_s, end_s=end_s, rate_bits_per_s=rate, routed=routed, lag_s=lag
    )
