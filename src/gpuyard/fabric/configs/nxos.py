"""Cisco NX-OS: `show running-config` to the model of a device."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.fabric.configs import cli_bgp, nxos_bgp, nxos_qos
from gpuyard.fabric.configs.cli_text import cli_statements
from gpuyard.fabric.configs.device_config import ConfiguredBgp, ConfiguredPort, DeviceConfig
from gpuyard.fabric.configs.nxos_qos import NxosQos
from gpuyard.fabric.configs.statement import Patterns, Readings

ROUTE_MAPS = {key: cli_bgp.MODELLED[key] for key in ("map", "map-line")}
NXOS = Patterns(
    {
        **nxos_bgp.MODELLED,
        **nxos_qos.MODELLED,
        **ROUTE_MAPS,
        "community": (
            "ip community-list standard {name} {action} {values*}",
            "ip community-list standard {name} seq {number} {action} {values*}",
            "ip community-list expanded {name} {action} {values*}",
            "ip community-list expanded {name} seq {number} {action} {values*}",
        ),
        "hostname": ("hostname {name}", "switchname {name}"),
        "loopback": (
            "interface loopback0 ip address {address}",
            "interface loopback0 ipv6 address {address}",
            "interface Loopback0 ip address {address}",
        ),
        "port": "interface {port}",
        "description": "interface {port} description {text*}",
        "mtu": "interface {port} mtu {bytes}",
        "speed": "interface {port} speed {speed}",
        "address": (
            "interface {port} ip address {address}",
            "interface {port} ipv6 address {address}",
        ),
        "link-local": "interface {port} ipv6 address use-link-local-only",
        "shutdown": "interface {port} shutdown",
        "port-vrf": "interface {port} vrf member {vrf}",
        "port-setting": "interface {port} {setting*}",
        "balancing": (
            "hardware profile dlb {setting*}",
            "ip load-sharing {setting*}",
            "port-channel load-balance {setting*}",
        ),
        "bfd": "bfd {setting*}",
        "vrf": "vrf context {vrf}",
        "vrf-setting": "vrf context {vrf} {setting*}",
        "feature": ("feature {name*}", "nv {name*}"),
        "release": ("version {release}", "version {release} {bios*}"),
        "breakout": "interface breakout module {number} port {ports} map {kind}",
    },
    (
        "aaa", "banner", "boot", "callhome", "cfs", "cli", "clock", "config", "control-plane",
        "copp", "cts", "dot1x", "email", "errdisable", "event", "evpn", "fabric", "fex", "fips",
        "flow", "generic-hash", "guestshell", "hardware", "hostname", "icam", "interface nve1",
        "interface mgmt0", "interface loopback1", "interface loopback254", "ip access-list",
        "ip arp", "ip as-path", "ip dhcp", "ip dns", "ip domain-list", "ip domain-lookup",
        "ip domain-name", "ip ftp", "ip host", "ip igmp", "ip name-server", "ip pim",
        "ip prefix-list", "ip route", "ip sla", "ip tcp", "ip telnet", "ip tftp", "ip tacacs",
        "ip radius", "ip ssh", "ip http", "ipv6 access-list", "ipv6 nd", "ipv6 prefix-list",
        "ipv6 route", "ipv6 dhcp", "key", "lacp", "license", "line", "lldp", "logging", "mac",
        "mac-list", "mpls", "mvr", "no", "ntp", "nxapi", "nxsdk", "object-group", "password",
        "policy-map type control-plane", "class-map type control-plane", "port-profile",
        "power", "ptp", "radius-server", "rmon", "role", "route-map pbr-statistics",
        "router eigrp", "router isis", "router ospf", "router ospfv3", "router rip", "sampler",
        "scheduler", "security", "service", "sflow", "slot", "snmp-server", "spanning-tree", "ssh",
        "system", "tacacs-server", "telemetry", "telnet", "track", "udld", "userpassphrase",
        "username", "vdc", "vlan", "vlan-group", "vpc", "vrrp", "vtp", "xml", "hardware profile",
        "grpc", "feature-set", "install", "monitor", "class-map type network-qos",
        "class-map type queuing",
    ),
)  # fmt: skip
_BREAKOUT = re.compile(r"(?P<gigabits>\d+)g-\d+x")


def read_nxos(text: str, file: str) -> DeviceConfig:
    """Return the model of a device from its running configuration."""
    statements = tuple(nxos_bgp.without_remote_as(cli_statements(text, file)))
    readings = NXOS.read(statements)
    policies = tuple(cli_bgp.policies(readings))
    communities = _communities(readings)
    neighbours = tuple(nxos_bgp.neighbours(readings))
    qos = NxosQos(readings)
    paths = [int(one[-1]) for one in readings.values.get("paths", ()) if one[-1].isdigit()]
    asn = readings.one("asn")
    settings = [" ".join(one[1:]) for one in readings.values.get("bgp-setting", ())]
    settings += [" ".join(one[1:]) for one in readings.values.get("f-setting", ())]
    settings += [f"bfd {one[0]}" for one in readings.values.get("bfd", ())]
    undefined = {*nxos_bgp.undefined_templates(readings), *qos.undefined()}
    defined = {policy.name for policy in policies}
    used = {name for one in neighbours for name in (*one.exports, *one.imports)}
    undefined |= {f"route-map {name}" for name in used - defined}
    lists = {name for name, _ in communities}
    undefined |= {
        f"community-list {condition.removeprefix('community ')}"
        for policy in policies
        for term in policy.terms
        for condition in term.conditions
        if condition.startswith("community ") and not lists.issuperset(condition.split()[1:])
    }
    return DeviceConfig(
        hostname=readings.one("hostname") or "",
        os="nxos",
        file=file,
        release=readings.one("release"),
        ports=tuple(_ports(readings, qos)),
        loopbacks=tuple(sorted(one[0] for one in readings.values.get("loopback", ()))),
        bgp=ConfiguredBgp(
            asn=int(asn) if asn and asn.isdigit() else None,
            where=readings.places.get(("asn", asn or ""), file),
            router_id=(readings.values.get("router-id") or [("", "")])[-1][-1] or None,
            max_paths_count=min(paths) if paths else None,
            is_multipath=readings.has("relax"),
            neighbours=neighbours,
            settings=tuple(sorted(settings)),
        ),
        policies=policies,
        communities=communities,
        balancing=tuple(sorted(one[0] for one in readings.values.get("balancing", ()))),
        buffers=qos.settings(),
        vrfs=_vrfs(readings),
        undefined=tuple(sorted(undefined)),
        other=readings.other,
        unread=readings.unread,
        statements=statements,
    )


def _communities(readings: Readings) -> tuple[tuple[str, tuple[str, ...]], ...]:
    lists: dict[str, list[str]] = {}
    for name, *_, action, values in readings.values.get("community", ()):
        if action == "permit":
            lists.setdefault(name, []).extend(values.split())
        else:
            lists.setdefault(name, [])
    return tuple(sorted((name, tuple(sorted(values))) for name, values in lists.items()))


def _ports(readings: Readings, qos: NxosQos) -> Iterator[ConfiguredPort]:
    described, mtus = readings.pairs("description"), readings.pairs("mtu")
    speeds, vrfs = readings.pairs("speed"), readings.pairs("port-vrf")
    addresses, settings = readings.lists("address"), readings.lists("port-setting")
    down, split = set(readings.firsts("shutdown")), _split(readings)
    local = set(readings.firsts("link-local"))
    for name in dict.fromkeys(
        one[0]
        for key in ("port", "description", "mtu", "address", "port-setting", "speed", "pfc")
        for one in readings.values.get(key, ())
    ):
        if name.startswith(("Ethernet", "ethernet", "port-channel", "Vlan")):
            speed = speeds.get(name, "")
            extra = ["link-local"] if name in local else []
            yield ConfiguredPort(
                name=name,
                where=readings.places.get(("port", name), ""),
                description=described.get(name, ""),
                mtu_bytes=int(mtus[name]) if mtus.get(name, "").isdigit() else None,
                speed_bits_per_s=float(speed) * 1e6 if speed.isdigit() else _parent(name, split),
                addresses=tuple(sorted(addresses.get(name, ()))),
                vrf=vrfs.get(name),
                is_enabled=name not in down,
                settings=tuple(sorted([*settings.get(name, ()), *extra])),
                qos=qos.of_port(name),
            )


def _split(readings: Readings) -> dict[str, float]:
    """The speed of the parts of each split port: interface breakout … port 1-3 map 400g-2x."""
    speeds: dict[str, float] = {}
    for module, ports, kind in readings.values.get("breakout", ()):
        match = _BREAKOUT.fullmatch(kind)
        for word in ports.split(",") if match else ():
            low, _, high = word.partition("-")
            if low.isdigit() and (high or low).isdigit():
                for port in range(int(low), min(int(high or low), int(low) + 1024) + 1):
                    speeds[f"Ethernet{module}/{port}"] = float(match["gigabits"]) * 1e9  # type: ignore[index]
    return speeds


def _parent(name: str, split: dict[str, float]) -> float | None:
    return split.get(name.rpartition("/")[0])


def _vrfs(readings: Readings) -> tuple[tuple[str, tuple[str, ...]], ...]:
    settings: dict[str, list[str]] = {name: [] for name in readings.firsts("vrf")}
    for name, setting in readings.values.get("vrf-setting", ()):
        settings.setdefault(name, []).append(setting)
    for key in ("vrf-bgp-setting", "f-setting-vrf"):
        for _, name, *rest in readings.values.get(key, ()):
            settings.setdefault(name, []).append(" ".join(rest))
    settings.pop("management", None)
    return tuple(sorted((name, tuple(sorted(some))) for name, some in settings.items()))
