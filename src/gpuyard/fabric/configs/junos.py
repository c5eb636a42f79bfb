"""Junos: statements to the model of a device."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from gpuyard.fabric.configs.device_config import (
    ConfiguredBgp,
    ConfiguredNeighbour,
    ConfiguredPort,
    DeviceConfig,
    PolicyTerm,
    RoutingPolicy,
)
from gpuyard.fabric.configs.junos_groups import inherited
from gpuyard.fabric.configs.junos_patterns import JUNOS
from gpuyard.fabric.configs.junos_qos import JunosQos
from gpuyard.fabric.configs.junos_text import INACTIVE, junos_statements
from gpuyard.fabric.configs.statement import Readings, Statement
from gpuyard.fabric.routing import Bfd

DEFAULT_MULTIPLIER = 3  # of BFD in Junos
_SPEED = re.compile(r"(\d+)([gm])", re.IGNORECASE)
_POLICY_NAME = re.compile(r"[^\s()&|!]+")
_NOT_FABRIC = re.compile(r"lo\d|irb|fxp|em\d|vme|re0|me0|mgmt")


def read_junos(text: str, file: str) -> DeviceConfig:
    """Return the model of a device from its configuration, curly or `set`."""
    statements = tuple(junos_statements(text, file))
    groups = inherited([one for one in statements if one.words[0] != INACTIVE])
    active = groups.statements
    inactive = tuple(one for one in statements if one.words[0] == INACTIVE)
    readings = JUNOS.read(active)
    policies = tuple(_policies(readings))
    communities = {name: tuple(sorted(some)) for name, some in readings.lists("community").items()}
    qos = JunosQos(readings)
    ports = tuple(_ports(readings, qos))
    neighbours = (*_neighbours(readings, None), *_vrf_neighbours(active))
    return DeviceConfig(
        hostname=readings.one("hostname") or "",
        os="junos",
        file=file,
        release=readings.one("release"),
        ports=ports,
        loopbacks=tuple(
            sorted(one[1] for key in ("lo", "lo-6") for one in readings.values.get(key, ()))
        ),
        bgp=ConfiguredBgp(
            asn=_number(readings.one("asn")),
            where=readings.places.get(("asn", readings.one("asn") or ""), file),
            router_id=readings.one("router-id"),
            max_paths_count=_number(readings.one("max-ecmp")),
            is_multipath=readings.has("forwarding-export"),
            neighbours=neighbours,
            settings=tuple(
                sorted(
                    [*(one[0] for one in readings.values.get("bgp-setting", ()))]
                    + (["multipath"] if readings.has("multipath") else [])
                    + [
                        f"forwarding-table export {name}"
                        for name in readings.firsts("forwarding-export")
                    ]
                )
            ),
        ),
        policies=policies,
        communities=tuple(sorted(communities.items())),
        balancing=tuple(sorted(one[0] for one in readings.values.get("balancing", ()))),
        buffers=tuple(sorted(one[0] for one in readings.values.get("buffer", ()))),
        vrfs=_vrfs(readings),
        undefined=tuple(
            sorted(
                {*_undefined(readings, policies, communities), *qos.undefined(), *groups.undefined}
            )
        ),
        other=(*readings.other, *groups.applied, *inactive),
        unread=readings.unread,
        statements=statements,
    )


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if text.isdigit():
        return int(text)
    high, dot, low = text.partition(".")  # AS numbers in asdot
    return (int(high) << 16) + int(low) if dot and high.isdigit() and low.isdigit() else None


def _ports(readings: Readings, qos: JunosQos) -> Iterator[ConfiguredPort]:
    described = readings.pairs("description") | {
        one[0]: one[2] for one in readings.values.get("unit-description", ())
    }
    mtus = readings.pairs("mtu")
    speeds = readings.pairs("speed")
    disabled = set(readings.firsts("disable"))
    vrf_of = {one[1].rpartition(".")[0]: one[0] for one in readings.values.get("vrf-port", ())}
    addresses: dict[str, list[str]] = {}
    ip_mtus: dict[str, int] = {}
    settings: dict[str, list[str]] = {}
    for port, _, address in readings.values.get("address", ()):
        addresses.setdefault(port, []).append(address)
    for key in ("ip-mtu", "ip6-mtu"):
        for port, _, size in readings.values.get(key, ()):
            ip_mtus[port] = int(size)
    for key in ("port-setting", "vlan-tag", "cos-setting"):
        for port, *value in readings.values.get(key, ()):
            settings.setdefault(port, []).append(" ".join(value))
    for port, ways in readings.pairs("sub-ports").items():
        settings.setdefault(port, []).append(f"number-of-sub-ports {ways}")
    names = dict.fromkeys(
        one[0]
        for key in (
            "port",
            "port-family",
            "description",
            "mtu",
            "speed",
            "sub-ports",
            "disable",
            "ip-mtu",
            "ip6-mtu",
            "address",
            "port-setting",
            "vlan-tag",
            "unit-description",
        )
        for one in readings.values.get(key, ())
    )
    for name in names:
        if not _NOT_FABRIC.match(name):
            yield ConfiguredPort(
                name=name,
                where=_place(readings, name),
                description=described.get(name, ""),
                mtu_bytes=int(mtus[name]) if name in mtus else None,
                ip_mtu_bytes=ip_mtus.get(name),
                speed_bits_per_s=_speed(speeds.get(name)),
                addresses=tuple(sorted(addresses.get(name, ()))),
                vrf=vrf_of.get(name),
                is_enabled=name not in disabled,
                settings=tuple(sorted(settings.get(name, ()))),
                qos=qos.of_port(name),
            )


def _place(readings: Readings, port: str) -> str:
    keys = ("address", "mtu", "ip-mtu", "description", "port-family", "port")
    return next((readings.places[key, port] for key in keys if (key, port) in readings.places), "")


def _speed(text: str | None) -> float | None:
    match = _SPEED.fullmatch(text or "")
    return None if match is None else int(match[1]) * (1e9 if match[2].lower() == "g" else 1e6)


def _vrfs(readings: Readings) -> tuple[tuple[str, tuple[str, ...]], ...]:
    settings = {name: list(some) for name, some in readings.lists("vrf-setting").items()}
    for name, port in readings.values.get("vrf-port", ()):
        settings.setdefault(name, []).append(f"interface {port}")
    return tuple(sorted((name, tuple(sorted(some))) for name, some in settings.items()))


def _vrf_neighbours(statements: Sequence[Statement]) -> Iterator[ConfiguredNeighbour]:
    by_vrf: dict[str, list[Statement]] = {}
    for one in statements:
        if one.words[0] == "routing-instances" and one.words[2:4] == ("protocols", "bgp"):
            by_vrf.setdefault(one.words[1], []).append(replace(one, words=one.words[2:]))
    for vrf, some in by_vrf.items():
        yield from _neighbours(JUNOS.read(some), vrf)


def _neighbours(readings: Readings, vrf: str | None) -> Iterator[ConfiguredNeighbour]:
    groups = _Groups(readings, vrf)
    peers: dict[tuple[str, str], dict[str, list[str]]] = {}
    for key in (
        "peer",
        "peer-as",
        "peer-local",
        "peer-description",
        "peer-export",
        "peer-import",
        "peer-family",
        "peer-bfd",
        "peer-bfd-multiplier",
        "peer-setting",
    ):
        for group, peer, *value in readings.values.get(key, ()):
            peers.setdefault((group, peer), {}).setdefault(key, []).extend(value)
    for (group, peer), facts in peers.items():
        yield groups.neighbour(group, peer, facts, is_multihop=group in groups.multihop)
    for group, _, port in readings.values.get("group-discovery", ()):
        yield groups.neighbour(group, port.partition(".")[0], {}, is_multihop=False)


class _Groups:
    """The settings of BGP groups, which their neighbours inherit."""

    def __init__(self, readings: Readings, vrf: str | None) -> None:
        self.readings = readings
        self._vrf = vrf
        self.multihop = set(readings.firsts("group-multihop"))
        self._asns = readings.lists("group-as")
        self._export = readings.lists("group-export")
        self._import = readings.lists("group-import")
        self._local = readings.pairs("group-local")
        self._family = readings.lists("group-family")
        self._bfd = readings.pairs("group-bfd")
        self._multiplier = readings.pairs("group-bfd-multiplier")
        self._settings = readings.lists("group-setting")
        for group, *value in readings.values.get("group-multipath", ()):
            self._settings.setdefault(group, []).append(" ".join(["multipath", *value]))
        for group, *value in readings.values.get("group-multihop", ()):
            self._settings.setdefault(group, []).append(" ".join(["multihop", *value]))
        ranges = readings.lists("as-list")
        for group, name in readings.values.get("group-as-list", ()):
            self._asns.setdefault(group, []).extend(ranges.get(name, [f"undefined {name}"]))

    def neighbour(
        self, group: str, peer: str, facts: Mapping[str, list[str]], *, is_multihop: bool
    ) -> ConfiguredNeighbour:
        """Return a neighbour with what it inherits."""
        interval = facts.get("peer-bfd", [self._bfd.get(group, "")])[-1]
        multiplier = facts.get("peer-bfd-multiplier", [self._multiplier.get(group, "")])[-1]
        families = {*self._family.get(group, ()), *facts.get("peer-family", ())}
        return ConfiguredNeighbour(
            peer=peer,
            where=_peer_place(self.readings, group, peer),
            group=group,
            vrf=self._vrf,
            asns=tuple(facts.get("peer-as", self._asns.get(group, []))),
            local_address=facts.get("peer-local", [self._local.get(group, "")])[-1] or None,
            families=tuple(sorted(families)),
            exports=_names(facts.get("peer-export", self._export.get(group, []))),
            imports=_names(facts.get("peer-import", self._import.get(group, []))),
            bfd=_bfd(interval, multiplier),
            is_multihop=is_multihop,
            settings=tuple(
                sorted([*self._settings.get(group, ()), *facts.get("peer-setting", ())])
            ),
        )


def _peer_place(readings: Readings, group: str, peer: str) -> str:
    keys = ("peer-as", "peer-local", "peer-description", "peer-export", "peer", "group-discovery")
    places = (readings.places.get((key, group, peer)) for key in keys)
    return next((place for place in places if place), "")


def _bfd(interval: str, multiplier: str) -> Bfd | None:
    if not interval:
        return None
    return Bfd(
        interval_s=int(interval) / 1e3,
        multiplier=int(multiplier) if multiplier else DEFAULT_MULTIPLIER,
    )


def _names(expressions: list[str]) -> tuple[str, ...]:
    # A policy, or an expression of policies: ( A && B ).
    return tuple(name for text in expressions for name in _POLICY_NAME.findall(text))


def _policies(readings: Readings) -> Iterator[RoutingPolicy]:
    terms: dict[str, dict[str, tuple[list[str], list[str]]]] = {}
    for key, at in (("from", 0), ("to", 0), ("then", 1)):
        for policy, term, text in readings.values.get(key, ()):
            terms.setdefault(policy, {}).setdefault(term, ([], []))[at].append(text)
    for key, at in (("from-unnamed", 0), ("then-unnamed", 1)):
        for policy, text in readings.values.get(key, ()):
            terms.setdefault(policy, {}).setdefault("", ([], []))[at].append(text)
    for name, some in terms.items():
        yield RoutingPolicy(
            name=name,
            terms=tuple(
                PolicyTerm(
                    name=term,
                    conditions=tuple(sorted(conditions)),
                    actions=tuple(
                        sorted(text.replace("community add ", "add ") for text in actions)
                    ),
                )
                for term, (conditions, actions) in some.items()
            ),
        )


def _undefined(
    readings: Readings,
    policies: tuple[RoutingPolicy, ...],
    communities: Mapping[str, tuple[str, ...]],
) -> Iterator[str]:
    defined = {policy.name for policy in policies}
    used = [
        name
        for key in ("group-export", "group-import", "peer-export", "peer-import")
        for captured in readings.values.get(key, ())
        for name in _names([captured[-1]])
    ]
    used += readings.firsts("forwarding-export")
    for _, setting in readings.values.get("vrf-setting", ()):
        match = re.search(r"\b(?:export|vrf-export|vrf-import) (\S+)$", setting)
        if match and "evpn" in setting + "evpn":
            used.append(match[1])
    for policy in policies:
        for term in policy.terms:
            used += [one[7:] for one in term.conditions if one.startswith("policy ")]
    yield from (f"policy-statement {name}" for name in used if name not in defined)
    ports = {
        one[0]
        for key in ("port", "port-family", "address", "mtu", "description")
        for one in readings.values.get(key, ())
    }
    for vrf, port in readings.values.get("vrf-port", ()):
        name = port.rpartition(".")[0]
        if not _NOT_FABRIC.match(name) and not any(fnmatchcase(other, name) for other in ports):
            yield f"interface {port} of routing-instance {vrf}"
    for policy in policies:
        for term in policy.terms:
            for text in (*term.conditions, *term.actions):
                kind, _, name = text.rpartition(" ")
                used_kinds = ("community", "add", "community set", "community delete")
                if kind in used_kinds and name not in communities:
                    yield f"community {name}"
