"""NVUE's YAML (Cumulus Linux): settings to the model of a device."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.document.read import read_yaml
from gpuyard.document.tree import Mapping, Node, Scalar, Sequence
from gpuyard.errors import InputError
from gpuyard.fabric.configs.device_config import (
    ConfiguredBgp,
    ConfiguredNeighbour,
    ConfiguredPort,
    DeviceConfig,
    PolicyTerm,
    RoutingPolicy,
)
from gpuyard.fabric.configs.nvue_qos import NvueQos
from gpuyard.fabric.configs.statement import Patterns, Readings, Statement
from gpuyard.fabric.routing import Bfd

_BGP = "vrf {vrf} router bgp"
_RULE = "router policy route-map {name} rule {number}"
NVUE = Patterns(
    {
        "hostname": "system hostname {name}",
        "release": "header version {release}",
        "lo": ("interface lo ip address {address}", "interface lo ipv4 address {address}",
               "interface lo ipv6 address {address}"),
        "port": "interface {port} type {type}",
        "description": "interface {port} description {text}",
        "mtu": "interface {port} link mtu {bytes}",
        "speed": "interface {port} link speed {speed}",
        "state": ("interface {port} link state {state}",
                  "interface {port} link state {state} {rest}"),
        "address": ("interface {port} ip address {address}",
                    "interface {port} ipv4 address {address}",
                    "interface {port} ipv6 address {address}"),
        "vrf-port": ("interface {port} vrf {vrf}", "interface {port} ip vrf {vrf}"),
        "port-setting": "interface {port} {setting*}",
        "port-pfc": "interface {port} qos pfc profile {name}",
        "port-ecn": "interface {port} qos congestion-control profile {name}",
        "port-scheduler": "interface {port} qos egress-scheduler profile {name}",
        "port-watchdog": "interface {port} qos pfc-watchdog state {state}",
        "roce": ("qos roce state {state}", "qos roce enable {state}"),
        "roce-mode": "qos roce mode {mode}",
        "pfc-priority": "qos pfc {name} switch-priority {priority}",
        "pfc-setting": "qos pfc {name} {setting} {value}",
        "watchdog": "qos pfc-watchdog {setting} {value}",
        "ecn": "qos congestion-control {name} traffic-class {queue} {setting} {value}",
        "dscp": "qos mapping {profile} dscp {dscp} switch-priority {priority}",
        "queue": (
            "qos egress-queue-mapping {profile} switch-priority {priority} traffic-class {queue}"
        ),
        "scheduler": "qos egress-scheduler {name} traffic-class {queue} {setting} {value}",
        "qos-setting": "qos {setting*}",
        "asn": "router bgp autonomous-system {asn}",
        "router-id": "router bgp router-id {address}",
        "bgp-setting": "router bgp {setting*}",
        "adaptive": "router adaptive-routing {setting*}",
        "bfd": "router bfd profile {name} {setting} {value}",
        "bfd-setting": "router bfd {setting*}",
        "rule-action": (f"{_RULE} action {{action}}", f"{_RULE} action {{action}} {{rest*}}"),
        "rule-match": f"{_RULE} match {{condition*}}",
        "rule-community": f"{_RULE} set community {{value}}",
        "rule-set": (f"{_RULE} set {{setting*}}", f"{_RULE} {{setting*}}"),
        "community": "router policy community-list {name} rule {number} community {value}",
        "community-action": "router policy community-list {name} rule {number} action {action}",
        "relax": f"{_BGP} path-selection multipath aspath-ignore {{state}}",
        "paths": f"{_BGP} address-family {{family}} multipaths ebgp {{count}}",
        "group-as": f"{_BGP} peer-group {{group}} remote-as {{asn}}",
        "group-bfd": f"{_BGP} peer-group {{group}} bfd profile {{name}}",
        "group-family": f"{_BGP} peer-group {{group}} address-family {{family}} {{setting*}}",
        "group-setting": f"{_BGP} peer-group {{group}} {{setting*}}",
        "peer-as": f"{_BGP} neighbor {{peer}} remote-as {{asn}}",
        "peer-group": f"{_BGP} neighbor {{peer}} peer-group {{group}}",
        "peer-bfd": f"{_BGP} neighbor {{peer}} bfd profile {{name}}",
        "peer-setting": f"{_BGP} neighbor {{peer}} {{setting*}}",
        "vrf-setting": "vrf {vrf} {setting*}",
        "evpn": ("evpn {setting*}", "nve {setting*}"),
    },
    ("acl", "action", "bridge", "cluster", "header", "maintenance", "mlag", "platform", "router",
     "service", "system", "vrf mgmt", "interface eth0", "interface eth1"),
)  # fmt: skip


def read_nvue(text: str, file: str) -> DeviceConfig:
    """Return the model of a device from startup.yaml or `nv config show -o yaml`."""
    statements = tuple(_statements(text, file))
    readings = NVUE.read(statements)
    qos = NvueQos(readings)
    asn = readings.one("asn")
    bfd = _bfd_profiles(readings)
    neighbours = tuple(_neighbours(readings, bfd, file))
    paths = [int(one[-1]) for one in readings.values.get("paths", ()) if one[0] == "default"]
    settings = [
        " ".join(one)
        for key in ("bgp-setting", "bfd-setting", "evpn")
        for one in readings.values.get(key, ())
    ]
    settings += [one[1] for one in readings.values.get("vrf-setting", ()) if one[0] == "default"]
    policies = tuple(_policies(readings))
    known = {policy.name for policy in policies}
    used = {name for one in neighbours for name in (*one.exports, *one.imports)}
    return DeviceConfig(
        hostname=readings.one("hostname") or "",
        os="cumulus",
        file=file,
        release=readings.one("release"),
        ports=tuple(_ports(readings, qos)),
        loopbacks=tuple(sorted(readings.firsts("lo"))),
        bgp=ConfiguredBgp(
            asn=int(asn) if asn and asn.isdigit() else None,
            where=readings.places.get(("asn", asn or ""), file),
            router_id=readings.one("router-id"),
            max_paths_count=min(paths) if paths else None,
            is_multipath=any(
                one[1] in ("on", "enabled") for one in readings.values.get("relax", ())
            ),
            neighbours=neighbours,
            settings=tuple(sorted(settings)),
        ),
        policies=policies,
        communities=tuple(
            sorted(
                (
                    name,
                    tuple(sorted(one[2] for one in readings.values["community"] if one[0] == name)),
                )
                for name in readings.firsts("community")
            )
        ),
        balancing=tuple(sorted(one[0] for one in readings.values.get("adaptive", ()))),
        buffers=qos.settings(),
        vrfs=_vrfs(readings),
        undefined=tuple(
            sorted({*qos.undefined(), *(f"route-map {name}" for name in used - known)})
        ),
        other=readings.other,
        unread=readings.unread,
        statements=statements,
    )


def _statements(text: str, file: str) -> Iterator[Statement]:
    root = read_yaml(text, file).root
    parts = root.items if isinstance(root, Sequence) else (root,)
    for part in parts:
        if not isinstance(part, Mapping):
            raise InputError.one(
                file, "is not an NVUE configuration", "use `nv config show -o yaml`"
            )
        for key, node in part.items:
            start = () if key == "set" else (key,)
            yield from _walk(node, start, file)


def _walk(node: Node, path: tuple[str, ...], file: str) -> Iterator[Statement]:
    line = node.location.line or 0
    if isinstance(node, Scalar):
        yield Statement(words=(*path, node.text), file=file, line=line)
    elif isinstance(node, Sequence):
        for item in node.items:
            yield from _walk(item, path, file)
    elif not node.items:
        yield Statement(words=path, file=file, line=line)
    else:
        for key, child in node.items:
            if path == ("interface",) and "," in key:  # swp1,swp3: the same for all of them
                for name in key.split(","):
                    yield from _walk(child, (*path, name), file)
            else:
                yield from _walk(child, (*path, key), file)


def _ports(readings: Readings, qos: NvueQos) -> Iterator[ConfiguredPort]:
    described, mtus = readings.pairs("description"), readings.pairs("mtu")
    speeds, vrfs = readings.pairs("speed"), readings.pairs("vrf-port")
    addresses, settings = readings.lists("address"), readings.lists("port-setting")
    down = {one[0] for one in readings.values.get("state", ()) if "down" in one}
    names = dict.fromkeys(
        one[0]
        for key in (
            "port",
            "description",
            "mtu",
            "speed",
            "address",
            "port-setting",
            "port-pfc",
            "vrf-port",
            "port-watchdog",
            "port-ecn",
        )
        for one in readings.values.get(key, ())
    )
    for name in names:
        if name != "lo":
            yield ConfiguredPort(
                name=name,
                where=readings.places.get(("mtu", name), readings.places.get(("port", name), "")),
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
    number = text.upper().removesuffix("G")
    return float(number) * 1e9 if number.isdigit() else None


def _bfd_profiles(readings: Readings) -> dict[str, Bfd]:
    profiles: dict[str, dict[str, str]] = {}
    for name, setting, value in readings.values.get("bfd", ()):
        profiles.setdefault(name, {})[setting] = value
    return {
        name: Bfd(
            interval_s=max(
                int(one.get("min-tx-interval", 300)), int(one.get("min-rx-interval", 300))
            )
            / 1e3,
            multiplier=int(one.get("detect-multiplier", 3)),
        )
        for name, one in profiles.items()
    }


def _neighbours(
    readings: Readings, bfd: dict[str, Bfd], file: str
) -> Iterator[ConfiguredNeighbour]:
    groups: dict[tuple[str, str], dict[str, list[str]]] = {}
    peers: dict[tuple[str, str], dict[str, list[str]]] = {}
    for table, prefix in ((groups, "group"), (peers, "peer")):
        for key in ("as", "bfd", "family", "setting", "group"):
            for vrf, name, *value in readings.values.get(f"{prefix}-{key}", ()):
                table.setdefault((vrf, name), {}).setdefault(key, []).append(" ".join(value))
    for (vrf, peer), own in peers.items():
        group = own.get("group", [""])[-1]
        inherited = groups.get((vrf, group), {})
        families = [*inherited.get("family", []), *own.get("family", [])]
        profile = own.get("bfd", inherited.get("bfd", [""]))[-1]
        maps = [line.split() for line in families if " route-map " in f" {line} "]
        yield ConfiguredNeighbour(
            peer=peer,
            where=readings.places.get(("peer-group", vrf, peer), file),
            group=group,
            vrf=None if vrf == "default" else vrf,
            asns=tuple(own.get("as", inherited.get("as", []))),
            families=tuple(
                sorted(
                    line.split()[0]
                    for line in families
                    if line.endswith(("state enabled", "enable on"))
                )
            ),
            exports=tuple(dict.fromkeys(words[-1] for words in maps if "outbound" in words)),
            imports=tuple(dict.fromkeys(words[-1] for words in maps if "inbound" in words)),
            bfd=bfd.get(profile),
            settings=tuple(sorted([*own.get("setting", []), *inherited.get("setting", [])])),
        )


def _policies(readings: Readings) -> Iterator[RoutingPolicy]:
    rules: dict[str, dict[str, tuple[list[str], list[str]]]] = {}
    for key, at, form in (
        ("rule-action", 1, "{}"),
        ("rule-match", 0, "{}"),
        ("rule-community", 1, "add {}"),
        ("rule-set", 1, "{}"),
    ):
        for name, number, text, *_ in readings.values.get(key, ()):
            entry = rules.setdefault(name, {}).setdefault(number, ([], []))
            word = {"deny": "reject", "permit": "accept"}.get(text, text)
            word = (
                "additive" if (key, text) == ("rule-community", "additive") else form.format(word)
            )
            entry[at].append(word.replace("community-list ", "community "))
    for name, some in rules.items():
        yield RoutingPolicy(
            name=name,
            terms=tuple(
                PolicyTerm(
                    name=number, conditions=tuple(sorted(one[0])), actions=tuple(sorted(one[1]))
                )
                for number, one in sorted(some.items(), key=lambda item: int(item[0]))
            ),
        )


def _vrfs(readings: Readings) -> tuple[tuple[str, tuple[str, ...]], ...]:
    settings = readings.lists("vrf-setting")
    return tuple(
        sorted((name, tuple(sorted(some))) for name, some in settings.items() if name != "default")
    )
