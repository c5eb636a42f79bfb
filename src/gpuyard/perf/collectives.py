"""Closed forms for collectives over a scale-up domain (NVLink, ICI) and the network beyond it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from gpuyard.perf.constants import Constants
from gpuyard.perf.layout import Array, Machine

Collective = Literal["all-gather", "reduce-scatter", "all-reduce", "all-to-all", "send"]


class NetworkModel(Protocol):
    """Anything that can say how long a collective takes: closed forms, a simulation, a measured profile."""

    def time_s(self, collective: Collective, size_bytes: Array, ranks: Array) -> Array:
        """Seconds for one collective of size_bytes over ranks."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedForm:
    """The closed forms of this module as a network model; group members are `stride` chips apart."""

    chip: Machine
    constants: Constants
    stride: Array

    def time_s(self, collective: Collective, size_bytes: Array, ranks: Array) -> Array:
        """Seconds for one collective of size_bytes over ranks."""
        chip, constants, one = self.chip, self.constants, np.ones(())
        if collective == "send":
            return send_s(size_bytes, self.stride, chip, constants)
        if collective == "all-to-all":
            return exchange_s(size_bytes, ranks, self.stride, one, np.zeros(()), chip, constants)
        once = gather_s(size_bytes, ranks, self.stride, chip, constants)
        return 2.0 * once if collective == "all-reduce" else once


def gather_s(
    size_bytes: Array, ranks: Array, stride: Array, chip: Machine, c: Constants, calls: Array | float = 1.0
) -> Array:
    """All-gather or reduce-scatter of size_bytes in total; group members are stride chips apart.

    Ring inside the domain; beyond it each domain takes in the whole size through the
    network ports of the group's own members (NCCL uses one ring per port).
    """
    inside = np.clip(chip.scaleup_chips / stride, 1.0, ranks)  # members in one domain
    outside = ranks / inside  # domains spanned
    local_s = (inside - 1.0) / inside * size_bytes / (chip.scaleup_bytes_per_s * c.scaleup_ratio)
    far_s = (outside - 1.0) / outside * size_bytes / (inside * chip.nic_bytes_per_s * c.nic_ratio)
    latency = c.scaleup_latency_s * (inside > 1.0) + c.nic_latency_s * np.log2(np.maximum(outside, 1.0))
    return np.where(outside > 1.0, np.maximum(local_s, far_s), local_s) + calls * latency


def reduce_s(
    size_bytes: Array, ranks: Array, stride: Array, chip: Machine, c: Constants, calls: Array | float = 1.0
) -> Array:
    """All-reduce: a reduce-scatter and an all-gather."""
    return 2.0 * gather_s(size_bytes, ranks, stride, chip, c, calls)


def exchange_s(
    size_bytes: Array, ranks: Array, stride: Array, copies: Array, once: Array, chip: Machine, c: Constants
) -> Array:
    """All-to-all: each rank sends size_bytes in all, evenly to every rank.

    The bytes are copies of tokens. Where once is set (DeepEP, HybridEP) a token goes once to each rank that has
    one of its experts, and crosses the network once per domain: copies become the expected ranks, domains reached.
    """
    inside = np.clip(chip.scaleup_chips / stride, 1.0, ranks)
    domains = ranks / inside
    copies = np.maximum(copies, 1.0)
    far = np.where(once > 0, _reached(domains, copies) / copies, 1.0)
    near = np.where(once > 0, _reached(ranks, copies) / copies, 1.0)
    local_s = (inside - 1.0) / inside * near * size_bytes / (chip.scaleup_bytes_per_s * c.scaleup_ratio)
    far_s = (domains - 1.0) / domains * far * size_bytes / (chip.nic_bytes_per_s * c.nic_ratio)
    latency = c.scaleup_latency_s * (ranks > 1.0) + c.nic_latency_s * (ranks > inside)
    return np.maximum(local_s, far_s) + latency


def _reached(bins: Array, balls: Array) -> Array:
    """Expected bins hit by balls thrown at random."""
    return bins * (1.0 - (1.0 - 1.0 / bins) ** balls)


def send_s(size_bytes: Array, stride: Array, chip: Machine, c: Constants) -> Array:
    """Point to point to the chip stride further on."""
    near = stride < chip.scaleup_chips
    rate = np.where(near, chip.scaleup_bytes_per_s * c.scaleup_ratio, chip.nic_bytes_per_s * c.nic_ratio)
    return size_bytes / rate + np.where(near, c.scaleup_latency_s, c.nic_latency_s)
