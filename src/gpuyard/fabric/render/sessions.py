"""Who a switch speaks BGP with: the neighbours above and below it, and the loopbacks of the overlay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from gpuyard.fabric.fabric import Device, Fabric, Interface
from gpuyard.topology import TIERS, Role, Topology

__all__ = ["Overlay", "Session", "cable_lengths", "overlay_of", "sessions_of", "vrfs_of"]

Side = Literal["above", "below"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session over one link; without addresses it runs over IPv6 link-local ones."""

    side: Side
    port: str
    peer: str
    peer_asn: int
    local_address: str | None
    peer_address: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """An EVPN session between two loopbacks."""

    side: Side
    peer: str
    peer_asn: int
    peer_address: str


def side_of(device: Device, peer_role: Role) -> Side:
    """Where a peer stands."""
    return "above" if TIERS[peer_role] > TIERS[device.role] else "below"


def sessions_of(device: Device) -> tuple[Session, ...]:
    """The underlay sessions of a switch, one a link, in the order of its ports."""
    return tuple(
        Session(
            side=side_of(device, port.peer_role), port=port.port, peer=port.peer.node, peer_asn=port.peer_asn,
            local_address=port.address.partition("/")[0] if port.address else None, peer_address=port.peer_address,
        )
        for port in device.interfaces
        if port.peer_asn is not None
    )  # fmt: skip


def overlay_of(fabric: Fabric, device: Device, switches: Mapping[str, Device]) -> tuple[Overlay, ...]:
    """The EVPN sessions of a switch, one a neighbour; none without tenants."""
    if not fabric.vrfs:
        return ()
    peers = {port.peer.node: port.peer_role for port in device.interfaces if port.peer_asn is not None}
    return tuple(
        Overlay(
            side=side_of(device, role), peer=name, peer_asn=switches[name].asn or 0,
            peer_address=switches[name].loopback or "",
        )
        for name, role in peers.items()
    )  # fmt: skip


def vrfs_of(fabric: Fabric, device: Device) -> dict[str, list[Interface]]:
    """The ports of each tenant on a switch, in the fabric's order of tenants."""
    ports: dict[str, list[Interface]] = {vrf.name: [] for vrf in fabric.vrfs}
    for port in device.interfaces:
        if port.vrf is not None:
            ports[port.vrf].append(port)
    return {name: found for name, found in ports.items() if found}


def cable_lengths(topology: Topology, nodes: Iterable[str]) -> dict[tuple[str, str], float]:
    """The cable in each port of these nodes, where its length is known."""
    wanted = set(nodes)
    found: dict[tuple[str, str], float] = {}
    for link in topology.links:
        if link.cable_m is not None:
            for end in (link.a, link.b):
                if end.node in wanted:
                    found[end.node, end.port] = link.cable_m
    return found
