"""Closed forms for collectives over a scale-up domain (NVLink, ICI) and the network beyond it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np

from gpuyard.perf.constants import TrainingConstants
from gpuyard.perf.layout import Array, TrainingChip

PCIE_BYTES_PER_S = 25e9  # unidirectional, PCIe 4.0 x16 in practice
Collective = Literal["all-gather", "reduce-scatter", "all-reduce", "all-to-all", "send"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankGroup:
    """Placement of the ranks of a collective, and its message count."""

    stride: Array = field(default_factory=lambda: np.ones(()))  # chips between neighbour ranks
    calls: Array | float = 1.0  # messages of the size, each with its latency
    copies: Array = field(default_factory=lambda: np.ones(()))  # per token in an all-to-all
    once: Array = field(default_factory=lambda: np.zeros(()))  # 1: one copy per rank (DeepEP)
    one_port: Array = field(default_factory=lambda: np.zeros(()))  # 1: one NIC per domain
    innermost: bool = False  # a tensor-parallel group: on one board, along one torus axis


class NetworkModel(Protocol):
    """Time of a collective: a closed form, a simulation or a measured profile."""

    def time_s(
        self, collective: Collective, size_bytes: Array, ranks: Array, group: RankGroup = ...
    ) -> Array:
        """Seconds for one collective of size_bytes over ranks."""
        ...


NEIGHBOURS = RankGroup()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedForm:
    """The closed forms of this module as a network model."""

    chip: TrainingChip
    constants: TrainingConstants

    def time_s(
        self, collective: Collective, size_bytes: Array, ranks: Array, group: RankGroup = NEIGHBOURS
    ) -> Array:
        """Seconds for one collective of size_bytes over ranks."""
        chip, constants = self.chip, self.constants
        if collective == "send":
            return send_s(size_bytes, group.stride, chip, constants)
        if collective == "all-to-all":
            return exchange_s(
                size_bytes, ranks, group.stride, group.copies, group.once, chip, constants
            )
        links = _board_links(chip, ranks) if group.innermost else _port_links(chip, group.one_port)
        once = gather_s(size_bytes, ranks, group.stride, links, constants, group.calls)
        # An all-reduce is a reduce-scatter and an all-gather.
        return 2.0 * once if collective == "all-reduce" else once


def _board_links(chip: TrainingChip, ranks: Array) -> TrainingChip:
    """Return the links of a tensor-parallel group: one torus axis; PCIe between boards."""
    split = ranks > chip.board_chips
    return replace(
        chip,
        scaleup_bytes_per_s=chip.scaleup_bytes_per_s / chip.torus_axes,
        scaleup_chips=np.where(split, chip.board_chips, chip.scaleup_chips),
        nic_bytes_per_s=np.where(
            split & (ranks <= chip.scaleup_chips), PCIE_BYTES_PER_S, chip.nic_bytes_per_s
        ),
    )


def _port_links(chip: TrainingChip, one_port: Array) -> TrainingChip:
    """Return the links where a domain's traffic uses one NIC."""
    ports = np.where(one_port > 0, chip.scaleup_chips, 1.0)
    return replace(chip, nic_bytes_per_s=chip.nic_bytes_per_s / ports)


def gather_s(
    size_bytes: Array,
    ranks: Array,
    stride: Array,
    chip: TrainingChip,
    c: TrainingConstants,
    calls: Array | float = 1.0,
) -> Array:
    """Return the seconds of an all-gather or reduce-scatter of size_bytes in total.

    A ring inside the domain; between domains, each domain receives the whole size through the NICs
    of the group's members (NCCL runs one ring per NIC).
    """
    inside = np.clip(chip.scaleup_chips / stride, 1.0, ranks)  # ranks per domain
    outside = ranks / inside  # domains spanned
    local_s = (inside - 1.0) / inside * size_bytes / (chip.scaleup_bytes_per_s * c.scaleup_ratio)
    far_s = (outside - 1.0) / outside * size_bytes / (inside * chip.nic_bytes_per_s * c.nic_ratio)
    latency = c.scaleup_latency_s * (inside > 1.0) + c.nic_latency_s * np.log2(
        np.maximum(outside, 1.0)
    )
    return np.where(outside > 1.0, np.maximum(local_s, far_s), local_s) + calls * latency


def exchange_s(
    size_bytes: Array,
    ranks: Array,
    stride: Array,
    copies: Array,
    once: Array,
    chip: TrainingChip,
    c: TrainingConstants,
) -> Array:
    """Return the seconds of an all-to-all in which a rank sends size_bytes, evenly to all ranks.

    The bytes are token copies. Where `once` is set (DeepEP, HybridEP), a token goes once to each
    rank that holds one of its experts and crosses the network once per domain: copies become the
    expected number of ranks and domains reached.
    """
    inside = np.clip(chip.scaleup_chips / stride, 1.0, ranks)
    domains = ranks / inside
    copies = np.maximum(copies, 1.0)
    far = np.where(once > 0, _reached(domains, copies) / copies, 1.0)
    near = np.where(once > 0, _reached(ranks, copies) / copies, 1.0)
    local_s = (
        (inside - 1.0) / inside * near * size_bytes / (chip.scaleup_bytes_per_s * c.scaleup_ratio)
    )
    far_s = (domains - 1.0) / domains * far * size_bytes / (chip.nic_bytes_per_s * c.nic_ratio)
    latency = c.scaleup_latency_s * (ranks > 1.0) + c.nic_latency_s * (ranks > inside)
    return np.maximum(local_s, far_s) + latency


def _reached(bins: Array, balls: Array) -> Array:
    """Return the expected number of bins hit by balls thrown at random."""
    return bins * (1.0 - (1.0 - 1.0 / bins) ** balls)


def send_s(size_bytes: Array, stride: Array, chip: TrainingChip, c: TrainingConstants) -> Array:
    """Return the seconds of a point-to-point send to the chip `stride` away."""
    near = stride < chip.scaleup_chips
    rate = np.where(
        near, chip.scaleup_bytes_per_s * c.scaleup_ratio, chip.nic_bytes_per_s * c.nic_ratio
    )
    return size_bytes / rate + np.where(near, c.scaleup_latency_s, c.nic_latency_s)
