"""A designed fabric: its size, topology, and every device with its ASN and addresses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from gpuyard.catalog.rows import LinkSpeed
from gpuyard.document.field_types import Doc
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.lossless.lossless import Lossless
from gpuyard.fabric.routing import Routing
from gpuyard.fabric.size import Size
from gpuyard.topology.links import End
from gpuyard.topology.nodes import TIERS, Role
from gpuyard.topology.topology import Topology
from gpuyard.units import BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """A port of a device, with its configuration and its peer."""

    port: Annotated[str, Doc("the OS's name")]
    peer: End
    peer_role: Role
    speed_bits_per_s: LinkSpeed
    mtu_bytes: Annotated[int, BYTES, Doc("of the port; see Routing for the IP MTU")]
    peer_asn: Annotated[int | None, Doc("None toward a server, and on InfiniBand")] = None
    address: Annotated[
        str | None, Doc("with prefix length, 10.200.0.0/31; None: only link-local IPv6")
    ] = None
    peer_address: Annotated[str | None, Doc("without prefix length")] = None
    vrf: Annotated[str | None, Doc("tenant of the port; None: the underlay")] = None
    rail: Annotated[int | None, Doc("of a port between a server and a leaf")] = None
    plane: int = 0

    @property
    def description(self) -> str:
        """The port description in a configuration: where its cable goes."""
        return f"to {self.peer.node} {self.peer.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A switch or a server; interfaces in the order of their physical ports."""

    name: str
    role: Role
    interfaces: tuple[Interface, ...]
    model: Annotated[str | None, Doc("a name under switches, or under machines")] = None
    os: str | None = None
    asn: int | None = None
    loopback: Annotated[str | None, Doc("IPv4 address, without /32")] = None
    stripe: int | None = None
    rail: int | None = None
    plane: int | None = None
    rack: str = ""
    prefixes: Annotated[
        tuple[str, ...], Doc("of a leaf with subflows: an IPv6 gateway per coloured path")
    ] = ()

    server_prefix: Annotated[
        str | None, Doc("of a leaf: the prefix that holds its server links, and no other leaf's")
    ] = None

    @property
    def uplinks(self) -> tuple[Interface, ...]:
        """Interfaces to higher tiers; empty on the top tier and on a leaf without spines."""
        return tuple(port for port in self.interfaces if TIERS[port.peer_role] > TIERS[self.role])

    @property
    def downlinks(self) -> tuple[Interface, ...]:
        return tuple(port for port in self.interfaces if TIERS[port.peer_role] < TIERS[self.role])


@dataclass(frozen=True, slots=True, kw_only=True)
class Vrf:
    """A tenant's routing table, the same on every leaf that serves the tenant."""

    name: str
    vni: int
    route_target: str

    def route_distinguisher(self, device: Device) -> str:
        return f"{device.loopback}:{self.vni}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedChoice:
    """A switch that was considered and not chosen."""

    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """A designed fabric; its `demand` includes the chosen switches, OS and shape."""

    demand: Demand
    size: Size
    topology: Topology
    devices: Annotated[
        tuple[Device, ...], Doc("cores, spines, leaves, then servers; each by number")
    ]
    routing: Routing
    vrfs: tuple[Vrf, ...]
    lossless: Lossless
    reasons: Annotated[tuple[str, ...], Doc("one sentence per design choice")]
    limits: Annotated[tuple[str, ...], Doc("how far it can grow, and the binding constraint")]
    rejected: tuple[RejectedChoice, ...] = ()

    @property
    def switches(self) -> tuple[Device, ...]:
        return tuple(device for device in self.devices if device.role != "server")

    @property
    def servers(self) -> tuple[Device, ...]:
        return tuple(device for device in self.devices if device.role == "server")

    def of_role(self, role: Role) -> tuple[Device, ...]:
        return tuple(device for device in self.devices if device.role == role)

    def device(self, name: str) -> Device:
        return next(device for device in self.devices if device.name == name)


def by_name(devices: Iterable[Device]) -> dict[str, Device]:
    """Return the devices by name."""
    return {device.name: device for device in devices}
