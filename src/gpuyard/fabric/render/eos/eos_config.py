"""EOS configuration: QoS, interfaces, policy, BGP and tenants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuyard.fabric.fabric import Device, Fabric, Interface, Vrf, by_name
from gpuyard.fabric.lossless.lossless import Lossless
from gpuyard.fabric.render.releases import header
from gpuyard.fabric.render.sessions import Overlay, Session, overlay_of, sessions_of, vrfs_of
from gpuyard.fabric.render.switch_os import File
from gpuyard.fabric.routing import Bfd

PROFILE = "ROCE"
MAX_PATHS = 600  # the largest ECMP group that EOS configures (schema of Arista AVD)
MAX_MTU_BYTES = 9214  # of an EOS interface: an IP MTU


def render_eos(fabric: Fabric) -> Iterator[File]:
    """Yield the startup configuration of every switch."""
    switches = by_name(fabric.switches)
    for device in switches.values():
        sessions, overlay = sessions_of(device), overlay_of(fabric, device, switches)
        lines = [
            header("eos", "!"),
            "service routing protocols model multi-agent",
            f"hostname {device.name}",
            "no spanning-tree vlan-id 1-4094",
            "lldp run",
            "!",
            *_qos(fabric.lossless),
            *_vrfs(fabric, device),
            *_interfaces(fabric, device),
            "ip routing ipv6 interfaces" if fabric.routing.unnumbered else "ip routing",
            *(f"ip routing vrf {name}" for name in vrfs_of(fabric, device)),
            "!",
            *_policy(fabric),
            *_bgp(fabric, device, sessions, overlay),
            "end",
        ]
        yield File(path=f"switches/{device.name}/eos.cfg", text="\n".join(lines) + "\n")


def _qos(lossless: Lossless) -> Iterator[str]:
    qos, watchdog = lossless.qos, lossless.watchdog
    if not qos.pfc.priorities:
        return
    restore_s = watchdog.restore_s or watchdog.detect_s
    for one in qos.classes:
        if one.dscp:
            marks = " ".join(map(str, one.dscp))
            yield f"qos map dscp {marks} to traffic-class {one.traffic_class}"
            yield f"qos map traffic-class {one.traffic_class} to tx-queue {one.queue}"
    yield from (
        "!",
        f"priority-flow-control pause watchdog default timeout {watchdog.detect_s:g}",
        f"priority-flow-control pause watchdog default polling-interval {watchdog.poll_s:g}",
        f"priority-flow-control pause watchdog default recovery-time {restore_s:g}",
        f"priority-flow-control pause watchdog action {watchdog.action}",
        "!",
        f"qos profile {PROFILE}",
        "   qos trust dscp",
        "   priority-flow-control on",
    )
    for priority in qos.pfc.priorities:
        yield f"   priority-flow-control priority {priority} no-drop"
    yield "   priority-flow-control pause watchdog"
    for one in qos.classes:
        yield "   !"
        yield f"   uc-tx-queue {one.queue}"
        if one.schedule == "strict":
            yield "      priority strict"
            continue
        yield "      no priority"
        yield f"      bandwidth percent {round((one.share_ratio or 0.01) * 100)}"
        if one.lossless:
            low, high = (
                round((size or 0) / 1e3) for size in (qos.ecn.low_bytes, qos.ecn.high_bytes)
            )
            yield (
                f"      random-detect ecn minimum-threshold {low} kbytes maximum-threshold {high}"
                f" kbytes max-mark-probability {round(qos.ecn.mark_ratio * 100)}"
            )
    yield "!"


def _vrfs(fabric: Fabric, device: Device) -> Iterator[str]:
    for name in vrfs_of(fabric, device):
        yield f"vrf instance {name}"
        yield "!"


def _interfaces(fabric: Fabric, device: Device) -> Iterator[str]:
    lossless = fabric.lossless
    for port in device.interfaces:
        yield f"interface {port.port}"
        yield f"   description {port.description}"
        yield f"   mtu {_mtu_bytes(fabric, port)}"
        yield f"   speed {_speed(port.speed_bits_per_s)}"
        yield "   no switchport"
        if port.vrf:
            yield f"   vrf {port.vrf}"
        yield f"   ip address {port.address}" if port.address else "   ipv6 enable"
        if lossless.pfc.priorities and (lossless.pfc.scope == "all" or port.peer_role == "server"):
            yield f"   service-profile {PROFILE}"
        yield "!"
    yield from ("interface Loopback0", f"   ip address {device.loopback}/32", "!")
    tenants = vrfs_of(fabric, device)
    if tenants and device.role == "leaf":
        numbers = {vrf.name: vrf.vni for vrf in fabric.vrfs}
        yield from ("interface Vxlan1", "   vxlan source-interface Loopback0")
        yield "   vxlan udp-port 4789"
        yield from (f"   vxlan vrf {name} vni {numbers[name]}" for name in tenants)
        yield "!"


def _mtu_bytes(fabric: Fabric, port: Interface) -> int:
    routing = fabric.routing
    size = routing.host_mtu_bytes if port.peer_role == "server" else routing.ip_mtu_bytes
    return min(size, MAX_MTU_BYTES)


def _speed(bits_per_s: float) -> str:
    # With its lanes of 100 Gb/s: 400g-4.
    gigabits = round(bits_per_s / 1e9)
    return f"{gigabits}g-{gigabits // 100}" if gigabits >= 100 else f"{gigabits}g"


def _policy(fabric: Fabric) -> Iterator[str]:
    mark = fabric.routing.from_above
    yield from (
        f"ip community-list FROM-ABOVE permit {mark}",
        "!",
        "route-map TO-ABOVE deny 10",
        "   match community FROM-ABOVE",
        "!",
        "route-map TO-ABOVE permit 20",
        "!",
        "route-map TO-BELOW permit 10",
        f"   set community {mark} additive",
        "!",
    )


def _group(name: str, side: str, bfd: Bfd) -> Iterator[str]:
    interval = round(bfd.interval_s * 1e3)
    yield f"   neighbor {name} peer group"
    yield f"   neighbor {name} bfd"
    timers = f"interval {interval} min-rx {interval} multiplier {bfd.multiplier}"
    yield f"   neighbor {name} bfd {timers}"
    yield f"   neighbor {name} route-map TO-{side.upper()} out"
    yield f"   neighbor {name} send-community"


def _bgp(
    fabric: Fabric, device: Device, sessions: Sequence[Session], overlay: Sequence[Overlay]
) -> Iterator[str]:
    sides = sorted({session.side for session in sessions})
    paths = min(max(fabric.routing.multipath_count, 1), MAX_PATHS)
    yield f"router bgp {device.asn}"
    yield f"   router-id {device.loopback}"
    yield "   no bgp default ipv4-unicast"
    yield f"   maximum-paths {paths} ecmp {paths}"
    for side in sides:
        yield from _group(side.upper(), side, fabric.routing.bfd)
    overlay_sides = sorted({session.side for session in overlay})
    for side in overlay_sides:
        name = f"OVERLAY-{side.upper()}"
        yield from _group(name, side, fabric.routing.overlay_bfd or fabric.routing.bfd)
        yield f"   neighbor {name} update-source Loopback0"
        yield f"   neighbor {name} ebgp-multihop 2"
        if device.role != "leaf":
            yield f"   neighbor {name} next-hop-unchanged"
    for session in sessions:
        group = session.side.upper()
        if session.peer_address is None:
            peer = f"neighbor interface {session.port} peer-group {group}"
            yield f"   {peer} remote-as {session.peer_asn}"
        else:
            yield f"   neighbor {session.peer_address} peer group {group}"
            yield f"   neighbor {session.peer_address} remote-as {session.peer_asn}"
            yield f"   neighbor {session.peer_address} description {session.peer} {session.port}"
    for one in overlay:
        yield f"   neighbor {one.peer_address} peer group OVERLAY-{one.side.upper()}"
        yield f"   neighbor {one.peer_address} remote-as {one.peer_asn}"
        yield f"   neighbor {one.peer_address} description {one.peer} overlay"
    yield from ("   redistribute connected", "   !", "   address-family ipv4")
    for side in sides:
        yield f"      neighbor {side.upper()} activate"
        if fabric.routing.unnumbered:
            yield f"      neighbor {side.upper()} next-hop address-family ipv6 originate"
    if overlay:
        yield from ("   !", "   address-family evpn")
        yield from (f"      neighbor OVERLAY-{side.upper()} activate" for side in overlay_sides)
    by_vrf = {vrf.name: vrf for vrf in fabric.vrfs}
    for name in vrfs_of(fabric, device):
        yield from _tenant(device, by_vrf[name])
    yield "!"


def _tenant(device: Device, vrf: Vrf) -> Iterator[str]:
    target = vrf.route_target.removeprefix("target:")
    yield from (
        "   !",
        f"   vrf {vrf.name}",
        f"      rd {vrf.route_distinguisher(device)}",
        f"      route-target import evpn {target}",
        f"      route-target export evpn {target}",
        f"      router-id {device.loopback}",
        "      redistribute connected",
    )
