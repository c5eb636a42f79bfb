"""Devices with ASN, loopback and interfaces, from the cabling and the address plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from gpuyard.fabric.address_plan import AddressPlan, dotted, subflow_prefixes
from gpuyard.fabric.clos import Clos
from gpuyard.fabric.clos_fit import ClosFit
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.fabric import Device, Interface
from gpuyard.fabric.names import Names
from gpuyard.fabric.tenants import Owners, owners
from gpuyard.fabric.wiring import Cable
from gpuyard.topology.nodes import Role

Key = tuple[int, ...]
Ports = dict[Key, list[Interface]]
Ends = Callable[[Cable], tuple[str | None, str | None]]  # addresses of the lower and upper end


@dataclass(frozen=True, slots=True, kw_only=True)
class _Positions:
    """Position of a switch among those of its role, in the fabric after growth."""

    leaves: int  # per plane
    spines: int
    cores: int
    leaves_per_stripe: int
    spines_per_pod: int

    @classmethod
    def of(cls, clos: Clos) -> _Positions:
        return cls(
            leaves=clos.final_leaves,
            spines=clos.final_spines,
            cores=clos.cores,
            leaves_per_stripe=clos.leaves_per_stripe,
            spines_per_pod=clos.spines_per_pod,
        )

    def leaf(self, key: Key) -> int:
        stripe, group, plane = key
        return plane * self.leaves + stripe * self.leaves_per_stripe + group

    def spine(self, key: Key) -> int:
        pod, number, plane = key
        return plane * self.spines + pod * self.spines_per_pod + number

    def core(self, key: Key) -> int:
        _, number, plane = key
        return plane * self.cores + number


def devices(
    demand: Demand,
    parts: ClosFit,
    names: Names,
    numbers: AddressPlan,
    cabling: tuple[list[Cable], list[Cable], list[Cable]],
) -> tuple[Device, ...]:
    """Return cores, spines, leaves and servers, each in order."""
    at = _Positions.of(parts.clos)
    servers: Ports = {}
    leaves: Ports = {}
    spines: Ports = {}
    cores: Ports = {}
    to_server, to_spine, to_core = cabling
    routed = demand.technology == "ethernet"
    leaf_asn = {
        key: numbers.leaf_asn + at.leaf(key) for key in {cable.upper_key for cable in to_server}
    }
    spine_asn = {
        key: numbers.spine_asn + at.spine(key) for key in {cable.upper_key for cable in to_spine}
    }
    core_asn = {
        key: numbers.core_asn + at.core(key) for key in {cable.upper_key for cable in to_core}
    }
    none: dict[Key, int] = {}
    mtu_bytes, speed_bits_per_s = demand.fabric_mtu_bytes, demand.link_bits_per_s
    fill = (leaf_asn, spine_asn, core_asn) if routed else (none, none, none)
    leaf = _Side(ports=leaves, role="leaf", mtu_bytes=mtu_bytes, asns=fill[0])
    spine = _Side(ports=spines, role="spine", mtu_bytes=mtu_bytes, asns=fill[1])
    core = _Side(ports=cores, role="core", mtu_bytes=mtu_bytes, asns=fill[2])
    _join(
        to_server,
        _Side(ports=servers, role="server", mtu_bytes=demand.host_mtu_bytes, asns=none),
        replace(leaf, asns=none),
        _server_ends(demand, parts.clos, numbers),
        demand.plane_bits_per_s,
        owners(demand),
    )
    _join(to_spine, leaf, spine, _link_ends(demand, numbers.link), speed_bits_per_s)
    _join(to_core, spine, core, _link_ends(demand, numbers.core_link), speed_bits_per_s)
    builder = _DeviceBuilder(demand=demand, parts=parts, names=names, numbers=numbers, at=at)
    return (
        *(builder.upper("core", key, cores[key]) for key in sorted(cores, key=at.core)),
        *(builder.upper("spine", key, spines[key]) for key in sorted(spines, key=at.spine)),
        *(builder.leaf(key, leaves[key]) for key in sorted(leaves, key=at.leaf)),
        *(builder.server(key, servers[key]) for key in sorted(servers)),
    )


def _server_ends(demand: Demand, clos: Clos, numbers: AddressPlan) -> Ends:
    # The leaf has the even address of each pair. The pairs of a leaf are one block, so that one
    # prefix covers them; Juniper's published designs number the rails of a server in order.
    per_stripe, rails, lanes = clos.leaf.servers, clos.rails, clos.leaf.rails
    at = _Positions.of(clos)
    if demand.technology != "ethernet":
        return _no_address

    def _ends(cable: Cable) -> tuple[str | None, str | None]:
        stripe, place = divmod(cable.lower_key[0], per_stripe)
        if numbers.leaf_block is None:
            pair = (cable.plane * per_stripe + place) * rails + cable.rail
            even = numbers.server + stripe * numbers.stripe_block + 2 * pair
        else:
            pair = place * lanes + cable.rail % lanes
            even = numbers.server + at.leaf(cable.upper_key) * numbers.leaf_block + 2 * pair
        return dotted(even + 1), dotted(even)

    return _ends


def _link_ends(demand: Demand, first: int) -> Ends:
    # The lower switch has the even address of each pair.
    if demand.technology != "ethernet" or demand.addressing == "unnumbered":
        return _no_address
    return lambda cable: (dotted(first + 2 * cable.index), dotted(first + 2 * cable.index + 1))


def _no_address(_: Cable) -> tuple[None, None]:
    return None, None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """Devices of one role at one end of cables: their interfaces so far, and AS numbers."""

    ports: Ports
    role: Role
    mtu_bytes: int
    asns: dict[Key, int]


def _join(
    cables: Iterable[Cable],
    lower: _Side,
    upper: _Side,
    ends: Ends,
    speed_bits_per_s: float,
    tenants: Owners | None = None,
) -> None:
    has_rails = lower.role == "server"
    for cable in cables:
        low, high = ends(cable)
        rail = cable.rail if has_rails else None
        lower.ports.setdefault(cable.lower_key, []).append(
            Interface(
                port=cable.lower.port,
                peer=cable.upper,
                peer_role=upper.role,
                speed_bits_per_s=speed_bits_per_s,
                mtu_bytes=lower.mtu_bytes,
                peer_asn=upper.asns.get(cable.upper_key),
                address=low and f"{low}/31",
                peer_address=high,
                rail=rail,
                plane=cable.plane,
            )
        )
        upper.ports.setdefault(cable.upper_key, []).append(
            Interface(
                port=cable.upper.port,
                peer=cable.lower,
                peer_role=lower.role,
                speed_bits_per_s=speed_bits_per_s,
                mtu_bytes=upper.mtu_bytes,
                peer_asn=lower.asns.get(cable.lower_key),
                address=high and f"{high}/31",
                peer_address=low,
                rail=rail,
                plane=cable.plane,
                vrf=tenants.get((cable.lower_key[0], cable.rail)) if tenants else None,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeviceBuilder:
    demand: Demand
    parts: ClosFit
    names: Names
    numbers: AddressPlan
    at: _Positions

    @property
    def os(self) -> str | None:
        return self.parts.os if self.demand.technology == "ethernet" else None

    def _plane(self, plane: int) -> int | None:
        return plane if self.demand.planes > 1 else None

    def _number(self, first: int, position: int) -> int | None:
        return first + position if self.demand.technology == "ethernet" else None

    def _loopback(self, first: int, position: int) -> str | None:
        return dotted(first + position) if self.demand.technology == "ethernet" else None

    def upper(self, role: Role, key: Key, ports: list[Interface]) -> Device:
        first, number, plane = key
        spine = role == "spine"
        switch = self.parts.spine if spine else self.parts.core
        assert switch is not None
        position = self.at.spine(key) if spine else self.at.core(key)
        return Device(
            name=self.names.spine(first, number, plane)
            if spine
            else self.names.core(number, plane),
            role=role,
            interfaces=tuple(ports),
            model=switch.name,
            os=self.os,
            plane=self._plane(plane),
            asn=self._number(self.numbers.spine_asn if spine else self.numbers.core_asn, position),
            loopback=self._loopback(
                self.numbers.spine_loopback if spine else self.numbers.core_loopback, position
            ),
            rack=self.names.upper_rack(role, position, switch.chassis),
        )

    def leaf(self, key: Key, ports: list[Interface]) -> Device:
        stripe, group, plane = key
        position = self.at.leaf(key)
        return Device(
            name=self.names.leaf(stripe, group, plane),
            role="leaf",
            interfaces=tuple(ports),
            model=self.parts.leaf.name,
            os=self.os,
            asn=self._number(self.numbers.leaf_asn, position),
            loopback=self._loopback(self.numbers.leaf_loopback, position),
            stripe=stripe,
            rail=group if self.parts.clos.leaf.rails == 1 and not self.names.single_leaf else None,
            plane=self._plane(plane),
            rack=self.names.leaf_rack(stripe),
            prefixes=subflow_prefixes(stripe, group, self.demand.subflows),
            server_prefix=self.numbers.leaf_prefix(position),
        )

    def server(self, key: Key, ports: list[Interface]) -> Device:
        number = key[0]
        return Device(
            name=self.names.host(number),
            role="server",
            interfaces=tuple(ports),
            model=self.demand.machine if number >= self.demand.attached_count else None,
            stripe=number // self.parts.clos.leaf.servers,
            rack=self.names.host_rack(number),
        )
