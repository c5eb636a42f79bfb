"""Checks of numbers and addresses: devices that match the cables, nothing given twice, pools apart, MTU, tenants."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from ipaddress import ip_network

from gpuyard.fabric.fabric import Interface
from gpuyard.fabric.verify.finding import Check, Finding, error
from gpuyard.fabric.verify.subject import Configured

__all__ = ["CHECKS", "VXLAN_BYTES"]

# Around the inner IP packet: inner Ethernet 14, VXLAN 8, UDP 8, outer IPv4 20 (RFC 7348) or IPv6 40.
VXLAN_BYTES = {"ipv4": 50, "unnumbered": 70}
ETHERNET_BYTES = 14


def _devices(subject: Configured) -> Iterator[Finding]:
    """Every cable ends in an interface on both sides, of its speed."""
    ports = {(device.name, port.port): port for device in subject.fabric.devices for port in device.interfaces}
    used = set()
    for link in subject.topology.links:
        for end, other in ((link.a, link.b), (link.b, link.a)):
            port = ports.get((end.node, end.port))
            used.add((end.node, end.port))
            if port is None:
                yield error(
                    "devices",
                    where=str(end),
                    what="has a cable and no configuration",
                    fix="design the fabric again, or move the cable",
                )
            elif port.peer != other:
                yield error(
                    "devices",
                    where=str(end),
                    what=f"is configured toward {port.peer}, and its cable goes to {other}",
                    fix="plug the cable as designed",
                )
            elif port.speed_bits_per_s != link.speed_bits_per_s:
                yield error(
                    "devices",
                    where=str(end),
                    what=f"is configured for {port.speed_bits_per_s / 1e9:g} Gb/s, and its link has "
                    f"{link.speed_bits_per_s / 1e9:g} Gb/s",
                    fix="use one speed at both ends",
                )
    for name, port_name in sorted(ports.keys() - used):
        yield error(
            "devices", where=f"{name} {port_name}", what="is configured and has no cable", fix="plug in the cable"
        )


def _counts(subject: Configured) -> Iterator[Finding]:
    """As many servers and switches as the fabric says."""
    roles = Counter(node.role for node in subject.topology.nodes)
    size, wanted = subject.fabric.size, subject.fabric.demand.server_count
    pairs = (
        ("servers", wanted, roles["server"]),
        ("leaves", size.leaves, roles["leaf"]),
        ("spines", size.spines, roles["spine"]),
        ("cores", size.cores, roles["core"]),
    )
    for noun, claimed, found in pairs:
        if claimed != found:
            yield error(
                "counts",
                where=noun,
                what=f"the fabric is said to have {claimed}, and {found} are cabled",
                fix="cable what is missing, or state what is there",
            )


def _unique(subject: Configured) -> Iterator[Finding]:
    """No AS number, loopback, address, route distinguisher, VNI or route target is given twice."""
    fabric = subject.fabric
    if fabric.routing.protocol != "ebgp":
        return
    switches = fabric.switches
    yield from _twice("AS number", ((device.asn, device.name) for device in switches))
    yield from _twice("loopback", ((device.loopback, device.name) for device in switches))
    yield from _twice("VNI", ((vrf.vni, vrf.name) for vrf in fabric.vrfs))
    yield from _twice("route target", ((vrf.route_target, vrf.name) for vrf in fabric.vrfs))
    yield from _twice(
        "route distinguisher",
        (
            (vrf.route_distinguisher(device), f"{device.name} {vrf.name}")
            for device in fabric.of_role("leaf")
            for vrf in fabric.vrfs
        ),
    )
    addresses: list[tuple[str | None, str]] = [(device.loopback, device.name) for device in switches]
    addresses += [
        (port.address.partition("/")[0], f"{device.name} {port.port}")
        for device in fabric.devices
        for port in device.interfaces
        if port.address
    ]
    yield from _twice("address", addresses)


def _twice(noun: str, pairs: Iterable[tuple[Hashable, str]]) -> Iterator[Finding]:
    """A finding for each value that two have, or that one lacks."""
    seen: dict[Hashable, str] = {}
    for value, where in pairs:
        if value is None:
            yield error("unique", where=where, what=f"has no {noun}", fix=f"give it a {noun}")
        elif value in seen:
            yield error(
                "unique",
                where=where,
                what=f"has {noun} {value}, as {seen[value]} has",
                fix=f"give each a {noun} of its own",
            )
        else:
            seen[value] = where


def _pools(subject: Configured) -> Iterator[Finding]:
    """Ranges that numbers come from do not touch."""
    fabric, pools = subject.fabric, subject.fabric.demand.pools
    if fabric.routing.protocol != "ebgp":
        return
    ranges: list[tuple[str, int, int]] = []
    for role in ("spine", "leaf", "core"):
        numbers = sorted(device.asn for device in fabric.switches if device.role == role and device.asn is not None)
        if numbers:
            ranges.append((role, numbers[0], numbers[-1]))
    for (one, low, high), (other, first, last) in itertools.combinations(ranges, 2):
        if low <= last and first <= high:
            yield error(
                "pools",
                where=f"AS numbers of {one} and {other}",
                what=f"{low}–{high} and {first}–{last} overlap",
                fix="start one pool behind the end of the other, with room to grow",
            )
    if pools.server and pools.link:
        server, link = (ip_network(text, strict=False) for text in (pools.server, pools.link))
        if server.version == link.version and server.overlaps(link):
            yield error(
                "pools", where="server and link", what=f"{server} and {link} overlap", fix="give each its own prefix"
            )
    yield from _loopbacks_in_links(subject)


def _loopbacks_in_links(subject: Configured) -> Iterator[Finding]:
    """A loopback inside the subnet of a link would be reached over that link only."""
    subnets = {
        ip_network(port.address, strict=False)
        for device in subject.fabric.switches
        for port in device.interfaces
        if port.address
    }
    lengths = {(subnet.version, subnet.prefixlen) for subnet in subnets}
    for device in subject.fabric.switches:
        for version, length in lengths if device.loopback else ():
            own = ip_network(device.loopback or "")
            if own.version == version and own.supernet(new_prefix=length) in subnets:
                yield error(
                    "pools",
                    where=device.name,
                    what=f"its loopback {device.loopback} lies in the subnet of a link",
                    fix="take loopbacks from a pool of their own",
                )


def _mtu(subject: Configured) -> Iterator[Finding]:
    """What a server sends fits, encapsulated, into every link on its way."""
    fabric, routing = subject.fabric, subject.fabric.routing
    if routing.protocol != "ebgp":
        return
    extra = VXLAN_BYTES[fabric.demand.addressing] if fabric.vrfs else 0
    if routing.host_mtu_bytes + extra > routing.ip_mtu_bytes:
        around = f" and {extra} of encapsulation" if extra else ""
        yield error(
            "mtu",
            where="servers",
            what=f"send packets of {routing.host_mtu_bytes} bytes{around}, and links between switches "
            f"pass {routing.ip_mtu_bytes}",
            fix=f"use {routing.ip_mtu_bytes - extra} or less at the servers, or a larger fabric MTU",
        )
    ports: dict[tuple[str, str], Interface] = {
        (device.name, port.port): port for device in fabric.devices for port in device.interfaces
    }
    below = {device.name for device in fabric.devices if device.role == "server"}
    for (name, port_name), port in ports.items():
        far = ports.get((port.peer.node, port.peer.port))
        if name in below:
            continue
        inner = routing.host_mtu_bytes if port.peer.node in below else routing.ip_mtu_bytes + ETHERNET_BYTES
        if port.mtu_bytes < inner:
            yield error(
                "mtu",
                where=f"{name} {port_name}",
                what=f"has an MTU of {port.mtu_bytes} bytes, and must pass {inner}",
                fix="raise the MTU of the port",
            )
        if far is not None and port.peer.node not in below and far.mtu_bytes != port.mtu_bytes:
            yield error(
                "mtu",
                where=f"{name} {port_name}",
                what=f"has an MTU of {port.mtu_bytes} bytes, its far end {far.mtu_bytes}",
                fix="use one MTU at both ends: the larger packets are lost, not cut",
            )


def _tenants(subject: Configured) -> Iterator[Finding]:
    """With tenants, every server port is in one of their tables, and a server is whole where servers are isolated."""
    fabric = subject.fabric
    if not fabric.demand.has_overlay:
        return
    known = {vrf.name for vrf in fabric.vrfs}
    of_server: dict[str, set[str | None]] = {}
    for device in fabric.of_role("leaf"):
        for port in device.downlinks:
            of_server.setdefault(port.peer.node, set()).add(port.vrf)
            if port.vrf is not None and port.vrf not in known:
                yield error(
                    "tenants",
                    where=f"{device.name} {port.port}",
                    what=f'is in "{port.vrf}", which is no VRF of this fabric',
                    fix="use a VRF that is there",
                )
    for server, tables in of_server.items():
        if fabric.demand.tenancy == "server" and len(tables) > 1:
            names = ", ".join(sorted(str(name) for name in tables))
            yield error(
                "tenants",
                where=server,
                what=f"its ports are in several tables: {names}",
                fix="put all rails of a server into one tenant's VRF",
            )


CHECKS: tuple[Check[Configured], ...] = (
    Check(
        name="devices", proves="every cable ends in a configured interface of its speed, at both ends", find=_devices
    ),
    Check(name="counts", proves="as many servers and switches are cabled as the fabric claims", find=_counts),
    Check(name="unique", proves="no AS number, address, distinguisher or VNI is given twice", find=_unique),
    Check(name="pools", proves="ranges of numbers and addresses do not overlap", find=_pools),
    Check(name="mtu", proves="what servers send fits, encapsulated, into every link", find=_mtu),
    Check(name="tenants", proves="every server port is in the table of its tenant, and of no other", find=_tenants),
)
