"""Closed forms for collectives over a scale-up domain (NVLink, ICI) and the network beyond it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np

from gpuyard.perf.constants import Constants
from gpuyard.perf.layout import Array, Machine

PCIE_BYTES_PER_S = 25e9  # one way, x16 of the fourth generation in practice
Collective = Literal["all-gather", "reduce-scatter", "all-reduce", "all-to-all", "send"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """How the ranks of a collective lie, and how it is done."""

    stride: Array = field(default_factory=lambda: np.ones(()))  # chips between neighbours
    calls: Array | float = 1.0  # messages that the size is sent in, each with its latency
    copies: Array = field(default_factory=lambda: np.ones(()))  # of each token in an all-to-all
    once: Array = field(default_factory=lambda: np.zeros(()))  # 1: a token goes once to each rank (DeepEP)
    one_port: Array = field(default_factory=lambda: np.zeros(()))  # 1: through one network port per domain
    innermost: bool = False  # a tensor-parallel group: on one board, along one axis of a torus


class NetworkModel(Protocol):
    """Anything that can say how long a collective takes: closed forms, a simulation, a measured profile."""

    def time_s(self, collective: Collective, size_bytes: Array, ranks: Array, group: Group = ...) -> Array:
        """Seconds for one collective of size_bytes over ranks."""
        ...


NEIGHBOURS = Group()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedForm:
    """The closed forms of this module as a network model."""

    chip: Machine
    constants: Constants

    def time_s(self, collective: Collective, size_bytes: Array, ranks: Array, group: Group = NEIGHBOURS) -> Array:
        """Seconds for one collective of size_bytes over ranks."""
        chip, constants = self.chip, self.constants
        if collective == "send":
            return send_s(size_bytes, group.stride, chip, constants)
        if collective == "all-to-all":
            return exchange_s(size_bytes, ranks, group.stride, group.copies, group.once, chip, constants)
        links = _board_links(chip, ranks) if group.innermost else _port_links(chip, group.one_port)
        once = gather_s(size_bytes, ranks, group.stride, links, constants, group.calls)
        return 2.0 * once if collective == "all-reduce" else once  # a reduce-scatter and an all-gather


def _board_links(chip: Machine, ranks: Array) -> Machine:
    """The links of a tensor-parallel group: one axis of a torus; over PCIe between the boards of a node."""
    split = ranks > chip.board_chips
    return replace(
        chip,
        scaleup_bytes_per_s=chip.scaleup_bytes_per_s / chip.torus_axes,
        scaleup_chips=np.where(split, chip.board_chips, chip.scaleup_chips),
        nic_bytes_per_s=np.where(split & (ranks <= chip.scaleup_chips), PCIE_BYTES_PER_S, chip.nic_bytes_per_s),
    )


def _port_links(chip: Machine, one_port: Array) -> Machine:
    """The links where a domain's traffic goes through one port."""
    ports = np.where(one_port > 0, chip.scaleup_chips, 1.0)
    return replace(chip, nic_bytes_per_s=chip.nic_bytes_per_s / ports)


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
