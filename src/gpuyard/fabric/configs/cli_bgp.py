"""BGP and route maps in the grammar that FRR and EOS share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuyard.fabric.configs.device_config import ConfiguredNeighbour, PolicyTerm, RoutingPolicy
from gpuyard.fabric.configs.statement import Readings
from gpuyard.fabric.routing import Bfd

_SCOPES = ("router bgp {asn}", "router bgp {asn} vrf {vrf}")
_FAMILY = "address-family {family} {sub}"
_NEIGHBOUR = {
    "as": ("neighbor {peer} remote-as {asn}",),
    "interface-as": ("neighbor {peer} interface remote-as {asn}",),
    "interface": ("neighbor {peer} interface", "neighbor {peer} interface v6only"),
    "interface-group": ("neighbor {peer} interface peer-group {group}",),
    "eos-interface": ("neighbor interface {port} peer-group {group} remote-as {asn}",),
    "group": ("neighbor {peer} peer-group {group}", "neighbor {peer} peer group {group}"),
    "is-group": ("neighbor {peer} peer-group", "neighbor {peer} peer group"),
    "description": ("neighbor {peer} description {text*}",),
    "source": ("neighbor {peer} update-source {source}",),
    "multihop": ("neighbor {peer} ebgp-multihop", "neighbor {peer} ebgp-multihop {hops}"),
    "bfd": ("neighbor {peer} bfd",),
    "bfd-profile": ("neighbor {peer} bfd profile {profile}",),
    "bfd-timers": (
        "neighbor {peer} bfd interval {tx} min-rx {rx} multiplier {count}",
        "neighbor {peer} bfd {count} {rx} {tx}",
    ),
    "map": ("neighbor {peer} route-map {name} {direction}",),
    "setting": ("neighbor {peer} {setting*}", "no neighbor {peer} {setting*}"),
}
MODELLED: dict[str, tuple[str, ...]] = {
    **{
        f"n-{key}{suffix}": tuple(f"{scope} {pattern}" for pattern in patterns)
        for key, patterns in _NEIGHBOUR.items()
        for scope, suffix in zip(_SCOPES, ("", "-vrf"), strict=True)
    },
    **{
        f"f-{key}{suffix}": (f"{scope} {_FAMILY} {pattern}",)
        for key, pattern in {
            "activate": "neighbor {peer} activate",
            "deactivate": "no neighbor {peer} activate",
            "map": "neighbor {peer} route-map {name} {direction}",
            "neighbour": "neighbor {peer} {setting*}",
            "paths": "maximum-paths {count}",
            "setting": "{setting*}",
        }.items()
        for scope, suffix in zip(_SCOPES, ("", "-vrf"), strict=True)
    },
    # EOS names a family with one word.
    "f-word-activate": ("router bgp {asn} address-family {family} neighbor {peer} activate",),
    "asn": ("router bgp {asn}",),
    "vrf-asn": ("router bgp {asn} vrf {vrf}",),
    "family": tuple(
        f"{scope} {family}" for scope in _SCOPES for family in (_FAMILY, "address-family {family}")
    ),
    "router-id": (
        "router bgp {asn} bgp router-id {address}",
        "router bgp {asn} router-id {address}",
    ),
    "relax": ("router bgp {asn} bgp bestpath as-path multipath-relax",),
    "paths": (
        "router bgp {asn} maximum-paths {count}",
        "router bgp {asn} maximum-paths {count} ecmp {width}",
    ),
    "bgp-setting": ("router bgp {asn} {setting*}",),
    "vrf-bgp-setting": ("router bgp {asn} vrf {vrf} {setting*}",),
    "map": ("route-map {name} {action} {sequence}",),
    "map-line": ("route-map {name} {action} {sequence} {line*}",),
    "community": (
        "bgp community-list standard {name} {action} {values*}",
        "bgp community-list expanded {name} {action} {values*}",
        "bgp community-list {name} {action} {values*}",
        "ip community-list {name} {action} {values*}",
        "ip community-list standard {name} {action} {values*}",
    ),
}


def neighbours(
    readings: Readings, profiles: Mapping[str, Bfd], default_bfd: Bfd | None
) -> Iterator[ConfiguredNeighbour]:
    """Yield every BGP neighbour with what it inherits from its peer group."""
    facts = _Facts(readings)
    for vrf, peer in facts.peers:
        yield facts.neighbour(vrf, peer, profiles, default_bfd)


class _Facts:
    """What is configured for each neighbour and group, by VRF."""

    def __init__(self, readings: Readings) -> None:
        self.readings = readings
        self._by_peer: dict[tuple[str, str], dict[str, list[tuple[str, ...]]]] = {}
        for suffix in ("", "-vrf"):
            for key in (*_NEIGHBOUR, "f-activate", "f-deactivate", "f-map", "f-neighbour"):
                name = key if key.startswith("f-") else f"n-{key}"
                for captured in readings.values.get(f"{name}{suffix}", ()):
                    self._note(key, captured[1:], bool(suffix))
        for _, family, peer in readings.values.get("f-word-activate", ()):
            lines = self._by_peer.setdefault(("", peer), {})
            lines.setdefault("f-activate", []).append((family,))
        groups = {peer for (_, peer), lines in self._by_peer.items() if "is-group" in lines}
        self.peers = [
            (vrf, peer)
            for (vrf, peer), lines in self._by_peer.items()
            if peer not in groups and peer and set(lines) - {"f-activate", "f-deactivate"}
        ]

    def _note(self, key: str, captured: tuple[str, ...], in_vrf: bool) -> None:
        vrf, rest = (captured[0], captured[1:]) if in_vrf else ("", captured)
        if key.startswith("f-"):
            family, sub, peer, *values = rest
            values = [f"{family} {sub}", *values]
        else:
            peer, *values = rest
        self._by_peer.setdefault((vrf, peer), {}).setdefault(key, []).append(tuple(values))

    def _lines(self, vrf: str, peer: str, key: str, group: str) -> list[tuple[str, ...]]:
        own = self._by_peer.get((vrf, peer), {}).get(key)
        if own is not None or not group:
            return own or []
        return self._by_peer.get((vrf, group), {}).get(key, [])

    def neighbour(
        self, vrf: str, peer: str, profiles: Mapping[str, Bfd], default_bfd: Bfd | None
    ) -> ConfiguredNeighbour:
        facts = self._by_peer[vrf, peer]
        groups = [
            *facts.get("group", []),
            *facts.get("interface-group", []),
            *facts.get("eos-interface", []),
        ]
        group = groups[-1][0] if groups else ""
        asns = [*self._lines(vrf, peer, "as", group), *facts.get("interface-as", [])]
        asns += [(line[1],) for line in facts.get("eos-interface", [])]
        sources = self._lines(vrf, peer, "source", group)
        maps = [
            *((line[0], line[1]) for line in self._lines(vrf, peer, "map", group)),
            *((line[1], line[2]) for line in self._lines(vrf, peer, "f-map", group)),
        ]
        active = {line[0] for line in self._lines(vrf, peer, "f-activate", group)}
        active -= {line[0] for line in self._lines(vrf, peer, "f-deactivate", group)}
        settings = [
            " ".join(line)
            for key in ("setting", "f-neighbour")
            for line in self._lines(vrf, peer, key, group)
        ]
        return ConfiguredNeighbour(
            peer=peer,
            where=self._place(peer),
            group=group,
            vrf=vrf or None,
            asns=tuple(dict.fromkeys(line[0] for line in asns)),
            local_address=sources[-1][0] if sources else None,
            families=tuple(sorted(active)),
            exports=tuple(dict.fromkeys(name for name, direction in maps if direction == "out")),
            imports=tuple(dict.fromkeys(name for name, direction in maps if direction == "in")),
            bfd=self._bfd(vrf, peer, group, profiles, default_bfd),
            is_multihop=bool(self._lines(vrf, peer, "multihop", group)),
            settings=tuple(sorted(settings)),
        )

    def _bfd(
        self, vrf: str, peer: str, group: str, profiles: Mapping[str, Bfd], default: Bfd | None
    ) -> Bfd | None:
        timers = self._lines(vrf, peer, "bfd-timers", group)
        if timers:
            first, _, third = timers[-1]
            interval, count = (first, third) if int(first) > 255 else (third, first)
            return Bfd(interval_s=int(interval) / 1e3, multiplier=int(count))
        named = self._lines(vrf, peer, "bfd-profile", group)
        if named:
            return profiles.get(named[-1][0], default)
        return default if self._lines(vrf, peer, "bfd", group) else None

    def _place(self, peer: str) -> str:
        for (key, *captured), place in self.readings.places.items():
            if key.startswith("n-") and peer in captured:
                return place
        return ""


def policies(readings: Readings) -> Iterator[RoutingPolicy]:
    """Yield the route maps; a term denies or permits."""
    terms: dict[str, dict[str, tuple[str, list[str]]]] = {}
    for name, action, sequence, *line in (
        *readings.values.get("map", ()),
        *readings.values.get("map-line", ()),
    ):
        entry = terms.setdefault(name, {}).setdefault(sequence, (action, []))
        entry[1].extend(line)
    for name, some in terms.items():
        yield RoutingPolicy(
            name=name,
            terms=tuple(
                _term(sequence, *some[sequence]) for sequence in sorted(some, key=_sequence)
            ),
        )


def _sequence(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _term(sequence: str, action: str, lines: list[str]) -> PolicyTerm:
    conditions, actions = [], ["reject" if action == "deny" else "accept"]
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind == "match":
            conditions.append(rest.removesuffix(" exact-match"))
        elif line.startswith("set community "):
            words = [word for word in line.split()[2:] if word != "additive"]
            actions += [f"add {word}" for word in words]
            if "additive" not in line:
                actions.append("replace communities")
        elif kind != "description":
            actions.append(line)
    return PolicyTerm(
        name=sequence, conditions=tuple(sorted(conditions)), actions=tuple(sorted(actions))
    )


def communities(readings: Readings) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the values of every community list that is permitted."""
    lists: dict[str, list[str]] = {}
    for name, action, values in readings.values.get("community", ()):
        words = values.removeprefix("permit ").split() if action.isdigit() else values.split()
        if action != "deny" and values.split()[:1] != ["deny"]:
            lists.setdefault(name, []).extend(words)
    return tuple(sorted((name, tuple(sorted(values))) for name, values in lists.items()))


def undefined(
    readings: Readings,
    some: tuple[RoutingPolicy, ...],
    known: tuple[tuple[str, tuple[str, ...]], ...],
) -> Iterator[str]:
    """Yield route maps, community lists and peer groups that are used and not defined."""
    defined, lists = {policy.name for policy in some}, {name for name, _ in known}
    for key in ("n-map", "n-map-vrf", "f-map", "f-map-vrf"):
        for captured in readings.values.get(key, ()):
            if captured[-2] not in defined:
                yield f"route-map {captured[-2]}"
    for policy in some:
        for term in policy.terms:
            for condition in term.conditions:
                kind, _, name = condition.rpartition(" ")
                if kind == "community" and name not in lists:
                    yield f"community-list {name}"
    groups = {
        captured[-1]
        for key in ("n-is-group", "n-is-group-vrf")
        for captured in readings.values.get(key, ())
    }
    for key in ("n-group", "n-group-vrf", "n-interface-group", "n-eos-interface"):
        for captured in readings.values.get(key, ()):
            name = captured[-2] if key == "n-eos-interface" else captured[-1]
            if name not in groups:
                yield f"peer-group {name}"
