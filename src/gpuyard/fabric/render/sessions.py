"""BGP sessions of a switch: underlay neighbours above and below, and EVPN overlay sessions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from gpuyard.fabric.fabric import Device, Fabric, Interface
from gpuyard.topology.nodes import TIERS, Role
from gpuyard.topology.topology import Topology

Side = Literal["above", "below"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session over one link; without addresses it uses IPv6 link-local ones."""

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
    """Return whether a peer is above or below a device."""
    return "above" if TIERS[peer_role] > TIERS[device.role] else "below"


def sessions_of(device: Device) -> tuple[Session, ...]:
    """Return the underlay sessions of a switch, one per link, in port order."""
    return tuple(
        Session(
            side=side_of(device, port.peer_role),
            port=port.port,
            peer=port.peer.node,
            peer_asn=port.peer_asn,
            local_address=port.address.partition("/")[0] if port.address else None,
            peer_address=port.peer_address,
        )
        for port in device.interfaces
        if port.peer_asn is not None
    )


def overlay_of(
    fabric: Fabric, device: Device, switches: Mapping[str, Device]
) -> tuple[Overlay, ...]:
    """Return the EVPN sessions of a switch, one per neighbour; none without tenants."""
    if not fabric.vrfs:
        return ()
    peers = {
        port.peer.node: port.peer_role for port in device.interfaces if port.peer_asn is not None
    }
    return tuple(
        Overlay(
            side=side_of(device, role),
            peer=name,
            peer_asn=switches[name].asn or 0,
            peer_address=switches[name].loopback or "",
        )
        for name, role in peers.items()
    )


def vrfs_of(fabric: Fabric, device: Device) -> dict[str, list[Interface]]:
    """Return the ports of each tenant on a switch, in order of tenants."""
    ports: dict[str, list[Interface]] = {vrf.name: [] for vrf in fabric.vrfs}
    for port in device.interfaces:
        if port.vrf is not None:
            ports[port.vrf].append(port)
    return {name: owned for name, owned in ports.items() if owned}


def cable_lengths(topology: Topology, nodes: Iterable[str]) -> dict[tuple[str, str], float]:
    """Return the cable length per port of these nodes, where it is known."""
    wanted = set(nodes)
    lengths: dict[tuple[str, str], float] = {}
    for link in topology.links:
        if link.cable_m is not None:
            for end in (link.a, link.b):
                if end.node in wanted:
                    lengths[end.node, end.port] = link.cable_m
    return lengths
