"""Arista EOS: `show running-config` to the model of a device."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.fabric.configs import cli_bgp
from gpuyard.fabric.configs.cli_text import cli_statements
from gpuyard.fabric.configs.device_config import (
    ConfiguredBgp,
    ConfiguredPort,
    DeviceConfig,
)
from gpuyard.fabric.configs.eos_qos import EosQos
from gpuyard.fabric.configs.statement import Patterns, Readings
from gpuyard.fabric.routing import Bfd

DEFAULT_BFD = Bfd(interval_s=0.3, multiplier=3)  # of EOS
_QUEUES = ("tx-queue", "uc-tx-queue")
_HOLDERS = ("interface {port}", "qos profile {port}")


def _in_queue(pattern: str) -> tuple[str, ...]:
    # A queue of an interface or of a profile, unicast or any.
    return tuple(
        f"{holder} {queue} {{queue}} {pattern}" for holder in _HOLDERS for queue in _QUEUES
    )


def _in_holder(pattern: str) -> tuple[str, ...]:
    return tuple(f"{holder} {pattern}" for holder in _HOLDERS)


EOS = Patterns(
    {
        **cli_bgp.MODELLED,
        "hostname": "hostname {name}",
        "loopback": (
            "interface Loopback0 ip address {address}",
            "interface Loopback0 ipv6 address {address}",
        ),
        "port": "interface {port}",
        "description": "interface {port} description {text*}",
        "mtu": "interface {port} mtu {bytes}",
        "speed": ("interface {port} speed {speed}", "interface {port} speed forced {speed}"),
        "address": (
            "interface {port} ip address {address}",
            "interface {port} ipv6 address {address}",
        ),
        "shutdown": "interface {port} shutdown",
        "port-vrf": "interface {port} vrf {vrf}",
        "profile": "interface {port} service-profile {name}",
        "port-setting": "interface {port} {setting*}",
        "profile-name": "qos profile {name}",
        "profile-setting": "qos profile {name} {setting*}",
        "trust": _in_holder("qos trust {what}"),
        "pfc": _in_holder("priority-flow-control {state}"),
        "no-drop": _in_holder("priority-flow-control priority {priority} no-drop"),
        "watched": _in_holder("priority-flow-control pause watchdog"),
        "queue": tuple(f"{holder} {queue} {{queue}}" for holder in _HOLDERS for queue in _QUEUES),
        "ecn": _in_queue(
            "random-detect ecn minimum-threshold {low} {unit} maximum-threshold {high} {unit2}"
        ),
        "ecn-mark": _in_queue(
            "random-detect ecn minimum-threshold {low} {unit} maximum-threshold {high} {unit2}"
            " max-mark-probability {mark}"
        ),
        "ecn-weight": _in_queue(
            "random-detect ecn minimum-threshold {low} {unit} maximum-threshold {high} {unit2}"
            " max-mark-probability {mark} weight {weight}"
        ),
        "share": _in_queue("bandwidth percent {percent}"),
        "strict": _in_queue("priority strict"),
        "queue-setting": _in_queue("{setting*}"),
        "dscp": "qos map dscp {line*}",
        "tc-queue": (
            "qos map traffic-class {tc} to tx-queue {queue}",
            "qos map traffic-class {tc} to uc-tx-queue {queue}",
        ),
        "qos-map": "qos map {setting*}",
        "watchdog": "priority-flow-control pause watchdog {setting*}",
        "bfd": "bfd {setting*}",
        "bfd-bgp": "router bfd {setting*}",
        "balancing": ("ip load-sharing {setting*}", "load-balance {setting*}",
                      "ip hardware fib {setting*}", "port-channel load-balance {setting*}"),
        "buffer": ("platform trident mmu {setting*}",
                   "qos {setting*}", "priority-flow-control {setting*}"),
        "vrf": "vrf instance {vrf}",
        "vrf-setting": "vrf instance {vrf} {setting*}",
    },
    (
        "aaa", "agent", "banner", "boot", "class-map", "clock", "daemon", "dns", "enable", "end",
        "errdisable", "event-handler", "hardware", "interface Management0",
        "interface Management1", "interface Loopback1", "interface Vxlan1", "interface Vlan1",
        "ip access-list", "ip address virtual", "mpls", "router bfd", "router isis",
        "router ospf", "ip as-path", "ip domain", "ip domain-name", "ip name-server",
        "ip prefix-list", "ip radius", "ip route", "ip routing", "ip ssh", "ip tacacs",
        "ip virtual-router", "ipv6 prefix-list", "ipv6 route", "ipv6 unicast-routing", "key",
        "lldp", "logging", "mac", "management", "mcs", "mlag", "monitor", "no", "ntp",
        "peer-filter", "platform", "policy-map", "prompt", "ptp", "queue-monitor",
        "radius-server", "role", "router general", "router multicast", "sflow", "service",
        "snmp-server", "spanning-tree", "switchport", "system", "tacacs-server", "tap",
        "transceiver", "tunnel", "username", "vlan", "username admin", "route-map-rcf",
        "traffic-policies", "telemetry",
    ),
)  # fmt: skip


def read_eos(text: str, file: str) -> DeviceConfig:
    """Return the model of a device from its running configuration."""
    statements = tuple(cli_statements(text, file))
    readings = EOS.read(statements)
    policies = tuple(cli_bgp.policies(readings))
    communities = cli_bgp.communities(readings)
    qos = EosQos(readings)
    paths = [int(one[1]) for one in readings.values.get("paths", ())]
    asn = readings.one("asn")
    settings = [" ".join(one[1:]) for one in readings.values.get("bgp-setting", ())]
    settings += [" ".join(one[1:]) for one in readings.values.get("f-setting", ())]
    settings += [f"bfd {one[0]}" for one in readings.values.get("bfd", ())]
    return DeviceConfig(
        hostname=readings.one("hostname") or "",
        os="eos",
        file=file,
        release=_release(text),
        ports=tuple(_ports(readings, qos)),
        loopbacks=tuple(sorted(one[0] for one in readings.values.get("loopback", ()))),
        bgp=ConfiguredBgp(
            asn=int(asn) if asn and asn.isdigit() else None,
            where=readings.places.get(("asn", asn or ""), file),
            router_id=(readings.values.get("router-id") or [("", "")])[-1][-1] or None,
            max_paths_count=min(paths) if paths else None,
            is_multipath=True,  # the default of EOS
            neighbours=tuple(cli_bgp.neighbours(readings, {}, DEFAULT_BFD)),
            settings=tuple(sorted(settings)),
        ),
        policies=policies,
        communities=communities,
        balancing=tuple(sorted(one[0] for one in readings.values.get("balancing", ()))),
        buffers=tuple(
            sorted(one[0] for key in ("buffer", "qos-map") for one in readings.values.get(key, ()))
        ),
        vrfs=_vrfs(readings),
        undefined=tuple(
            sorted({*cli_bgp.undefined(readings, policies, communities), *qos.undefined()})
        ),
        other=readings.other,
        unread=readings.unread,
        statements=statements,
    )


def _release(text: str) -> str | None:
    # ! device: leaf-1 (DCS-7060X6-64PE, EOS-4.32.2F)
    _, mark, rest = text[:2000].partition("EOS-")
    return rest.partition(")")[0].split()[0] if mark else None


def _ports(readings: Readings, qos: EosQos) -> Iterator[ConfiguredPort]:
    described, mtus = readings.pairs("description"), readings.pairs("mtu")
    speeds, vrfs = readings.pairs("speed"), readings.pairs("port-vrf")
    addresses, settings = readings.lists("address"), readings.lists("port-setting")
    down = set(readings.firsts("shutdown"))
    for name in dict.fromkeys(
        one[0]
        for key in ("port", "description", "mtu", "address", "port-setting", "profile", "speed")
        for one in readings.values.get(key, ())
    ):
        if name.startswith(("Ethernet", "Et", "Port-Channel", "Vlan")):
            yield ConfiguredPort(
                name=name,
                where=readings.places.get(("port", name), ""),
                description=described.get(name, ""),
                mtu_bytes=int(mtus[name]) if name in mtus else None,
                speed_bits_per_s=_speed(speeds.get(name, "")),
                addresses=tuple(sorted(addresses.get(name, ()))),
                vrf=vrfs.get(name),
                is_enabled=name not in down,
                settings=tuple(sorted(settings.get(name, ()))),
                qos=qos.of_port(name),
            )


def _speed(text: str) -> float | None:
    # 400g-4, 400gfull
    number = text.lower().partition("g")[0]
    return float(number) * 1e9 if number.isdigit() else None


def _vrfs(readings: Readings) -> tuple[tuple[str, tuple[str, ...]], ...]:
    settings: dict[str, list[str]] = {name: [] for name in readings.firsts("vrf")}
    for name, setting in readings.values.get("vrf-setting", ()):
        settings.setdefault(name, []).append(setting)
    for key in ("vrf-asn", "vrf-bgp-setting", "f-setting-vrf"):
        for _, name, *rest in readings.values.get(key, ()):
            settings.setdefault(name, []).extend([" ".join(rest)] if rest else [])
    return tuple(sorted((name, tuple(sorted(some))) for name, some in settings.items()))
