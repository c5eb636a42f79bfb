"""frr.conf: interfaces, policy and BGP, for plain Linux and SONiC."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpuyard.fabric.fabric import Device, Fabric
from gpuyard.fabric.render.releases import header
from gpuyard.fabric.render.sessions import Overlay, Session, overlay_of, sessions_of, vrfs_of
from gpuyard.fabric.routing import Bfd

MAX_PATHS = 256  # the limit of FRR in Debian and SONiC
ABOVE, BELOW = "ABOVE", "BELOW"


def frr_conf(
    fabric: Fabric,
    device: Device,
    switches: Mapping[str, Device],
    *,
    addresses: bool = True,
    loopback: str = "lo",
    vrf_prefix: str = "",
    os: str = "frr",
) -> str:
    """Return frr.conf; `addresses` includes interface addresses, where nothing else sets them."""
    sessions, overlay = sessions_of(device), overlay_of(fabric, device, switches)
    lines = [
        header(os, "!"),
        "frr defaults datacenter",
        f"hostname {device.name}",
        "log syslog informational",
        "service integrated-vtysh-config",
        "!",
    ]
    if addresses:
        lines += _interfaces(device)
    lines += _vrfs(fabric, device, vrf_prefix)
    lines += _policy(fabric)
    lines += _bfd("fabric", fabric.routing.bfd)
    if fabric.routing.overlay_bfd is not None and overlay:
        lines += _bfd("overlay", fabric.routing.overlay_bfd)
    lines += _bgp(fabric, device, sessions, overlay, loopback)
    lines += _tenants(fabric, device, vrf_prefix)
    return "\n".join(lines) + "\n"


def _interfaces(device: Device) -> Iterator[str]:
    yield from ("interface lo", f" ip address {device.loopback}/32", "exit", "!")
    for port in device.interfaces:
        yield f"interface {port.port}"
        yield f" description {port.description}"
        if port.address:
            yield f" ip address {port.address}"
        else:  # peers are discovered by router advertisements
            yield " no ipv6 nd suppress-ra"
            yield " ipv6 nd ra-interval 10"
        yield "exit"
        yield "!"


def _vrfs(fabric: Fabric, device: Device, prefix: str) -> Iterator[str]:
    numbers = {vrf.name: vrf.vni for vrf in fabric.vrfs}
    for name in vrfs_of(fabric, device):
        yield from (f"vrf {prefix}{name}", f" vni {numbers[name]}", "exit-vrf", "!")


def _policy(fabric: Fabric) -> Iterator[str]:
    mark = fabric.routing.from_above
    yield from (
        f"bgp community-list standard FROM-ABOVE permit {mark}",
        "!",
        "route-map TO-ABOVE deny 10",
        " match community FROM-ABOVE",
        "exit",
        "!",
        "route-map TO-ABOVE permit 20",
        "exit",
        "!",
        "route-map TO-BELOW permit 10",
        f" set community {mark} additive",
        "exit",
        "!",
    )


def _bfd(name: str, bfd: Bfd) -> Iterator[str]:
    interval = round(bfd.interval_s * 1e3)
    yield from (
        "bfd",
        f" profile {name}",
        f"  detect-multiplier {bfd.multiplier}",
        f"  transmit-interval {interval}",
        f"  receive-interval {interval}",
        " exit",
        " !",
        "exit",
        "!",
    )


def _bgp(
    fabric: Fabric,
    device: Device,
    sessions: Sequence[Session],
    overlay: Sequence[Overlay],
    loopback: str,
) -> Iterator[str]:
    sides = sorted({session.side for session in sessions})
    yield f"router bgp {device.asn}"
    yield f" bgp router-id {device.loopback}"
    yield " bgp bestpath as-path multipath-relax"
    for side in sides:
        yield f" neighbor {side.upper()} peer-group"
        yield f" neighbor {side.upper()} bfd profile fabric"
    for session in sessions:
        if session.peer_address is None:
            name = session.port
            yield f" neighbor {name} interface remote-as {session.peer_asn}"
        else:
            name = session.peer_address
            yield f" neighbor {name} remote-as {session.peer_asn}"
        yield f" neighbor {name} peer-group {session.side.upper()}"
        yield f" neighbor {name} description {session.peer} {session.port}"
    yield from _overlay_neighbours(overlay, loopback)
    yield " !"
    yield " address-family ipv4 unicast"
    yield "  redistribute connected"
    for side in sides:
        yield f"  neighbor {side.upper()} activate"
        yield f"  neighbor {side.upper()} route-map TO-{side.upper()} out"
    yield f"  maximum-paths {min(max(fabric.routing.multipath_count, 1), MAX_PATHS)}"
    for group in _groups(overlay):
        yield f"  no neighbor {group} activate"
    yield " exit-address-family"
    yield from _overlay_family(device, overlay)
    yield "exit"
    yield "!"


def _groups(overlay: Sequence[Overlay]) -> list[str]:
    return sorted({f"OVERLAY-{session.side.upper()}" for session in overlay})


def _overlay_neighbours(overlay: Sequence[Overlay], loopback: str) -> Iterator[str]:
    for group in _groups(overlay):
        yield f" neighbor {group} peer-group"
        yield f" neighbor {group} ebgp-multihop 2"
        yield f" neighbor {group} update-source {loopback}"
        yield f" neighbor {group} bfd profile overlay"
    for session in overlay:
        yield f" neighbor {session.peer_address} remote-as {session.peer_asn}"
        yield f" neighbor {session.peer_address} peer-group OVERLAY-{session.side.upper()}"
        yield f" neighbor {session.peer_address} description {session.peer} overlay"


def _overlay_family(device: Device, overlay: Sequence[Overlay]) -> Iterator[str]:
    if not overlay:
        return
    yield " !"
    yield " address-family l2vpn evpn"
    for group in _groups(overlay):
        yield f"  neighbor {group} activate"
        yield f"  neighbor {group} route-map TO-{group.removeprefix('OVERLAY-')} out"
        if device.role != "leaf":
            yield f"  neighbor {group} attribute-unchanged next-hop"
    if device.role == "leaf":
        yield "  advertise-all-vni"
    yield " exit-address-family"


def _tenants(fabric: Fabric, device: Device, prefix: str) -> Iterator[str]:
    by_name = {vrf.name: vrf for vrf in fabric.vrfs}
    for name in vrfs_of(fabric, device):
        vrf = by_name[name]
        target = vrf.route_target.removeprefix("target:")
        yield from (
            f"router bgp {device.asn} vrf {prefix}{name}",
            f" bgp router-id {device.loopback}",
            " !",
            " address-family ipv4 unicast",
            "  redistribute connected",
            " exit-address-family",
            " !",
            " address-family l2vpn evpn",
            "  advertise ipv4 unicast",
            f"  rd {vrf.route_distinguisher(device)}",
            f"  route-target import {target}",
            f"  route-target export {target}",
            " exit-address-family",
            "exit",
            "!",
        )
