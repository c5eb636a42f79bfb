"""A designed fabric as a simulated network, with NVLink, buffers and thresholds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.machine_demands import servers_of
from gpuyard.simulate.collectives.timing import Generation, RankTopology, Technology
from gpuyard.simulate.network import Network, from_topology
from gpuyard.simulate.packet.settings import (
    Balance,
    EcnSettings,
    PacketSettings,
    PfcSettings,
    WatchdogSettings,
)
from gpuyard.simulate.sites.named_topologies import NetworkOptions, NetworkSetup
from gpuyard.units import BITS_PER_S, bits_from_bytes, bytes_from_bits, show

GENERATIONS: dict[str, Generation] = {
    "Ampere": "ampere",
    "Hopper": "hopper",
    "Blackwell": "blackwell",
}
TECHNOLOGIES: dict[str, Technology] = {
    "roce": "rdma",
    "infiniband": "rdma",
    "tcpxo": "tcpxo",
    "tcpx": "tcpx",
}
PORT_DELAY_S = 5e-7  # a switch hop; the cable comes on top
SCALE_UP_DELAY_S = 2.5e-7
NVLINK_MACHINE = "dgx-h100"  # whose NVLink is assumed if no machine is named
BALANCES: dict[str, Balance] = {
    "ecmp": "ecmp",
    "flowlet": "flowlet",
    "per-packet": "spray",
    "spray": "spray",
    "adaptive": "adaptive",
    "global": "adaptive",
}


def site_of_fabric(
    fabric: Fabric, catalog: Catalog, wanted: NetworkOptions | None = None
) -> NetworkSetup:
    """Return a designed fabric as a network, with NVLink inside its servers."""
    wanted = wanted or NetworkOptions()
    demand = fabric.demand
    rate, note = scale_up_of(wanted, demand.machine, demand.gpus_per_server, catalog)
    network = from_topology(
        fabric.topology,
        port_delay_s=PORT_DELAY_S if wanted.delay_s is None else wanted.delay_s,
        unknown_cable_m=demand.cables.spine_m,
        scale_up_bits_per_s=rate,
        scale_up_delay_s=SCALE_UP_DELAY_S,
    )
    machine = catalog.machine(demand.machine) if demand.machine else None
    network = _one_domain(
        _one_host_a_nic(network, demand.planes), servers_of(machine) if machine else 1
    )
    size, notes = fabric.size, list[str]()
    label = f"{size.gpus:,} GPUs, {demand.shape}, {demand.leaf}"
    if size.oversubscription_ratio:  # 0 without spines
        label = f"{label}, {size.oversubscription_ratio:.3g}:1"
    return NetworkSetup(
        network=network,
        topology=fabric.topology,
        label=label,
        nccl=nccl_cluster(
            catalog.machine(demand.machine or NVLINK_MACHINE), demand.nic_bits_per_s, rate, catalog
        ),
        packets=_as_designed(fabric, notes),
        packet_notes=tuple(notes),
        notes=(note,) if note else (),
        sums_in_switches=demand.technology == "infiniband",
    )


def _as_designed(fabric: Fabric, notes: list[str]) -> PacketSettings:
    """Buffers, thresholds, watchdog and load balancing of the design; notes assumptions."""
    lossless = fabric.lossless
    plans = [buffer.plan for buffer in lossless.buffers]
    memory = min((plan.buffer_bytes for plan in plans if plan.buffer_bytes), default=None)
    alphas = [plan.alpha for plan in plans if plan.alpha is not None]
    pfc = PfcSettings(alpha_ratio=min(alphas)) if alphas and memory else PfcSettings()
    if plans and not alphas:
        notes.append(
            "the switch's dynamic threshold is not published: PFC pauses at 150 packets of 4096"
            " bytes"
        )
    ecn, low, high = lossless.qos.ecn, lossless.qos.ecn.low_bytes, lossless.qos.ecn.high_bytes
    marks = (
        EcnSettings(kmin_bytes=low, kmax_bytes=high, pmax_ratio=ecn.mark_ratio)
        if low and high and low < high
        else None
    )
    watch = lossless.watchdog
    return PacketSettings(
        buffer_bytes=memory,
        pfc=None if lossless.transport == "lossy" and memory else pfc,
        ecn=marks,
        balance=BALANCES[lossless.balancing.mode],
        watchdog=WatchdogSettings(
            detect_s=watch.detect_s,
            restore_s=watch.restore_s or watch.detect_s,
            poll_s=watch.poll_s,
        ),
    )


def nccl_cluster(
    machine: Machine, nic_bits_per_s: float, scale_up_bits_per_s: float | None, catalog: Catalog
) -> RankTopology | None:
    """Return a server for the NCCL time model; None if no measurement covers it."""
    chip = next((chip for chip in catalog.chips if chip.name == machine.chip), None)
    words = chip.architecture.split() if chip else []
    technology = TECHNOLOGIES.get(machine.network.technology)
    if (
        not words
        or words[0] not in GENERATIONS
        or technology is None
        or scale_up_bits_per_s is None
    ):
        return None
    return RankTopology(
        domains=1,
        domain_chips=max(1, int(machine.chip_count)),
        generation=GENERATIONS[words[0]],
        scale_up_bytes_per_s=bytes_from_bits(scale_up_bits_per_s),
        nic_bytes_per_s=bytes_from_bits(nic_bits_per_s),
        technology=technology,
    )


def scale_up_of(
    wanted: NetworkOptions, machine: str | None, gpus_per_server: int, catalog: Catalog
) -> tuple[float | None, str | None]:
    """Return the scale-up rate per GPU, one direction, and a note on it."""
    if wanted.scale_up_bits_per_s is not None:
        return wanted.scale_up_bits_per_s or None, None
    if gpus_per_server < 2:
        return None, None
    row = catalog.machine(machine or wanted.machine or NVLINK_MACHINE)
    chip = next((chip for chip in catalog.chips if chip.name == row.chip), None)
    if chip is None or chip.scale_up is None:
        return (
            None,
            f"{row.name} has no scale-up link: GPUs of one server communicate over their NICs",
        )
    rate = bits_from_bytes(chip.scale_up.bytes_per_s)
    guessed = machine is None and wanted.machine is None
    note = (
        f"inside a server: NVLink of {row.name}, {show(rate, BITS_PER_S)} per GPU; --scale-up"
        " changes it"
    )
    return rate, note if guessed else None


def _one_host_a_nic(network: Network, planes: int) -> Network:
    """The network in which the ports of one NIC, one on each plane, are one host."""
    if planes == 1:
        return network
    hosts = network.host_count // planes
    node = np.concatenate(
        [np.arange(network.host_count) // planes, np.arange(network.switch_count) + hosts]
    )
    nodes = np.concatenate(
        [np.arange(hosts) * planes, np.arange(network.host_count, network.node_count)]
    )
    return replace(
        network,
        host_count=hosts,
        tier=network.tier[nodes],
        link_from=node[network.link_from].astype(np.int32),
        link_to=node[network.link_to].astype(np.int32),
        names=tuple(network.names[number] for number in nodes),
        server=network.server[nodes[:hosts]],
    )


def _one_domain(network: Network, servers: int) -> Network:
    """The network in which `servers` consecutive servers share a scale-up switch, as in a rack."""
    count = int(network.server.max()) + 1
    first = network.node_count - count  # the switches inside servers come last
    if servers == 1 or not network.names[-1].endswith(" scale-up"):
        return network
    node = np.concatenate([np.arange(first), first + np.arange(count) // servers])
    nodes = np.concatenate([np.arange(first), first + np.arange(0, count, servers)])
    return replace(
        network,
        tier=network.tier[nodes],
        link_from=node[network.link_from].astype(np.int32),
        link_to=node[network.link_to].astype(np.int32),
        names=tuple(network.names[number] for number in nodes),
        server=(network.server // servers).astype(np.int32),
    )
