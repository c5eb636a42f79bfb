"""Checks of ASNs and addresses: interfaces match cables, values are unique, pools, MTU, tenants."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from ipaddress import ip_network

from gpuyard.errors import Finding
from gpuyard.fabric.fabric import Interface
from gpuyard.fabric.verify.finding import Check, error
from gpuyard.fabric.verify.subject import ConfiguredFabric

# Headers around the inner IP packet (RFC 7348): Ethernet 14, VXLAN 8, UDP 8, IPv4 20 or IPv6 40.
VXLAN_BYTES = {"ipv4": 50, "unnumbered": 70}
ETHERNET_BYTES = 14


def _devices(subject: ConfiguredFabric) -> Iterator[Finding]:
    ports = {
        (device.name, port.port): port
        for device in subject.fabric.devices
        for port in device.interfaces
    }
    cabled = set()
    for link in subject.topology.links:
        for end, other in ((link.a, link.b), (link.b, link.a)):
            port = ports.get((end.node, end.port))
            cabled.add((end.node, end.port))
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
                    what=f"is configured for {port.speed_bits_per_s / 1e9:g} Gb/s,"
                    f" and its link has {link.speed_bits_per_s / 1e9:g} Gb/s",
                    fix="use one speed at both ends",
                )
    for name, port_name in sorted(ports.keys() - cabled):
        yield error(
            "devices",
            where=f"{name} {port_name}",
            what="is configured and has no cable",
            fix="connect the cable",
        )


def _counts(subject: ConfiguredFabric) -> Iterator[Finding]:
    roles = Counter(node.role for node in subject.topology.nodes)
    size = subject.fabric.size
    pairs = (
        ("servers", subject.fabric.demand.host_count, roles["server"]),
        ("leaves", size.leaves, roles["leaf"]),
        ("spines", size.spines, roles["spine"]),
        ("cores", size.cores, roles["core"]),
    )
    for noun, designed, cabled in pairs:
        if designed != cabled:
            yield error(
                "counts",
                where=noun,
                what=f"the design has {designed}, and {cabled} are cabled",
                fix="connect the missing devices, or correct the design",
            )


def _unique(subject: ConfiguredFabric) -> Iterator[Finding]:
    fabric = subject.fabric
    if fabric.routing.protocol != "ebgp":
        return
    switches = fabric.switches
    yield from _duplicates("AS number", ((device.asn, device.name) for device in switches))
    yield from _duplicates("loopback", ((device.loopback, device.name) for device in switches))
    yield from _duplicates("VNI", ((vrf.vni, vrf.name) for vrf in fabric.vrfs))
    yield from _duplicates("route target", ((vrf.route_target, vrf.name) for vrf in fabric.vrfs))
    yield from _duplicates(
        "route distinguisher",
        (
            (vrf.route_distinguisher(device), f"{device.name} {vrf.name}")
            for device in fabric.of_role("leaf")
            for vrf in fabric.vrfs
        ),
    )
    addresses: list[tuple[str | None, str]] = [
        (device.loopback, device.name) for device in switches
    ]
    addresses += [
        (port.address.partition("/")[0], f"{device.name} {port.port}")
        for device in fabric.devices
        for port in device.interfaces
        if port.address
    ]
    yield from _duplicates("address", addresses)


def _duplicates(noun: str, pairs: Iterable[tuple[Hashable, str]]) -> Iterator[Finding]:
    seen: dict[Hashable, str] = {}
    for value, where in pairs:
        if value is None:
            yield error("unique", where=where, what=f"has no {noun}", fix=f"assign a {noun}")
        elif value in seen:
            yield error(
                "unique",
                where=where,
                what=f"has {noun} {value}, which {seen[value]} also has",
                fix=f"assign a unique {noun} to each",
            )
        else:
            seen[value] = where


def _pools(subject: ConfiguredFabric) -> Iterator[Finding]:
    fabric, pools = subject.fabric, subject.fabric.demand.pools
    if fabric.routing.protocol != "ebgp":
        return
    ranges: list[tuple[str, int, int]] = []
    for role in ("spine", "leaf", "core"):
        numbers = sorted(
            device.asn
            for device in fabric.switches
            if device.role == role and device.asn is not None
        )
        if numbers:
            ranges.append((role, numbers[0], numbers[-1]))
    for (one, low, high), (other, first, last) in itertools.combinations(ranges, 2):
        if low <= last and first <= high:
            yield error(
                "pools",
                where=f"AS numbers of {one} and {other}",
                what=f"{low}–{high} and {first}–{last} overlap",
                fix="start one pool after the end of the other, with room to grow",
            )
    if pools.server and pools.link:
        server, link = (ip_network(text, strict=False) for text in (pools.server, pools.link))
        if server.version == link.version and server.overlaps(link):
            yield error(
                "pools",
                where="server and link",
                what=f"{server} and {link} overlap",
                fix="use a separate prefix for each",
            )
    yield from _loopbacks_in_links(subject)


def _loopbacks_in_links(subject: ConfiguredFabric) -> Iterator[Finding]:
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
                    what=f"its loopback {device.loopback} is in the subnet of a link",
                    fix="use a separate pool for loopbacks",
                )


def _mtu(subject: ConfiguredFabric) -> Iterator[Finding]:
    fabric, routing = subject.fabric, subject.fabric.routing
    if routing.protocol != "ebgp":
        return
    extra = VXLAN_BYTES[fabric.demand.addressing] if fabric.vrfs else 0
    if routing.host_mtu_bytes + extra > routing.ip_mtu_bytes:
        headers = f" and {extra} of encapsulation" if extra else ""
        yield error(
            "mtu",
            where="servers",
            what=f"send packets of {routing.host_mtu_bytes} bytes{headers},"
            f" and links between switches carry {routing.ip_mtu_bytes}",
            fix=f"use at most {routing.ip_mtu_bytes - extra} on the servers,"
            " or a larger fabric MTU",
        )
    ports: dict[tuple[str, str], Interface] = {
        (device.name, port.port): port for device in fabric.devices for port in device.interfaces
    }
    below = {device.name for device in fabric.devices if device.role == "server"}
    for (name, port_name), port in ports.items():
        far = ports.get((port.peer.node, port.peer.port))
        if name in below:
            continue
        inner = (
            routing.host_mtu_bytes
            if port.peer.node in below
            else routing.ip_mtu_bytes + ETHERNET_BYTES
        )
        if port.mtu_bytes < inner:
            yield error(
                "mtu",
                where=f"{name} {port_name}",
                what=f"has an MTU of {port.mtu_bytes} bytes, and must carry {inner}",
                fix="raise the MTU of the port",
            )
        if far is not None and port.peer.node not in below and far.mtu_bytes != port.mtu_bytes:
            yield error(
                "mtu",
                where=f"{name} {port_name}",
                what=f"has an MTU of {port.mtu_bytes} bytes, and its far end {far.mtu_bytes}",
                fix="use one MTU at both ends: larger packets are dropped, not fragmented",
            )


def _tenants(subject: ConfiguredFabric) -> Iterator[Finding]:
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
                    what=f'is in "{port.vrf}", which is not a VRF of this fabric',
                    fix="use an existing VRF",
                )
    for server, tables in of_server.items():
        if fabric.demand.tenancy == "server" and len(tables) > 1:
            names = ", ".join(sorted(str(name) for name in tables))
            yield error(
                "tenants",
                where=server,
                what=f"its ports are in several VRFs: {names}",
                fix="put all rails of a server into the VRF of one tenant",
            )


CHECKS: tuple[Check[ConfiguredFabric], ...] = (
    Check(
        name="devices",
        verifies="every cable ends in a configured interface of its speed, at both ends",
        find=_devices,
    ),
    Check(
        name="counts",
        verifies="the numbers of cabled servers and switches match the design",
        find=_counts,
    ),
    Check(
        name="unique",
        verifies="AS numbers, addresses, route distinguishers and VNIs are unique",
        find=_unique,
    ),
    Check(name="pools", verifies="pools of AS numbers and addresses do not overlap", find=_pools),
    Check(
        name="mtu", verifies="packets of the servers fit every link, with encapsulation", find=_mtu
    ),
    Check(
        name="tenants",
        verifies="every server port is in the VRF of its tenant",
        find=_tenants,
    ),
)
