"""Links and sessions between configured devices, as their addresses imply them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface, ip_address, ip_interface

from gpuyard.fabric.configs.device_config import (
    ConfiguredNeighbour,
    ConfiguredPort,
    DeviceConfig,
)

Address = IPv4Interface | IPv6Interface
MAX_HOSTS = 4  # a /30 or /126 and smaller joins two devices


@dataclass(frozen=True, slots=True, kw_only=True)
class PortAddress:
    """An address on a port of a device."""

    device: DeviceConfig
    port: ConfiguredPort
    address: Address

    @property
    def is_point_to_point(self) -> bool:
        return self.address.network.num_addresses <= MAX_HOSTS

    @property
    def where(self) -> str:
        place = f" ({self.port.where})" if self.port.where else ""
        return f"{self.device.hostname}:{self.port.name}{place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredLinks:
    """The addresses of all devices, the pairs of ports in one subnet, and the loopbacks."""

    ports: tuple[PortAddress, ...]
    pairs: tuple[tuple[PortAddress, PortAddress], ...]
    owners: dict[str, tuple[PortAddress, ...]]  # by address without its length
    loopbacks: dict[str, DeviceConfig]

    def subnet_port(self, device: DeviceConfig, peer: str) -> PortAddress | None:
        """Return the port of a device whose subnet an address is in."""
        address = ip_address(peer)
        return next(
            (one for one in self.ports if one.device is device and address in one.address.network),
            None,
        )


def links_of(devices: Sequence[DeviceConfig]) -> ConfiguredLinks:
    """Return what the addresses of the devices say of their links."""
    ports = tuple(
        PortAddress(device=device, port=port, address=ip_interface(address))
        for device in devices
        for port in device.ports
        for address in port.addresses
        if is_address(address)
    )
    subnets: dict[object, list[PortAddress]] = defaultdict(list)
    owners: dict[str, list[PortAddress]] = defaultdict(list)
    for one in ports:
        owners[str(one.address.ip)].append(one)
        if one.is_point_to_point:
            subnets[one.port.vrf, one.address.network].append(one)
    return ConfiguredLinks(
        ports=ports,
        pairs=tuple(
            (some[0], some[1])
            for some in subnets.values()
            if len(some) == 2 and some[0].device is not some[1].device
        ),
        owners={address: tuple(some) for address, some in owners.items()},
        loopbacks={
            canonical(address): device for device in devices for address in device.loopbacks
        },
    )


def is_address(text: str) -> bool:
    """Return whether a text is an address, and not `dhcp` or a name."""
    try:
        ip_interface(text)
    except ValueError:
        return False
    return True


def canonical(text: str) -> str:
    """Return an address without its length, in one spelling; other texts as they are."""
    return str(ip_interface(text).ip) if is_address(text) else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A neighbour statement whose peer address belongs to another device."""

    device: DeviceConfig
    neighbour: ConfiguredNeighbour
    peer: DeviceConfig

    @property
    def where(self) -> str:
        place = f" ({self.neighbour.where})" if self.neighbour.where else ""
        return f"{self.device.hostname} neighbour {self.neighbour.peer}{place}"

    @property
    def is_met(self) -> bool:
        """Whether the AS number of the peer is one that is expected."""
        asn = self.peer.bgp.asn
        return asn is not None and accepts(self.neighbour.asns, asn, self.device.bgp.asn)


def accepts(asns: Sequence[str], remote: int, own: int | None) -> bool:
    """Return whether a neighbour with this AS number is accepted."""
    for asn in asns:
        low, _, high = asn.partition("-")
        if asn == "external":
            if remote != own:
                return True
        elif low.isdigit() and int(low) <= remote <= int(high or low):
            return True
    return False


def expectations(devices: Sequence[DeviceConfig], links: ConfiguredLinks) -> Iterator[Expectation]:
    """Yield the neighbours whose address belongs to one of the devices."""
    for device in devices:
        for neighbour in device.bgp.neighbours:
            address = canonical(neighbour.peer)
            owned = links.owners.get(address, ())
            peer = owned[0].device if len(owned) == 1 else links.loopbacks.get(address)
            if peer is not None and peer is not device:
                yield Expectation(device=device, neighbour=neighbour, peer=peer)
