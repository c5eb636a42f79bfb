"""BGP of NX-OS: neighbours with what they inherit from templates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuyard.fabric.configs.device_config import ConfiguredNeighbour
from gpuyard.fabric.configs.statement import Readings, Statement
from gpuyard.fabric.routing import Bfd

_SCOPES = ("router bgp {asn}", "router bgp {asn} vrf {vrf}")
_HOLDERS = {
    "n": "neighbor {peer}",
    "t": "template {kind} {name}",
}
_FAMILY = "address-family {family} {sub}"
_LINES = {
    "is": ("",),
    "as": ("remote-as {asn}",),
    "inherit": ("inherit peer {name}", "inherit peer-session {name}"),
    "f-inherit": (f"{_FAMILY} inherit peer-policy {{name}} {{order}}",),
    "description": ("description {text*}",),
    "source": ("update-source {source}",),
    "multihop": ("ebgp-multihop", "ebgp-multihop {hops}"),
    "bfd": ("bfd", "bfd {kind}"),
    "setting": ("{setting*}",),
    "f": (_FAMILY,),
    "f-map": (f"{_FAMILY} route-map {{name}} {{direction}}",),
    "p-map": ("route-map {name} {direction}",),
    "f-setting": (f"{_FAMILY} {{setting*}}",),
}
MODELLED: dict[str, tuple[str, ...]] = {
    **{
        f"{holder}-{key}{suffix}": tuple(f"{scope} {start} {line}" for line in lines)
        for holder, start in _HOLDERS.items()
        for key, lines in _LINES.items()
        for scope, suffix in zip(_SCOPES, ("", "-vrf"), strict=True)
    },
    "asn": ("router bgp {asn}",),
    "vrf-asn": ("router bgp {asn} vrf {vrf}",),
    "router-id": ("router bgp {asn} router-id {address}",),
    "relax": ("router bgp {asn} bestpath as-path multipath-relax",),
    "paths": (f"router bgp {{asn}} {_FAMILY} maximum-paths {{count}}",),
    "family": tuple(f"{scope} {_FAMILY}" for scope in _SCOPES),
    "f-setting": (f"router bgp {{asn}} {_FAMILY} {{setting*}}",),
    "f-setting-vrf": (f"router bgp {{asn}} vrf {{vrf}} {_FAMILY} {{setting*}}",),
    "bgp-setting": ("router bgp {asn} {setting*}",),
    "vrf-bgp-setting": ("router bgp {asn} vrf {vrf} {setting*}",),
    "bfd-timers": (
        "bfd interval {tx} min_rx {rx} multiplier {count}",
        "bfd ipv4 interval {tx} min_rx {rx} multiplier {count}",
    ),
    "bfd-multihop": ("bfd multihop interval {tx} min_rx {rx} multiplier {count}",),
}
DEFAULT_BFD = Bfd(interval_s=0.05, multiplier=3)  # of NX-OS
DEFAULT_MULTIHOP_BFD = Bfd(interval_s=0.25, multiplier=3)
Lines = dict[str, list[tuple[str, ...]]]


def without_remote_as(statements: Iterable[Statement]) -> Iterator[Statement]:
    """Yield statements of `neighbor X remote-as N` contexts as those of `neighbor X`."""
    for one in statements:
        words = one.words
        at = words.index("remote-as") if "remote-as" in words else -1
        if words[:2] == ("router", "bgp") and at > 1 and at + 2 < len(words):
            words = (*words[:at], *words[at + 2 :])
        yield Statement(words=words, file=one.file, line=one.line)


def neighbours(readings: Readings) -> Iterator[ConfiguredNeighbour]:
    """Yield every neighbour with what it inherits."""
    holders: dict[tuple[str, str, str], Lines] = {}
    for holder in _HOLDERS:
        for suffix in ("", "-vrf"):
            for key in _LINES:
                for captured in readings.values.get(f"{holder}-{key}{suffix}", ()):
                    rest = captured[1:]
                    vrf, rest = (rest[0], rest[1:]) if suffix else ("", rest)
                    rest = rest[1:] if holder == "t" else rest  # without the kind of template
                    lines = holders.setdefault((holder, vrf, rest[0]), {})
                    lines.setdefault(key, []).append(rest[1:])
    for (holder, vrf, name), own in holders.items():
        if holder == "n":
            yield _neighbour(readings, name, vrf, own, holders)


def _neighbour(
    readings: Readings,
    peer: str,
    vrf: str,
    own: Lines,
    holders: dict[tuple[str, str, str], Lines],
) -> ConfiguredNeighbour:
    names = [line[0] for line in own.get("inherit", ())]
    policies = [line[-2] for line in own.get("f-inherit", ())]
    layers = [own]
    for name in (*names, *policies):
        layers.append(holders.get(("t", "", name), {}))

    def lines(key: str) -> list[tuple[str, ...]]:
        return next((layer[key] for layer in layers if key in layer), [])

    maps = [(line[-2], line[-1]) for key in ("f-map", "p-map") for line in lines(key)]
    sources, kinds = lines("source"), lines("bfd")
    families = {
        " ".join(line[:2])
        for layer in layers
        for key in ("f", "f-map", "f-setting")
        for line in layer.get(key, ())
    }
    return ConfiguredNeighbour(
        peer=peer,
        where=readings.places.get(("n-is-vrf" if vrf else "n-is",), "")
        and _place(readings, peer, vrf),
        group=names[0] if names else "",
        vrf=vrf or None,
        asns=tuple(dict.fromkeys(line[0] for line in lines("as"))),
        local_address=sources[-1][0] if sources else None,
        families=tuple(sorted(families)),
        exports=tuple(dict.fromkeys(name for name, direction in maps if direction == "out")),
        imports=tuple(dict.fromkeys(name for name, direction in maps if direction == "in")),
        bfd=_bfd(readings, kinds[-1][0] if kinds[-1] else "") if kinds else None,
        is_multihop=bool(lines("multihop")),
        settings=tuple(
            sorted(
                {
                    " ".join(line)
                    for layer in layers
                    for key in ("setting", "f-setting")
                    for line in layer.get(key, ())
                }
            )
        ),
    )


def _place(readings: Readings, peer: str, vrf: str) -> str:
    for (key, *captured), place in readings.places.items():
        if key.startswith("n-") and peer in captured and (not vrf or key.endswith("-vrf")):
            return place
    return ""


def _bfd(readings: Readings, kind: str) -> Bfd:
    multihop = kind == "multihop"
    timers = readings.values.get("bfd-multihop" if multihop else "bfd-timers")
    if not timers:
        return DEFAULT_MULTIHOP_BFD if multihop else DEFAULT_BFD
    interval, _, count = timers[-1]
    return Bfd(interval_s=int(interval) / 1e3, multiplier=int(count))


def undefined_templates(readings: Readings) -> Iterator[str]:
    """Yield templates that are inherited and not defined."""
    defined = {captured[2] for key in ("t-is",) for captured in readings.values.get(key, ())}
    for suffix, at in (("", 2), ("-vrf", 3)):
        for captured in readings.values.get(f"n-inherit{suffix}", ()):
            if captured[at] not in defined:
                yield f"template {captured[at]}"
        for captured in readings.values.get(f"n-f-inherit{suffix}", ()):
            if captured[-2] not in defined:
                yield f"template {captured[-2]}"
