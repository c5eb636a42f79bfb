"""Statements in which one device differs from all others of its role."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from gpuyard.errors import Finding
from gpuyard.fabric.configs.device_config import DeviceConfig
from gpuyard.fabric.configs.statement import Statement
from gpuyard.fabric.verify.finding import warning

MIN_DEVICES = 3  # fewer have no majority
Key = tuple[str, ...]


def outliers(devices: Sequence[DeviceConfig]) -> Iterator[Finding]:
    """Yield statements that all devices of a role have alike, except one."""
    for peers in _roles(devices):
        if len(peers) >= MIN_DEVICES:
            yield from _of_role(peers)


def _roles(devices: Sequence[DeviceConfig]) -> Iterator[list[DeviceConfig]]:
    """Devices of one OS with the same BGP groups; one with other groups joins the most similar."""
    clusters: dict[tuple[str, frozenset[str]], list[DeviceConfig]] = defaultdict(list)
    for device in devices:
        groups = frozenset(one.group for one in device.bgp.neighbours)
        clusters[device.os, groups].append(device)
    large = {key: some for key, some in clusters.items() if len(some) > 1}
    for (system, groups), some in clusters.items():
        if len(some) == 1:
            near = [key for key in large if key[0] == system and key[1] & groups]
            if near:
                best = max(near, key=lambda key: len(key[1] & groups) / len(key[1] | groups))
                large[best].extend(some)
    yield from large.values()


def _of_role(peers: Sequence[DeviceConfig]) -> Iterator[Finding]:
    tables = [_table(device) for device in peers]
    counts = Counter(key for table in tables for key in table)
    reported = set[tuple[str, Key]]()
    for key, count in counts.items():
        if count < len(peers) - 1:
            continue
        values = Counter(frozenset(table.get(key, {})) for table in tables)
        usual, agreeing = values.most_common(1)[0]
        is_lost = count == len(peers) - 1 >= MIN_DEVICES  # whatever the others have
        if is_lost:
            usual, agreeing = frozenset({"a value"}), count
        if agreeing != len(peers) - 1 or not usual:
            continue
        for device, table in zip(peers, tables, strict=True):
            here = table.get(key, {})
            if (
                frozenset(here) == usual
                or (is_lost and here)
                or (device.hostname, key[:-1]) in reported
            ):
                continue
            reported |= {(device.hostname, key), (device.hostname, key[:-1])}
            place = next(iter(here.values())).where if here else device.file
            yield warning(
                "config-outlier",
                f"{device.hostname} ({place})",
                f"`{' '.join(key)}` {_values(here)};"
                f" the {agreeing} others of its role: {_values(usual)}",
                "configure the devices of one role alike, or ignore it if it is meant",
            )


def _table(device: DeviceConfig) -> dict[Key, dict[str, Statement]]:
    """The last word of every statement, by the words before it; its own numbers are neutral."""
    own = {str(device.bgp.asn): "ASN", str(device.bgp.router_id): "ROUTER-ID"}
    table: dict[Key, dict[str, Statement]] = defaultdict(dict)
    for statement in device.statements:
        words = tuple(own.get(word, word) for word in statement.words)
        table[words[:-1]][words[-1]] = statement
    return table


def _values(some: dict[str, Statement] | frozenset[str]) -> str:
    return " ".join(sorted(some)) or "is missing"
