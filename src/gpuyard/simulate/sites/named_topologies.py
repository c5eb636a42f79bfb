"""Named topologies: fat tree, leaf-spine, rails, single switch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuyard.errors import InputError, closest_match
from gpuyard.simulate.network import Network, fat_tree, leaf_spine, single_switch
from gpuyard.simulate.packet.settings import PacketSettings
from gpuyard.units import BITS_PER_S, show

if TYPE_CHECKING:  # a network by its shape starts without collectives or topologies
    from gpuyard.simulate.collectives.timing import RankTopology
    from gpuyard.topology.topology import Topology


SHAPES = ("fat-tree", "leaf-spine", "rails", "switch")
DESIGNED = "rails"  # the shape of which the catalog knows more than its name
LINK_DELAY_S = 1e-6  # the default of csg-htsim
NIC_BITS_PER_S = 400e9
LEAF_HOSTS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOptions:
    """Which network to simulate: one designed for a number of GPUs, or a named topology."""

    gpus: int | None = None
    machine: str | None = None
    leaf: str | None = None
    spine: str | None = None
    oversubscription_ratio: float | None = None
    shape: str | None = None
    hosts: int | None = None
    link_bits_per_s: float | None = None
    delay_s: float | None = None
    gpus_per_server: int | None = None
    scale_up_bits_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class NetworkSetup:
    """A network, and what is known of its switches."""

    network: Network
    label: str
    topology: Topology | None = None  # for drawing; None: made from the network when it is drawn
    nccl: RankTopology | None = None  # its servers as the measured time model of NCCL knows them
    packets: PacketSettings | None = None  # buffers, thresholds and balancing as they were designed
    packet_notes: tuple[str, ...] = ()  # what has to be said of those
    notes: tuple[str, ...] = ()
    sums_in_switches: bool = False  # InfiniBand switches with SHARP


def needs_design(wanted: NetworkOptions) -> bool:
    """Whether the name of a topology alone does not define the network."""
    return wanted.gpus is not None or wanted.shape == DESIGNED


def shaped_site(wanted: NetworkOptions, default_hosts: int | None = None) -> NetworkSetup:
    """A shape by name."""
    hosts = default_hosts if wanted.hosts is None else wanted.hosts
    if hosts is None:
        fix = "add --fabric FILE, --gpus N, or --topology fat-tree --hosts 128"
        raise InputError.one("network", "nothing says how many hosts", fix)
    name = wanted.shape or "fat-tree"
    maker = _MAKERS.get(name)
    if maker is None:
        meant = closest_match(name, SHAPES)
        fix = f'did you mean "{meant}"?' if meant else f"use {', '.join(SHAPES)}"
        raise InputError.one("--topology", f'no topology named "{name}"', fix)
    if hosts < 2:
        raise InputError.one("--hosts", f"{hosts} host sends to nobody", "use 2 or more")
    rate = wanted.link_bits_per_s or NIC_BITS_PER_S
    if rate <= 0:
        raise InputError.one("--link", "a link needs a speed", "write it like 400Gbps")
    network = maker(wanted, hosts, rate, LINK_DELAY_S if wanted.delay_s is None else wanted.delay_s)
    label = f"{name} of {hosts:,} hosts, {show(rate, BITS_PER_S)}"
    return NetworkSetup(network=network, label=label)


def _leaf_spine(wanted: NetworkOptions, hosts: int, rate: float, delay: float) -> Network:
    """Leaves of 32 hosts, as many spines as make it non-blocking, or fewer."""
    per_leaf = min(LEAF_HOSTS, hosts)
    ratio = wanted.oversubscription_ratio or 1.0
    if not 0 < ratio <= per_leaf:
        raise InputError.one(
            "--oversubscription", f"{ratio:g} leaves no spine", f"use 1 to {per_leaf}"
        )
    spines = max(1, round(per_leaf / ratio))
    return leaf_spine(
        hosts, hosts_per_leaf=per_leaf, spines=spines, rate_bits_per_s=rate, delay_s=delay
    )


_MAKERS: dict[str, Callable[[NetworkOptions, int, float, float], Network]] = {
    "fat-tree": lambda _, hosts, rate, delay: fat_tree(hosts, rate_bits_per_s=rate, delay_s=delay),
    "switch": lambda _, hosts, rate, delay: single_switch(
        hosts, rate_bits_per_s=rate, delay_s=delay
    ),
    "leaf-spine": _leaf_spine,
}
