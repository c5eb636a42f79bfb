"""NCCL collective time: step latency, transfer at the slowest link, pipeline fill latency.

    time = min over algorithms and protocols of  latency + transfer + fill

LL (low latency) sends small messages with a flag in every word: little latency, and a window of
bytes in flight that bounds its rate. Simple sends chunks: more latency, the full rate. The steps of
each algorithm and most latencies are NCCL's own tuner's (src/graph/tuning.cc); rates are line rates
times the ratio that measurements reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from gpuyard.simulate.collectives.bus import bus_factor
from gpuyard.simulate.collectives.constants import NcclConstants

Floats = npt.NDArray[np.float64]
Technology = Literal["rdma", "tcpxo", "tcpx", "efa", "efa1", "none"]
Generation = Literal[
    "ampere", "hopper", "blackwell", "unnamed"
]  # unnamed: from tables that do not state their chip

SERVER_CHIPS = 8  # of the servers that the fill was fitted on


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTopology:
    """The ranks of a collective: scale-up domains, chips per domain, links in and between them."""

    domains: int
    domain_chips: int
    generation: Generation
    scale_up_bytes_per_s: float  # line rate, one way, per chip
    nic_bytes_per_s: float  # line rate, one way, per chip
    technology: Technology
    nvls: bool = True  # NVLink SHARP is not switched off

    @property
    def ranks(self) -> int:
        return self.domains * self.domain_chips

    @property
    def sums_in_switch(self) -> bool:
        """NVLink SHARP: the switch adds and copies; NCCL uses rings for four chips or fewer."""
        return self.nvls and self.generation in ("hopper", "blackwell") and self.domain_chips > 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CollectiveTiming:
    """Seconds of a collective for each size, the parts that add up to them, and what was chosen."""

    latency_s: Floats
    transfer_s: Floats
    fill_s: Floats
    choice: npt.NDArray[np.int64]
    names: tuple[str, ...]  # of the choices: algorithm and protocol

    @property
    def time_s(self) -> Floats:
        return self.latency_s + self.transfer_s + self.fill_s


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Way:
    name: str
    latency_s: float
    bytes_per_s: float  # algorithm bandwidth: size over time
    fill_s: float = (
        0.0  # the pipeline's own time: it is filled in chunks of the best size, up to the largest
    )


def collective_time(
    cluster: RankTopology, collective: str, size_bytes: Floats, c: NcclConstants, only: str = ""
) -> CollectiveTiming:
    """Predict the time for each size (as nccl-tests counts it); `only` names an algorithm."""
    ways = [way for way in _ways(cluster, collective, c) if way.name.startswith(only)]
    assert ways, f"no {only} {collective}"
    size = np.atleast_1d(np.asarray(size_bytes, dtype=np.float64))
    latency = np.array([[way.latency_s] for way in ways]) + 0.0 * size
    transfer = size / np.array([[way.bytes_per_s] for way in ways])
    depth = np.array([[way.fill_s] for way in ways])
    fill = np.minimum(np.sqrt(depth * transfer), c.get("fill_limit") * depth)
    choice = np.argmin(latency + transfer + fill, axis=0)
    at = (choice, np.arange(len(size)))
    return CollectiveTiming(
        latency_s=latency[at],
        transfer_s=transfer[at],
        fill_s=fill[at],
        choice=choice,
        names=tuple(way.name for way in ways),
    )


def _ways(cluster: RankTopology, collective: str, c: NcclConstants) -> list[_Way]:
    if collective == "all-reduce":
        ways = [*_ring(cluster, collective, c), *_tree(cluster, c)]
        return [*ways, _switched(cluster, c)] if cluster.sums_in_switch else ways
    if collective == "all-to-all":
        return [_exchange(cluster, c)]
    if collective in ("send", "broadcast"):
        return [_send(cluster, c)]
    return _ring(cluster, collective, c)


def _hop_s(cluster: RankTopology, c: NcclConstants) -> float:
    return c.get("hop_s", cluster.technology)


def _nic_bytes_per_s(cluster: RankTopology, c: NcclConstants) -> float:
    """What the NICs of a domain reach together."""
    return cluster.domain_chips * cluster.nic_bytes_per_s * c.get("nic_ratio", cluster.technology)


def _ring_bytes_per_s(cluster: RankTopology, c: NcclConstants) -> float:
    """Rate of a rank in rings: NVLink inside, all NICs of the domain between, one ring per NIC."""
    inside = cluster.scale_up_bytes_per_s * c.get("ring_ratio", cluster.generation)
    if cluster.domains == 1:
        return inside
    between = _nic_bytes_per_s(cluster, c)
    return between if cluster.domain_chips == 1 else min(inside, between)


def _ring(cluster: RankTopology, collective: str, c: NcclConstants) -> list[_Way]:
    """Steps of a ring: n - 1 pieces per rank, twice for an all-reduce; hops between servers."""
    n, m = cluster.ranks, cluster.domains
    times = 2 if collective == "all-reduce" else 1
    far = times * (m - 1)
    near = times * (n - 1) - far
    rate = _ring_bytes_per_s(cluster, c) / bus_factor(collective, n)
    hop = _hop_s(cluster, c) if m > 1 else 0.0
    quick = c.get("base_ll_s") + near * c.get("step_ll_s") + far * hop
    bulk = c.get("base_simple_s") + near * c.get("step_simple_s") + far * hop
    return [
        _Way(name="ring ll", latency_s=quick, bytes_per_s=_window(cluster, rate, far, c)),
        _Way(name="ring simple", latency_s=bulk + _bulk_s(cluster, c), bytes_per_s=rate),
    ]


def _bulk_s(cluster: RankTopology, c: NcclConstants) -> float:
    """What a network takes to begin with large messages."""
    return c.get("bulk_s", cluster.technology) if cluster.domains > 1 else 0.0


def _window(cluster: RankTopology, rate: float, hops: float, c: NcclConstants) -> float:
    """Rate of the LL protocol: half of the words are flags, one window in flight on each hop."""
    if cluster.domains == 1:
        return c.get("ll_ratio") * rate
    window = c.get("ll_window_bytes", cluster.technology) / (hops * _hop_s(cluster, c))
    return min(c.get("ll_nic_ratio") * rate, window)


def _tree(cluster: RankTopology, c: NcclConstants) -> list[_Way]:
    """Up and down a chain in each server and a double binary tree of servers."""
    m, g = cluster.domains, cluster.domain_chips
    levels = float(np.log2(m)) if m > 1 else 0.0
    inside = (
        cluster.scale_up_bytes_per_s
        * c.get("ring_ratio", cluster.generation)
        * c.get("tree_ratio")
        / 2.0
    )
    rate = min(inside, _nic_bytes_per_s(cluster, c) / _sends(m)) if m > 1 else inside
    hop = 2.0 * levels * _hop_s(cluster, c) if m > 1 else 0.0
    quick = c.get("base_ll_s") + 2 * (g - 1) * c.get("step_ll_s") + hop
    bulk = (
        c.get("base_simple_s")
        + 2 * (g - 1) * c.get("step_simple_s")
        + hop
        + 2.0 * levels * _bulk_s(cluster, c)
    )
    return [
        _Way(
            name="tree ll",
            latency_s=quick,
            bytes_per_s=_window(cluster, rate, 2.0 * max(levels, 1.0), c),
        ),
        _Way(name="tree simple", latency_s=bulk, bytes_per_s=rate, fill_s=c.get("fill_s")),
    ]


def _fill_s(cluster: RankTopology, hops_s: float, c: NcclConstants) -> float:
    """Pipeline fill latency: of the chips of a domain, which share the data, and of the hops."""
    return (c.get("fill_s") + c.get("fill_hops") * hops_s) * cluster.domain_chips / SERVER_CHIPS


def _sends(domains: int) -> float:
    """How often a server of a double binary tree sends the data: once of two, twice from four."""
    return min(2.0, domains / 2.0)


def _switched(cluster: RankTopology, c: NcclConstants) -> _Way:
    """NVLS, and NVLSTree between servers: the switch sums, servers form a double binary tree."""
    m = cluster.domains
    levels = float(np.log2(m)) if m > 1 else 0.0
    rate = cluster.scale_up_bytes_per_s * c.get("nvls_ratio", cluster.generation)
    if m > 1:
        rate = min(rate * c.get("nvls_tree_ratio"), _nic_bytes_per_s(cluster, c) / _sends(m))
    hop = 2.0 * levels * _hop_s(cluster, c) if m > 1 else 0.0
    base = c.get("base_nvls_tree_s") if m > 1 else c.get("base_nvls_s")
    return _Way(
        name="nvls simple",
        latency_s=base + hop + 2.0 * levels * _bulk_s(cluster, c),
        bytes_per_s=rate,
        fill_s=_fill_s(cluster, hop, c),
    )


def _exchange(cluster: RankTopology, c: NcclConstants) -> _Way:
    """All pairs at once: what leaves the domain goes through each rank's own NIC."""
    n, g = cluster.ranks, cluster.domain_chips
    inside = (g - 1) / n / (cluster.scale_up_bytes_per_s * c.get("exchange_ratio"))
    base = c.get("base_simple_s") + c.get("step_exchange_s") * (n - 1)
    if cluster.domains == 1:
        return _Way(name="pairs", latency_s=base, bytes_per_s=1.0 / inside, fill_s=c.get("fill_s"))
    nic = cluster.nic_bytes_per_s * c.get("nic_ratio", cluster.technology)
    between = (n - g) / n / nic
    latency = base + _hop_s(cluster, c) + _bulk_s(cluster, c)
    return _Way(
        name="pairs",
        latency_s=latency,
        bytes_per_s=1.0 / max(inside, between),
        fill_s=c.get("fill_s"),
    )


def _send(cluster: RankTopology, c: NcclConstants) -> _Way:
    base = c.get("base_simple_s")
    if cluster.domains == 1:
        rate = cluster.scale_up_bytes_per_s * c.get("ring_ratio", cluster.generation)
        return _Way(name="send", latency_s=base, bytes_per_s=rate)
    nic = cluster.nic_bytes_per_s * c.get("nic_ratio", cluster.technology)
    return _Way(
        name="send", latency_s=base + _hop_s(cluster, c) + _bulk_s(cluster, c), bytes_per_s=nic
    )
