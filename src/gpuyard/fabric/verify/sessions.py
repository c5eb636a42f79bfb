"""BGP sessions that cannot come up because the two ends of a cable are configured differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_interface

from gpuyard.fabric.fabric import Device, Fabric, Interface
from gpuyard.topology.links import End, Link
from gpuyard.topology.nodes import SWITCH_ROLES
from gpuyard.topology.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadSession:
    """A cable between two switches without a BGP session, and why."""

    link: Link
    why: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongAsn:
    """A switch whose AS number differs from the one that all its neighbours expect."""

    device: str
    asn: int | None
    expected_asn: int
    links: tuple[Link, ...]  # of the sessions that stay down because of it


def wrong_asns(
    fabric: Fabric, dead: Sequence[DeadSession], devices: Mapping[str, Device]
) -> tuple[WrongAsn, ...]:
    """Return the switches whose AS number alone explains that their sessions stay down."""
    if fabric.routing.protocol != "ebgp":
        return ()
    if not dead:
        return ()
    down = {frozenset(session.link.ends): session.link for session in dead}
    ports = {
        (device.name, port.port): port for device in devices.values() for port in device.interfaces
    }
    causes = []
    for device in fabric.switches:
        expected: dict[int | None, list[Link]] = {}
        for port in device.interfaces:
            far = ports.get((port.peer.node, port.peer.port))
            if port.peer_role in SWITCH_ROLES and far is not None:
                link = down.get(frozenset((End(node=device.name, port=port.port), port.peer)))
                expected.setdefault(far.peer_asn, []).extend([link] if link else [])
        (asn, links), *others = expected.items() or [(None, [])]
        if not others and asn is not None and asn != device.asn and len(links) > 1:
            causes.append(
                WrongAsn(device=device.name, asn=device.asn, expected_asn=asn, links=tuple(links))
            )
    return tuple(causes)


def dead_sessions(
    fabric: Fabric, topology: Topology, devices: Mapping[str, Device]
) -> Iterator[DeadSession]:
    """Yield the sessions that stay down, each with its reason."""
    ports = {
        (device.name, port.port): port
        for device in devices.values()
        if device.role in SWITCH_ROLES
        for port in device.interfaces
    }
    switches = {node.name for node in topology.nodes if node.role in SWITCH_ROLES}
    for link in topology.links:
        if link.a.node not in switches or link.b.node not in switches:
            continue
        ends = ports.get((link.a.node, link.a.port)), ports.get((link.b.node, link.b.port))
        why = _why(fabric, devices, link, *ends)
        if why:
            yield DeadSession(link=link, why=why[0], fix=why[1])


def _why(
    fabric: Fabric,
    devices: Mapping[str, Device],
    link: Link,
    a: Interface | None,
    b: Interface | None,
) -> tuple[str, str] | None:
    for end, port in ((link.a, a), (link.b, b)):
        if port is None:
            return (
                f"{end.node} has no configuration for port {end.port}",
                "design the fabric again, or move the cable",
            )
    assert a is not None
    assert b is not None
    if fabric.routing.protocol != "ebgp":
        return None
    for end, port, other in ((link.a, a, link.b), (link.b, b, link.a)):
        asn = devices[other.node].asn
        if port.peer_asn != asn:
            expects = f"{end} expects AS {port.peer_asn}, and {other.node} has AS {asn}"
            return expects, "plug the cable as designed, or correct the AS number"
    return None if a.address is None and b.address is None else _address_mismatch(link, a, b)


def _address_mismatch(link: Link, a: Interface, b: Interface) -> tuple[str, str] | None:
    fix = "use addresses of one /31 at both ends"
    if a.address is None or b.address is None:
        bare = link.a if a.address is None else link.b
        return f"{bare} has no address, and the other end has one", fix
    if (
        a.address.partition("/")[0] != b.peer_address
        or b.address.partition("/")[0] != a.peer_address
    ):
        return (
            f"{link.a} has {a.address} and expects {a.peer_address}; {link.b} has {b.address}",
            fix,
        )
    if ip_interface(a.address).network != ip_interface(b.address).network:
        return f"{a.address} and {b.address} are not in one subnet", fix
    return None
