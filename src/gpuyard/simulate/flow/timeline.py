"""Faults as stretches of time in which the network stays as it is."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError
from gpuyard.simulate.faults import Fault, LinkDown, NodeDown, PfcStorm, SlowLink, Straggler, check_faults, fault_links
from gpuyard.simulate.network import Network

__all__ = ["Stretch", "stretches"]

STALLED_BITS_PER_S = 1e-9  # of a link that is down and still used: nothing, but a route


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stretch:
    """From one change to the next."""

    begin_s: float
    end_s: float
    rate_bits_per_s: npt.NDArray[np.float64]
    routed: npt.NDArray[np.bool_]  # links that routes use
    lag_s: npt.NDArray[np.float64]  # of every host: how much later it starts what it is to start


def stretches(network: Network, faults: tuple[Fault, ...]) -> tuple[Stretch, ...]:
    """The stretches, in order; one without end if nothing fails. InputError for faults that need packets."""
    check_faults(network, faults)
    if any(isinstance(fault, PfcStorm) for fault in faults):
        raise InputError.one("fault", "flows know no pause frames", "use the packet engine for a PFC storm")
    times = {0.0, math.inf}
    for fault in faults:
        times |= {fault.at_s, fault.until_s}
        if isinstance(fault, LinkDown | NodeDown):
            times |= {fault.at_s + fault.reconverge_s, fault.until_s + fault.reconverge_s}
    ordered = sorted(times)
    return tuple(_stretch(network, faults, begin_s, end_s) for begin_s, end_s in itertools.pairwise(ordered))


def _stretch(network: Network, faults: tuple[Fault, ...], begin_s: float, end_s: float) -> Stretch:
    """The network from one moment to the next change."""
    rate = network.rate_bits_per_s.copy()
    routed = np.ones(network.link_count, dtype=np.bool_)
    lag = np.zeros(network.host_count)
    for fault in faults:
        holds = fault.at_s <= begin_s < fault.until_s
        if isinstance(fault, Straggler):
            if holds:
                lag[network.node(fault.host)] += fault.lag_s
        elif isinstance(fault, SlowLink):
            if holds:
                rate[fault_links(network, fault)] *= fault.rate_ratio
        elif isinstance(fault, LinkDown | NodeDown):
            links = fault_links(network, fault)
            if holds:
                rate[links] = STALLED_BITS_PER_S
            if fault.at_s + fault.reconverge_s <= begin_s < fault.until_s + fault.reconverge_s:
                routed[links] = False
    return Stretch(begin_s=begin_s, end_s=end_s, rate_bits_per_s=rate, routed=routed, lag_s=lag)
