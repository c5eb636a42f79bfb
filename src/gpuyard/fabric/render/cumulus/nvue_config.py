"""NVUE configuration (startup.yaml) for Cumulus Linux 5.19."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gpuyard.fabric.fabric import Device, Fabric, Interface, Vrf
from gpuyard.fabric.lossless.lossless import Lossless
from gpuyard.fabric.render.releases import header
from gpuyard.fabric.render.sessions import Session, cable_lengths, sessions_of, vrfs_of
from gpuyard.fabric.render.switch_os import File

BREAKOUT_MARK = "s"  # swp1s0 is the first breakout link of swp1
Cables = dict[tuple[str, str], float]


def render_cumulus(fabric: Fabric) -> Iterator[File]:
    """Yield startup.yaml of every switch."""
    switches = fabric.switches
    cables = cable_lengths(fabric.topology, (device.name for device in switches))
    for device in switches:
        parts = [
            f"{header('cumulus')}\n",
            "- set:\n",
            *_interfaces(fabric, device, cables),
            _qos(fabric.lossless, device, cables),
        ]
        parts += [_router(fabric, device), f"    system:\n      hostname: {device.name}\n"]
        parts += [_overlay(fabric, device), *_vrfs(fabric, device)]
        yield File(path=f"switches/{device.name}/startup.yaml", text="".join(parts))


def _interfaces(fabric: Fabric, device: Device, cables: Cables) -> Iterator[str]:
    yield f"""\
    interface:
      lo:
        ip:
          address:
            {device.loopback}/32: {{}}
        type: loopback
"""
    yield from _breakouts(device)
    adaptive = fabric.lossless.balancing.mode == "adaptive"
    for port in device.interfaces:
        yield f"""\
      {port.port}:
        description: {port.description}
        type: swp
        link:
          mtu: {port.mtu_bytes}
          speed: {round(port.speed_bits_per_s / 1e9)}G
"""
        if port.address:
            yield f"        ip:\n          address:\n            {port.address}: {{}}\n"
        if port.vrf:
            yield f"        vrf: {port.vrf}\n"
        if _pauses(fabric.lossless, port):
            yield _port_qos(cables.get((device.name, port.port)))
        if adaptive and port.peer_asn is not None:
            yield "        router:\n          adaptive-routing:\n            state: enabled\n"


def _pauses(lossless: Lossless, port: Interface) -> bool:
    return bool(lossless.pfc.priorities) and (
        lossless.pfc.scope == "all" or port.peer_role == "server"
    )


def _port_qos(metres: float | None) -> str:
    profile = "" if metres is None else f"          pfc:\n            profile: {_profile(metres)}\n"
    return f"        qos:\n{profile}          pfc-watchdog:\n            state: enabled\n"


def _breakouts(device: Device) -> Iterator[str]:
    parts: dict[str, int] = {}
    for port in device.interfaces:
        cage, mark, part = port.port.removeprefix("swp").partition(BREAKOUT_MARK)
        if mark:
            parts[cage] = int(part) + 1
    ways = max(parts.values(), default=0)
    for cage in parts:
        yield f"""\
      swp{cage}:
        type: swp
        link:
          breakout:
            {ways}x: {{}}
"""


def _profile(metres: float) -> str:
    return f"roce-{math.ceil(metres)}m"


def _qos(lossless: Lossless, device: Device, cables: Cables) -> str:
    if not lossless.pfc.priorities:
        return ""
    known = (cables.get((device.name, port.port)) for port in device.interfaces)
    priorities = "".join(
        f"            '{priority}': {{}}\n" for priority in lossless.pfc.priorities
    )
    profiles = "".join(
        f"""\
        {_profile(metres)}:
          switch-priority:
{priorities}\
          tx: enable
          rx: enable
          cable-length: {math.ceil(metres)}
"""
        for metres in sorted({metres for metres in known if metres is not None})
    )
    watchdog = lossless.watchdog
    return f"""\
    qos:
      roce:
        state: enabled
        mode: lossless
      pfc:
{profiles}\
      pfc-watchdog:
        polling-interval: {round(watchdog.poll_s * 1e3)}
        robustness: {round(watchdog.detect_s / watchdog.poll_s)}
"""


def _router(fabric: Fabric, device: Device) -> str:
    bfd, mark = fabric.routing.bfd, fabric.routing.from_above
    interval = round(bfd.interval_s * 1e3)
    adaptive = ""
    if fabric.lossless.balancing.mode == "adaptive":
        adaptive = "      adaptive-routing:\n        state: enabled\n"
    return f"""\
    router:
{adaptive}\
      bfd:
        state: enabled
        profile:
          fabric:
            detect-multiplier: {bfd.multiplier}
            min-tx-interval: {interval}
            min-rx-interval: {interval}
      bgp:
        state: enabled
        autonomous-system: {device.asn}
        router-id: {device.loopback}
      policy:
        community-list:
          FROM-ABOVE:
            rule:
              '10':
                action: permit
                community:
                  '{mark}': {{}}
        route-map:
          TO-ABOVE:
            rule:
              '10':
                action:
                  deny: {{}}
                match:
                  community-list: FROM-ABOVE
              '20':
                action:
                  permit: {{}}
          TO-BELOW:
            rule:
              '10':
                action:
                  permit: {{}}
                set:
                  community:
                    '{mark}': {{}}
                    additive: {{}}
"""


def _overlay(fabric: Fabric, device: Device) -> str:
    # EVPN over the underlay sessions, as NVIDIA documents it; only leaves terminate tunnels.
    if not fabric.vrfs:
        return ""
    tunnels = f"""\
    nve:
      vxlan:
        state: enabled
        source:
          address: {device.loopback}
"""
    return "    evpn:\n      state: enabled\n" + (tunnels if device.role == "leaf" else "")


def _vrfs(fabric: Fabric, device: Device) -> Iterator[str]:
    evpn = "              l2vpn-evpn:\n                state: enabled\n" if fabric.vrfs else ""
    yield f"""\
    vrf:
      default:
        router:
          bgp:
            state: enabled
            path-selection:
              multipath:
                aspath-ignore: enabled
            address-family:
              ipv4-unicast:
                state: enabled
                multipaths:
                  ebgp: {max(fabric.routing.multipath_count, 1)}
                redistribute:
                  connected:
                    state: enabled
{evpn}"""
    sessions = sessions_of(device)
    if sessions:
        yield from _peers(fabric, sessions)
    by_name = {vrf.name: vrf for vrf in fabric.vrfs}
    for name in vrfs_of(fabric, device):
        yield _tenant(device, by_name[name])


def _peers(fabric: Fabric, sessions: tuple[Session, ...]) -> Iterator[str]:
    """A group for each side, with its policy, and the members."""
    yield "            peer-group:\n"
    for side in sorted({session.side for session in sessions}):
        yield f"""\
              {side}:
                remote-as: external
                bfd:
                  profile: fabric
                address-family:
"""
        for family in ("ipv4-unicast", "l2vpn-evpn") if fabric.vrfs else ("ipv4-unicast",):
            yield f"""\
                  {family}:
                    state: enabled
                    policy:
                      outbound:
                        route-map: TO-{side.upper()}
"""
    yield "            neighbor:\n"
    for session in sessions:
        kind = "unnumbered" if session.peer_address is None else "numbered"
        yield f"""\
              {session.peer_address or session.port}:
                peer-group: {session.side}
                type: {kind}
"""


def _tenant(device: Device, vrf: Vrf) -> str:
    target = vrf.route_target.removeprefix("target:")
    return f"""\
      {vrf.name}:
        evpn:
          state: enabled
          vni:
            '{vrf.vni}': {{}}
        router:
          bgp:
            state: enabled
            autonomous-system: {device.asn}
            router-id: {device.loopback}
            rd: {vrf.route_distinguisher(device)}
            route-import:
              from-evpn:
                route-target:
                  '{target}': {{}}
            route-export:
              to-evpn:
                route-target:
                  '{target}': {{}}
            address-family:
              ipv4-unicast:
                state: enabled
                redistribute:
                  connected:
                    state: enabled
                route-export:
                  to-evpn:
                    state: enabled
"""
