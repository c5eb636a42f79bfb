"""Objects of one kind that differ from their siblings: neighbours, VRFs, policies of tenants.

Siblings have the same name apart from numbers (tenant-1, tenant-2). One that differs while at least
three quarters of them agree, is reported.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from gpuyard.errors import Finding
from gpuyard.fabric.configs.device_config import ConfiguredNeighbour, DeviceConfig
from gpuyard.fabric.configs.links import links_of
from gpuyard.fabric.verify.finding import warning

MIN_AGREEING, MIN_AGREEING_RATIO = 3, 0.75
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sibling:
    """An object with what it should have in common with its siblings."""

    where: str
    label: str
    parts: tuple[tuple[str, Hashable], ...]


def unlike_siblings(devices: Sequence[DeviceConfig]) -> Iterator[Finding]:
    """Yield objects that differ from most of their siblings."""
    families: dict[tuple[str, ...], list[Sibling]] = defaultdict(list)
    for device in devices:
        for neighbour in device.bgp.neighbours:
            family = ("neighbour", device.hostname, neighbour.group, neighbour.vrf or "")
            families[family].append(_neighbour(device, neighbour))
            families["neighbour", device.hostname].append(_membership(device, neighbour))
        for name, settings in device.vrfs:
            shapes = frozenset(_plain(one) for one in settings if not one.startswith("interface "))
            part = (("settings", shapes),)
            where = f"{device.hostname} VRF {name}"
            families["vrf", device.os, _plain(name)].append(
                Sibling(where=where, label=name, parts=part)
            )
        for policy in device.policies:
            terms = tuple(
                (_plain(term.name), _all_plain(term.conditions), _all_plain(term.actions))
                for term in policy.terms
            )
            families["policy", device.os, _plain(policy.name)].append(
                Sibling(
                    where=f"{device.hostname} policy {policy.name}",
                    label=policy.name,
                    parts=(("terms", terms),),
                )
            )
    for (kind, *_), some in families.items():
        yield from _unlike(kind, some)
    yield from _outside_vrfs(devices)
    yield from _router_ids(devices)


def _plain(text: str) -> str:
    return _NUMBER.sub("#", text)


def _all_plain(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(map(_plain, texts)))


def _neighbour(device: DeviceConfig, one: ConfiguredNeighbour) -> Sibling:
    place = f" ({one.where})" if one.where else ""
    return Sibling(
        where=f"{device.hostname} neighbour {one.peer}{place}",
        label=one.peer,
        parts=(
            ("local address", one.local_address is not None),
            ("AS number", bool(one.asns)),
            ("export policy", one.exports),
            ("import policy", one.imports),
            ("address families", one.families),
            ("BFD", one.bfd),
            ("multihop", one.is_multihop),
            ("settings", one.settings),
        ),
    )


def _membership(device: DeviceConfig, one: ConfiguredNeighbour) -> Sibling:
    return Sibling(
        where=f"{device.hostname} neighbour {one.peer}",
        label=one.peer,
        parts=(("peer group", bool(one.group)),),
    )


def _unlike(kind: str, some: Sequence[Sibling]) -> Iterator[Finding]:
    if len(some) <= MIN_AGREEING:
        return
    for at, (label, _) in enumerate(some[0].parts):
        values = Counter(one.parts[at][1] for one in some)
        usual, count = values.most_common(1)[0]
        if count < max(MIN_AGREEING, MIN_AGREEING_RATIO * len(some)):
            continue
        for one in some:
            if one.parts[at][1] != usual:
                yield warning(
                    f"config-{kind}",
                    one.where,
                    f"{label} differ from those of its {count} siblings",
                    f"configure it as its siblings, such as {_example(some, at, usual)}",
                )


def _example(some: Sequence[Sibling], at: int, usual: Hashable) -> str:
    return next(one.label for one in some if one.parts[at][1] == usual)


def _outside_vrfs(devices: Sequence[DeviceConfig]) -> Iterator[Finding]:
    joined = {
        (one.device.hostname, one.port.name) for pair in links_of(devices).pairs for one in pair
    }
    for device in devices:
        edge = [
            port
            for port in device.ports
            if port.addresses and (device.hostname, port.name) not in joined
        ]
        outside = [port for port in edge if port.vrf is None]
        if len(outside) == 1 and len(edge) > MIN_AGREEING:
            place = f" ({outside[0].where})" if outside[0].where else ""
            yield warning(
                "config-vrf",
                f"{device.hostname}:{outside[0].name}{place}",
                f"is in no VRF; the {len(edge) - 1} other ports outside the fabric are in one",
                "add it to the VRF of its tenant",
            )


def _router_ids(devices: Sequence[DeviceConfig]) -> Iterator[Finding]:
    without = [device for device in devices if not device.loopbacks]
    if len(devices) > MIN_AGREEING and len(without) == 1:
        yield warning(
            "config-address",
            without[0].hostname,
            f"has no loopback; the {len(devices) - 1} other devices have one",
            "configure its loopback",
        )
    for device in devices:
        loopbacks = [address.partition("/")[0] for address in device.loopbacks]
        router_id = device.bgp.router_id
        if router_id is not None and loopbacks and router_id not in loopbacks:
            yield warning(
                "config-bgp",
                device.hostname,
                f"router id {router_id} is not an address of its loopback",
                f"use {loopbacks[0]}",
            )
