"""Junos configuration: interfaces, policy, BGP and tenants, as `set` statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpuyard.fabric.fabric import Device, Fabric, Interface, by_name
from gpuyard.fabric.render.junos.cos import cos
from gpuyard.fabric.render.junos.forwarding import forwarding
from gpuyard.fabric.render.releases import header
from gpuyard.fabric.render.sessions import (
    Overlay,
    Session,
    cable_lengths,
    overlay_of,
    sessions_of,
    vrfs_of,
)
from gpuyard.fabric.render.switch_os import File
from gpuyard.fabric.routing import Bfd

POLICY = (
    "set policy-options policy-statement PFE-LB then load-balance per-packet",
    "set policy-options policy-statement TO-ABOVE term no-valley from protocol bgp",
    "set policy-options policy-statement TO-ABOVE term no-valley from community FROM-ABOVE",
    "set policy-options policy-statement TO-ABOVE term no-valley then reject",
    "set policy-options policy-statement TO-ABOVE term own from protocol [ direct bgp ]",
    "set policy-options policy-statement TO-ABOVE term own then accept",
    "set policy-options policy-statement TO-ABOVE term rest then reject",
    "set policy-options policy-statement TO-BELOW term all from protocol [ direct bgp ]",
    "set policy-options policy-statement TO-BELOW term all then community add FROM-ABOVE",
    "set policy-options policy-statement TO-BELOW term all then accept",
    "set policy-options policy-statement TO-BELOW term rest then reject",
)
OVERLAY_POLICY = (
    "set policy-options policy-statement OVERLAY-ABOVE term no-valley from protocol bgp",
    "set policy-options policy-statement OVERLAY-ABOVE term no-valley from community FROM-ABOVE",
    "set policy-options policy-statement OVERLAY-ABOVE term no-valley then reject",
    "set policy-options policy-statement OVERLAY-ABOVE term rest then accept",
    "set policy-options policy-statement OVERLAY-BELOW term all then community add FROM-ABOVE",
    "set policy-options policy-statement OVERLAY-BELOW term all then accept",
    "set policy-options policy-statement TENANT term own from protocol direct",
    "set policy-options policy-statement TENANT term own then accept",
    "set policy-options policy-statement TENANT term hosts from protocol evpn",
    (
        "set policy-options policy-statement TENANT term hosts from route-filter 0.0.0.0/0"
        " prefix-length-range /32-/32"
    ),
    "set policy-options policy-statement TENANT term hosts then accept",
    "set policy-options policy-statement TENANT term rest then reject",
)


def render_junos(fabric: Fabric) -> Iterator[File]:
    """Yield the configuration of every switch, for `load set`."""
    switches = by_name(fabric.switches)
    cables = cable_lengths(fabric.topology, switches)
    for device in switches.values():
        sessions, overlay = sessions_of(device), overlay_of(fabric, device, switches)
        lines = [header("junos"), f"set system host-name {device.name}"]
        if fabric.lossless.pfc.priorities:
            lines.append("set chassis fpc 0 traffic-manager buffer-monitor-enable")
        lines += _interfaces(fabric, device)
        lines += forwarding(fabric, device)
        lines += _policy(fabric, sessions)
        lines += cos(fabric.lossless, device, cables)
        lines += _tenants(fabric, device)
        lines += _options(fabric, device)
        lines += _bgp(fabric, device, sessions, overlay)
        lines += [
            "set protocols lldp port-id-subtype interface-name",
            "set protocols lldp interface all",
            "set protocols rstp disable",
        ]
        yield File(path=f"switches/{device.name}/junos.conf", text="\n".join(lines) + "\n")


def _interfaces(fabric: Fabric, device: Device) -> Iterator[str]:
    routing = fabric.routing
    yield from _breakouts(device.interfaces)
    for port in device.interfaces:
        start = f"set interfaces {port.port}"
        ip_mtu = routing.host_mtu_bytes if port.peer_role == "server" else routing.ip_mtu_bytes
        yield f'{start} description "{port.description}"'
        yield f"{start} mtu {port.mtu_bytes}"
        yield f"{start} unit 0 family inet mtu {ip_mtu}"
        if port.address:
            yield f"{start} unit 0 family inet address {port.address}"
        else:  # link-local IPv6 needs no address
            yield f"{start} unit 0 family inet6 mtu {ip_mtu}"
    yield f"set interfaces lo0 unit 0 family inet address {device.loopback}/32"


def _breakouts(ports: Sequence[Interface]) -> Iterator[str]:
    parts: dict[str, tuple[int, float]] = {}
    for port in ports:
        cage, mark, part = port.port.partition(":")
        if mark:
            parts[cage] = (int(part) + 1, port.speed_bits_per_s)
    ways = max((ways for ways, _ in parts.values()), default=0)
    for cage, (_, speed) in parts.items():
        yield f"set interfaces {cage} number-of-sub-ports {ways}"
        yield f"set interfaces {cage} speed {round(speed / 1e9)}g"


def _policy(fabric: Fabric, sessions: Sequence[Session]) -> Iterator[str]:
    yield f"set policy-options community FROM-ABOVE members {fabric.routing.from_above}"
    yield from POLICY
    if fabric.vrfs:
        yield from OVERLAY_POLICY
    if fabric.routing.unnumbered:
        for side in sorted({session.side for session in sessions}):
            numbers = sorted({session.peer_asn for session in sessions if session.side == side})
            for low, high in _ranges(numbers):
                yield f"set policy-options as-list {side.upper()} members {low}-{high}"


def _ranges(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    start = previous = numbers[0]
    for number in numbers[1:]:
        if number != previous + 1:
            yield start, previous
            start = number
        previous = number
    yield start, previous


def _options(fabric: Fabric, device: Device) -> Iterator[str]:
    yield f"set routing-options router-id {device.loopback}"
    yield f"set routing-options autonomous-system {device.asn}"
    yield "set routing-options graceful-restart"
    yield "set routing-options forwarding-table export PFE-LB"
    yield "set routing-options forwarding-table ecmp-fast-reroute"
    if fabric.vrfs and device.role == "leaf":
        yield "set routing-options forwarding-table chained-composite-next-hop ingress evpn"


def _bgp(
    fabric: Fabric, device: Device, sessions: Sequence[Session], overlay: Sequence[Overlay]
) -> Iterator[str]:
    for side in sorted({session.side for session in sessions}):
        start = f"set protocols bgp group {side.upper()}"
        yield from _group(start, fabric.routing.bfd)
        yield f"{start} export TO-{side.upper()}"
        members = [session for session in sessions if session.side == side]
        if fabric.routing.unnumbered:
            yield from _discovered(start, side.upper(), members)
            continue
        yield f"{start} family inet unicast"
        for session in members:
            yield f"{start} neighbor {session.peer_address} description {session.peer}"
            yield f"{start} neighbor {session.peer_address} local-address {session.local_address}"
            yield f"{start} neighbor {session.peer_address} peer-as {session.peer_asn}"
    if fabric.routing.overlay_bfd is not None:
        yield from _overlay(device, overlay, fabric.routing.overlay_bfd)
    yield "set protocols bgp log-updown"
    yield "set protocols bgp graceful-restart dont-help-shared-fate-bfd-down"
    yield "set protocols bgp multipath"
    if fabric.lossless.balancing.mode == "global":
        mode = "load-balancer-only" if device.role == "leaf" else "helper-only"
        yield f"set protocols bgp global-load-balancing {mode}"


def _group(start: str, bfd: Bfd) -> Iterator[str]:
    yield f"{start} type external"
    yield f"{start} multipath multiple-as"
    yield f"{start} bfd-liveness-detection minimum-interval {round(bfd.interval_s * 1e3)}"
    yield f"{start} bfd-liveness-detection multiplier {bfd.multiplier}"


def _discovered(start: str, group: str, members: Sequence[Session]) -> Iterator[str]:
    yield f"{start} family inet unicast extended-nexthop"
    yield f"{start} family inet6 unicast"
    yield f"{start} dynamic-neighbor {group} peer-auto-discovery family inet6 ipv6-nd"
    for session in members:
        yield f"{start} dynamic-neighbor {group} peer-auto-discovery interface {session.port}.0"
    yield f"{start} peer-as-list {group}"
    for session in members:
        yield f"set protocols router-advertisement interface {session.port}.0"


def _overlay(device: Device, overlay: Sequence[Overlay], bfd: Bfd) -> Iterator[str]:
    # EVPN between loopbacks; spines and cores keep the leaf as next hop.
    for side in sorted({session.side for session in overlay}):
        start = f"set protocols bgp group OVERLAY-{side.upper()}"
        yield from _group(start, bfd)
        yield f"{start} multihop ttl 1"
        yield f"{start} multihop no-nexthop-change"
        yield f"{start} local-address {device.loopback}"
        yield f"{start} family evpn signaling loops 2"
        yield f"{start} export OVERLAY-{side.upper()}"
        yield f"{start} vpn-apply-export"
        for session in overlay:
            if session.side == side:
                yield f"{start} neighbor {session.peer_address} description {session.peer}-overlay"
                yield f"{start} neighbor {session.peer_address} peer-as {session.peer_asn}"


def _tenants(fabric: Fabric, device: Device) -> Iterator[str]:
    by_vrf: Mapping[str, list[Interface]] = vrfs_of(fabric, device)
    for vrf in fabric.vrfs:
        if vrf.name not in by_vrf:
            continue
        start = f"set routing-instances {vrf.name}"
        yield f"{start} instance-type vrf"
        yield f"{start} routing-options graceful-restart"
        yield f"{start} routing-options multipath"
        yield f"{start} protocols evpn ip-prefix-routes advertise direct-nexthop"
        yield f"{start} protocols evpn ip-prefix-routes encapsulation vxlan"
        yield f"{start} protocols evpn ip-prefix-routes vni {vrf.vni}"
        yield f"{start} protocols evpn ip-prefix-routes export TENANT"
        for port in by_vrf[vrf.name]:
            yield f"{start} interface {port.port}.0"
        yield f"{start} route-distinguisher {vrf.route_distinguisher(device)}"
        yield f"{start} vrf-target {vrf.route_target}"
