"""The fabric as designed: its size, what is wired, and every device with its numbers and addresses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from gpuyard.catalog import SwitchOs
from gpuyard.catalog.rows import LinkSpeed
from gpuyard.document import Doc
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.lossless import Lossless
from gpuyard.fabric.routing import Routing
from gpuyard.fabric.size import Size
from gpuyard.topology import TIERS, End, Role, Topology
from gpuyard.units import BYTES

__all__ = ["Device", "Fabric", "Interface", "Rejected", "Vrf", "by_name"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """One end of a cable, as the device that owns it sees it."""

    port: Annotated[str, Doc("as the device's OS names it")]
    peer: End
    peer_role: Role
    speed_bits_per_s: LinkSpeed
    mtu_bytes: Annotated[int, BYTES, Doc("of the port; packets inside may be smaller, see Routing")]
    peer_asn: Annotated[int | None, Doc("None toward a server, and on InfiniBand")] = None
    address: Annotated[str | None, Doc("with its length, 10.200.0.0/31; None: link-local IPv6 alone")] = None
    peer_address: Annotated[str | None, Doc("the other end, without length")] = None
    vrf: Annotated[str | None, Doc("the tenant that the port belongs to; None: the underlay")] = None
    rail: Annotated[int | None, Doc("of a port between a server and a leaf")] = None
    plane: int = 0

    @property
    def description(self) -> str:
        """What stands beside the port in a configuration: where its cable goes."""
        return f"to {self.peer.node} {self.peer.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A switch or a server; interfaces in the order of their physical ports."""

    name: str
    role: Role
    interfaces: tuple[Interface, ...]
    model: Annotated[str | None, Doc("a name under switches, or under machines")] = None
    os: SwitchOs | None = None
    asn: int | None = None
    loopback: Annotated[str | None, Doc("IPv4 address, /32 understood")] = None
    stripe: int | None = None
    rail: int | None = None
    plane: int | None = None
    rack: str = ""
    prefixes: Annotated[tuple[str, ...], Doc("of a leaf with subflows: an IPv6 gateway for each coloured path")] = ()

    @property
    def uplinks(self) -> tuple[Interface, ...]:
        """Interfaces toward switches above; empty on the top tier and on a leaf without spines."""
        return tuple(port for port in self.interfaces if TIERS[port.peer_role] > TIERS[self.role])

    @property
    def downlinks(self) -> tuple[Interface, ...]:
        """Interfaces toward what stands below."""
        return tuple(port for port in self.interfaces if TIERS[port.peer_role] < TIERS[self.role])


@dataclass(frozen=True, slots=True, kw_only=True)
class Vrf:
    """A tenant's routing table, the same on every leaf that serves the tenant."""

    name: str
    vni: int
    route_target: str

    def route_distinguisher(self, device: Device) -> str:
        """What makes this table's routes unique on a device."""
        return f"{device.loopback}:{self.vni}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A choice that was looked at and not taken."""

    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """A designed fabric. `demand` is complete: the switches, OS and shape that were chosen stand in it."""

    demand: Demand
    size: Size
    topology: Topology
    devices: Annotated[tuple[Device, ...], Doc("cores, spines, leaves, then servers; each by number")]
    routing: Routing
    vrfs: tuple[Vrf, ...]
    lossless: Lossless
    reasons: Annotated[tuple[str, ...], Doc("why it is built like this, one sentence a choice")]
    limits: Annotated[tuple[str, ...], Doc("how far it can grow, and what binds then")]
    rejected: tuple[Rejected, ...] = ()

    @property
    def switches(self) -> tuple[Device, ...]:
        """The devices that forward."""
        return tuple(device for device in self.devices if device.role != "server")

    @property
    def servers(self) -> tuple[Device, ...]:
        """The devices that send and receive."""
        return tuple(device for device in self.devices if device.role == "server")

    def of_role(self, role: Role) -> tuple[Device, ...]:
        """The devices of one role, by number."""
        return tuple(device for device in self.devices if device.role == role)

    def device(self, name: str) -> Device:
        """The device of that name."""
        return next(device for device in self.devices if device.name == name)


def by_name(devices: Iterable[Device]) -> dict[str, Device]:
    """The devices by name, for those who look up many."""
    return {device.name: device for device in devices}
