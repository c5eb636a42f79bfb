"""FRR (frr.conf) and the Linux scripts next to it: statements to the model of a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpuyard.fabric.configs import cli_bgp
from gpuyard.fabric.configs.cli_text import cli_statements, shell_statements
from gpuyard.fabric.configs.device_config import (
    BufferProfile,
    ConfiguredBgp,
    ConfiguredPort,
    DeviceConfig,
    PortQos,
    QueueSchedule,
)
from gpuyard.fabric.configs.statement import Patterns, Readings
from gpuyard.fabric.routing import Bfd

DEFAULT_BFD = Bfd(interval_s=0.3, multiplier=3)  # of FRR
_KNOWN = (
    "frr defaults", "log", "service", "line vty", "ip forwarding", "ipv6 forwarding", "debug",
    "password", "enable password", "ip nht", "ipv6 nht", "no ip", "no ipv6", "zebra", "agentx",
    "ip protocol", "ip prefix-list", "ipv6 prefix-list", "ip route", "ipv6 route", "access-list",
    "no service", "fpm", "rpki", "route-target", "bgp as-path", "bgp large-community-list",
    "ip import-table", "key", "mpls",
)  # fmt: skip
FRR = Patterns(
    {
        **cli_bgp.MODELLED,
        "hostname": "hostname {name}",
        "release": "frr version {release}",
        "loopback": ("interface lo ip address {address}", "interface lo ipv6 address {address}"),
        "port": "interface {port}",
        "port-vrf": "interface {port} vrf {vrf}",
        "description": "interface {port} description {text*}",
        "address": (
            "interface {port} ip address {address}",
            "interface {port} ipv6 address {address}",
        ),
        "shutdown": "interface {port} shutdown",
        "port-setting": "interface {port} {setting*}",
        "vrf-setting": "vrf {vrf} {setting*}",
        "vrf": "vrf {vrf}",
        "bfd": ("bfd", "bfd profile {profile}"),
        "bfd-multiplier": "bfd profile {profile} detect-multiplier {count}",
        "bfd-tx": "bfd profile {profile} transmit-interval {ms}",
        "bfd-rx": "bfd profile {profile} receive-interval {ms}",
        "bfd-setting": "bfd {setting*}",
    },
    _KNOWN,
)
_LINUX = Patterns(
    {
        "sysctl": "set {name} {value}",
        "mtu": "ip link set dev {port} mtu {bytes} up",
        "vrf-port": "ip link set dev {port} master {vrf}",
        "vrf-link": "ip link add {name} type vrf table {table}",
        "dscp": "dcb app replace dev {port} dscp-prio {pairs*}",
        "pfc": "dcb pfc set dev {port} prio-pfc {pairs*}",
        "ets": "dcb ets set dev {port} {setting*}",
        "buffer": "dcb buffer set dev {port} {setting*}",
    },
    ("ip link", "bridge", "sysctl", "ethtool", "hostname"),
)


def read_frr(text: str, file: str) -> DeviceConfig:
    """Return the model of a device from frr.conf; names of ports and QoS come from other files."""
    statements = tuple(cli_statements(text, file))
    readings = FRR.read(statements)
    policies = tuple(cli_bgp.policies(readings))
    communities = cli_bgp.communities(readings)
    profiles = _profiles(readings)
    paths = [int(one[-1]) for one in readings.values.get("f-paths", ())]
    paths += [int(one[1]) for one in readings.values.get("paths", ())]
    asn = readings.one("asn")
    settings = [one[-1] for one in readings.values.get("bgp-setting", ())]
    settings += [" ".join(one[1:]) for one in readings.values.get("f-setting", ())]
    settings += [" ".join(one) for one in readings.values.get("bfd-setting", ())]
    return DeviceConfig(
        hostname=readings.one("hostname") or "",
        os="frr",
        file=file,
        release=readings.one("release"),
        ports=tuple(_ports(readings)),
        loopbacks=tuple(sorted(one[0] for one in readings.values.get("loopback", ()))),
        bgp=ConfiguredBgp(
            asn=int(asn) if asn and asn.isdigit() else None,
            where=readings.places.get(("asn", asn or ""), file),
            router_id=_last(readings, "router-id"),
            max_paths_count=min(paths) if paths else None,
            is_multipath=readings.has("relax"),
            neighbours=tuple(cli_bgp.neighbours(readings, profiles, DEFAULT_BFD)),
            settings=tuple(sorted(settings)),
        ),
        policies=policies,
        communities=communities,
        vrfs=_vrfs(readings),
        undefined=tuple(
            sorted(
                {
                    *cli_bgp.undefined(readings, policies, communities),
                    *_undefined_profiles(readings, profiles),
                }
            )
        ),
        other=readings.other,
        unread=readings.unread,
        statements=statements,
    )


def _last(readings: Readings, key: str) -> str | None:
    values = readings.values.get(key)
    return values[-1][-1] if values else None


def _profiles(readings: Readings) -> dict[str, Bfd]:
    multipliers, tx = readings.pairs("bfd-multiplier"), readings.pairs("bfd-tx")
    receive = readings.pairs("bfd-rx")
    names = {*multipliers, *tx, *receive}
    return {
        name: Bfd(
            interval_s=max(int(tx.get(name, 300)), int(receive.get(name, 300))) / 1e3,
            multiplier=int(multipliers.get(name, DEFAULT_BFD.multiplier)),
        )
        for name in names
    }


def _undefined_profiles(readings: Readings, profiles: dict[str, Bfd]) -> Iterator[str]:
    for captured in readings.values.get("n-bfd-profile", ()):
        if captured[-1] not in profiles:
            yield f"bfd profile {captured[-1]}"


def _ports(readings: Readings) -> Iterator[ConfiguredPort]:
    described, vrfs = readings.pairs("description"), readings.pairs("port-vrf")
    addresses, settings = readings.lists("address"), readings.lists("port-setting")
    down = set(readings.firsts("shutdown"))
    names = dict.fromkeys(
        one[0]
        for key in ("port", "port-vrf", "description", "address", "port-setting")
        for one in readings.values.get(key, ())
    )
    for name in names:
        if name != "lo":
            yield ConfiguredPort(
                name=name,
                where=readings.places.get(("port", name), ""),
                description=described.get(name, ""),
                addresses=tuple(sorted(addresses.get(name, ()))),
                vrf=vrfs.get(name),
                is_enabled=name not in down,
                settings=tuple(sorted(settings.get(name, ()))),
            )


def _vrfs(readings: Readings) -> tuple[tuple[str, tuple[str, ...]], ...]:
    settings: dict[str, list[str]] = {}
    for key in ("vrf-setting", "vrf", "vrf-asn", "vrf-bgp-setting", "f-setting-vrf"):
        for captured in readings.values.get(key, ()):
            at = 0 if key.startswith("vrf-s") or key == "vrf" else 1
            settings.setdefault(captured[at], []).extend(
                [" ".join(captured[at + 1 :])] if captured[at + 1 :] else []
            )
    return tuple(sorted((name, tuple(sorted(some))) for name, some in settings.items()))


def with_linux(device: DeviceConfig, text: str, file: str) -> DeviceConfig:
    """Return a device with the MTU, VRFs, queues and kernel settings of the files next to it."""
    statements = tuple(shell_statements(text, file))
    readings = _LINUX.read(statements)
    mtus, vrfs = readings.pairs("mtu"), set(readings.firsts("vrf-link"))
    vrf_of = {port: vrf for port, vrf in readings.pairs("vrf-port").items() if vrf in vrfs}
    known = {port.name: port for port in device.ports}
    ports = [
        known.get(name) or ConfiguredPort(name=name) for name in dict.fromkeys([*known, *mtus])
    ]
    return replace(
        device,
        ports=tuple(
            replace(
                port,
                mtu_bytes=int(mtus[port.name]) if port.name in mtus else port.mtu_bytes,
                vrf=vrf_of.get(port.name, port.vrf),
                qos=_qos(readings, port.name) if port.name in mtus else port.qos,
            )
            for port in ports
        ),
        balancing=tuple(sorted({*device.balancing, *map(" ".join, _settings(readings))})),
        other=(*device.other, *readings.other),
        unread=(*device.unread, *readings.unread),
        statements=(*device.statements, *statements),
    )


def _settings(readings: Readings) -> Sequence[tuple[str, ...]]:
    # Kernel settings, such as the fields that ECMP hashes, and the daemons that run.
    return readings.values.get("sysctl", ())


def _numbers(text: str) -> dict[str, str]:
    # 26:3 48:6 or 3:on
    return dict(pair.split(":", 1) for pair in text.split() if ":" in pair)


def _qos(readings: Readings, port: str) -> PortQos:
    dscp = _numbers(readings.pairs("dscp").get(port, ""))
    pfc = _numbers(readings.pairs("pfc").get(port, ""))
    ets = readings.pairs("ets").get(port, "")
    buffer = readings.pairs("buffer").get(port, "")
    kinds = _numbers(ets.partition("tc-tsa ")[2].partition(" tc-bw")[0])
    shares = _numbers(ets.partition("tc-bw ")[2])
    return PortQos(
        queues=tuple(sorted((int(mark), int(priority)) for mark, priority in dscp.items())),
        pfc_priorities=tuple(sorted(int(one) for one, state in pfc.items() if state == "on")),
        schedules=tuple(
            QueueSchedule(
                queue=int(queue),
                kind="strict" if kind == "strict" else "weighted",
                share_ratio=float(shares.get(queue, 0)) / 100,
            )
            for queue, kind in sorted(kinds.items())
        ),
        buffers=(BufferProfile(target="ingress", settings=(("dcb buffer", buffer),)),)
        if buffer
        else (),
    )
