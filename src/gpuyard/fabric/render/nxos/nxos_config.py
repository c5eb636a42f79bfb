"""NX-OS configuration: features, interfaces, policy, BGP and tenants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuyard.fabric.fabric import Device, Fabric, Interface, Vrf, by_name
from gpuyard.fabric.render.nxos.nxos_qos import (
    CLASSIFIER,
    MAX_MTU_BYTES,
    nxos_balancing,
    nxos_qos,
)
from gpuyard.fabric.render.releases import header
from gpuyard.fabric.render.sessions import Overlay, Session, overlay_of, sessions_of, vrfs_of
from gpuyard.fabric.render.switch_os import File
from gpuyard.fabric.routing import Bfd

MAX_PATHS = 128  # of NX-OS on Nexus 9000
MAX_BFD_MS = 999


def render_nxos(fabric: Fabric) -> Iterator[File]:
    """Yield the startup configuration of every switch."""
    switches = by_name(fabric.switches)
    for device in switches.values():
        sessions, overlay = sessions_of(device), overlay_of(fabric, device, switches)
        lines = [
            header("nxos", "!"),
            f"hostname {device.name}",
            *_features(fabric),
            *_breakouts(device.interfaces),
            *nxos_qos(fabric.lossless),
            *nxos_balancing(fabric, device),
            *_bfd(fabric),
            *_policy(fabric, device),
            *_vrfs(fabric, device),
            *_interfaces(fabric, device),
            *_bgp(fabric, device, sessions, overlay),
        ]
        yield File(path=f"switches/{device.name}/nxos.cfg", text="\n".join(lines) + "\n")


def _features(fabric: Fabric) -> Iterator[str]:
    yield from ("feature bgp", "feature bfd", "feature lldp")
    if fabric.vrfs:
        yield from ("feature nv overlay", "feature vn-segment-vlan-based", "nv overlay evpn")


def _breakouts(ports: Sequence[Interface]) -> Iterator[str]:
    parts: dict[str, tuple[int, float]] = {}
    for port in ports:
        _, cage, *part = port.port.split("/")
        if part:
            parts[cage] = (int(part[0]), port.speed_bits_per_s)
    ways = max((count for count, _ in parts.values()), default=0)
    for cage, (_, speed_bits_per_s) in parts.items():
        kind = f"{round(speed_bits_per_s / 1e9)}g-{ways}x"
        yield f"interface breakout module 1 port {cage} map {kind}"


def _bfd(fabric: Fabric) -> Iterator[str]:
    yield f"bfd {_timers(fabric.routing.bfd)}"
    if fabric.routing.overlay_bfd is not None:
        yield f"bfd multihop {_timers(fabric.routing.overlay_bfd)}"


def _timers(bfd: Bfd) -> str:
    # NX-OS accepts intervals below one second; the multiplier preserves the detection time.
    interval_ms = min(round(bfd.interval_s * 1e3), MAX_BFD_MS)
    multiplier = max(round(bfd.detect_s * 1e3 / interval_ms), 1)
    return f"interval {interval_ms} min_rx {interval_ms} multiplier {multiplier}"


def _policy(fabric: Fabric, device: Device) -> Iterator[str]:
    mark = fabric.routing.from_above
    yield f"ip community-list standard FROM-ABOVE seq 10 permit {mark}"
    yield "route-map CONNECTED permit 10"
    for prefix in ("", "OVERLAY-") if fabric.vrfs else ("",):
        # Spines and cores keep the leaf as next hop of tenants' routes.
        keep = ["  set ip next-hop unchanged"] if prefix and device.role != "leaf" else []
        yield f"route-map {prefix}TO-ABOVE deny 10"
        yield "  match community FROM-ABOVE"
        yield f"route-map {prefix}TO-ABOVE permit 20"
        yield from keep
        yield f"route-map {prefix}TO-BELOW permit 10"
        yield f"  set community {mark} additive"
        yield from keep


def _vrfs(fabric: Fabric, device: Device) -> Iterator[str]:
    vrfs = {vrf.name: vrf for vrf in fabric.vrfs}
    for name in vrfs_of(fabric, device):
        vrf: Vrf = vrfs[name]
        target = vrf.route_target.removeprefix("target:")
        yield f"vrf context {name}"
        yield f"  vni {vrf.vni} l3"
        yield f"  rd {vrf.route_distinguisher(device)}"
        yield "  address-family ipv4 unicast"
        yield f"    route-target import {target} evpn"
        yield f"    route-target export {target} evpn"


def _interfaces(fabric: Fabric, device: Device) -> Iterator[str]:
    pfc = fabric.lossless.pfc
    for port in device.interfaces:
        yield f"interface {port.port}"
        yield f"  description {port.description}"
        yield "  no switchport"
        if port.vrf:
            yield f"  vrf member {port.vrf}"
        yield f"  mtu {min(port.mtu_bytes, MAX_MTU_BYTES)}"
        if port.port.count("/") == 1:  # a split port has the speed of its map
            yield f"  speed {round(port.speed_bits_per_s / 1e6)}"
        if pfc.priorities and (pfc.scope == "all" or port.peer_role == "server"):
            yield "  priority-flow-control mode on"
            yield "  priority-flow-control watch-dog-interval on"
            yield f"  service-policy type qos input {CLASSIFIER}"
        if port.address:
            yield f"  ip address {port.address}"
        else:  # peers are discovered by router advertisements
            yield "  ip forward"
            yield "  ipv6 address use-link-local-only"
        if port.peer_asn is not None:  # as BFD requires
            yield "  no ip redirects"
        yield "  no shutdown"
    yield from ("interface loopback0", f"  ip address {device.loopback}/32")
    tenants = vrfs_of(fabric, device)
    if tenants and device.role == "leaf":
        numbers = {vrf.name: vrf.vni for vrf in fabric.vrfs}
        yield from (
            "interface nve1",
            "  no shutdown",
            "  host-reachability protocol bgp",
            "  source-interface loopback0",
            *(f"  member vni {numbers[name]} associate-vrf" for name in tenants),
        )


def _bgp(
    fabric: Fabric, device: Device, sessions: Sequence[Session], overlay: Sequence[Overlay]
) -> Iterator[str]:
    paths = min(max(fabric.routing.multipath_count, 1), MAX_PATHS)
    yield f"router bgp {device.asn}"
    yield f"  router-id {device.loopback}"
    yield "  bestpath as-path multipath-relax"
    yield "  address-family ipv4 unicast"
    yield "    redistribute direct route-map CONNECTED"
    yield f"    maximum-paths {paths}"
    if overlay:
        yield "  address-family l2vpn evpn"
        if device.role != "leaf":
            yield "    retain route-target all"
    yield from _templates(sessions, overlay)
    for session in sessions:
        yield f"  neighbor {session.peer_address or session.port}"
        yield f"    inherit peer {session.side.upper()}"
        yield f"    remote-as {session.peer_asn}"
        yield f"    description {session.peer} {session.port}"
    for one in overlay:
        yield f"  neighbor {one.peer_address}"
        yield f"    inherit peer OVERLAY-{one.side.upper()}"
        yield f"    remote-as {one.peer_asn}"
        yield f"    description {one.peer} overlay"
    for name in vrfs_of(fabric, device):
        yield f"  vrf {name}"
        yield "    address-family ipv4 unicast"
        yield "      redistribute direct route-map CONNECTED"


def _templates(sessions: Sequence[Session], overlay: Sequence[Overlay]) -> Iterator[str]:
    for side in sorted({session.side for session in sessions}):
        yield f"  template peer {side.upper()}"
        yield "    bfd"
        yield "    address-family ipv4 unicast"
        yield "      send-community"
        yield f"      route-map TO-{side.upper()} out"
    for side in sorted({session.side for session in overlay}):
        yield f"  template peer OVERLAY-{side.upper()}"
        yield "    bfd multihop"
        yield "    update-source loopback0"
        yield "    ebgp-multihop 2"
        yield "    address-family l2vpn evpn"
        yield "      send-community both"
        yield f"      route-map OVERLAY-TO-{side.upper()} out"
