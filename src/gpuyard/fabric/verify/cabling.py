"""Checks of cabling: rails, stripes and planes, port positions, even uplinks, oversubscription."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gpuyard.errors import Finding
from gpuyard.fabric.verify.finding import Check, error, note, warning
from gpuyard.fabric.verify.subject import Subject
from gpuyard.topology.links import Link
from gpuyard.topology.nodes import Node
from gpuyard.units import BITS_PER_S, show

TOLERANCE_RATIO = 1e-9


def _rails(subject: Subject) -> Iterator[Finding]:
    for link, server, leaf in _server_links(subject):
        nic, port = link.end_at(server.name), link.end_at(leaf.name)
        pairs = (
            ("rail", server.rail_of(nic.port), leaf.rail_of(port.port)),
            ("stripe", server.stripe, leaf.stripe),
            ("plane", server.plane_of(nic.port), leaf.plane),
        )
        for noun, wanted, actual in pairs:
            if wanted is not None and actual is not None and wanted != actual:
                yield error(
                    "rails",
                    where=str(nic),
                    what=f"belongs to {noun} {wanted + 1} and goes to {port},"
                    f" a leaf of {noun} {actual + 1}",
                    fix=f"plug it into the leaf of {noun} {wanted + 1}",
                )


def _server_links(subject: Subject) -> Iterator[tuple[Link, Node, Node]]:
    for link in subject.topology.links:
        a, b = subject.nodes[link.a.node], subject.nodes[link.b.node]
        if a.role == "server" and b.role == "leaf":
            yield link, a, b
        elif b.role == "server" and a.role == "leaf":
            yield link, b, a


def _nics(subject: Subject) -> Iterator[Finding]:
    plugged: dict[str, set[str]] = {
        node.name: set() for node in subject.topology.nodes if node.role == "server"
    }
    for link, server, _ in _server_links(subject):
        plugged[server.name].add(link.end_at(server.name).port)
    usual = Counter(map(len, plugged.values())).most_common(1)
    for name, ports in plugged.items():
        missing = [port.name for port in subject.nodes[name].ports if port.name not in ports]
        if missing:
            yield error(
                "nics",
                where=name,
                what=f"no cable in {', '.join(missing)}",
                fix="connect the NIC: a missing rail slows the whole job",
            )
        elif len(ports) != usual[0][0]:
            yield error(
                "nics",
                where=name,
                what=f"has {len(ports)} cables to leaves, and other servers have {usual[0][0]}",
                fix="connect the same number of NICs on every server",
            )


def _ports(subject: Subject) -> Iterator[Finding]:
    places: dict[str, Counter[str]] = {}
    for link, server, leaf in _server_links(subject):
        if leaf.rail is not None:
            places.setdefault(server.name, Counter())[link.end_at(leaf.name).port] += 1
    for name, ports in places.items():
        if len(ports) > 1:
            usual, _ = ports.most_common(1)[0]
            odd = ", ".join(sorted(port for port in ports if port != usual)[:3])
            yield warning(
                "ports",
                where=name,
                what=f"is in port {usual} of most leaves, and in {odd}",
                fix="use the same port on every leaf, so that a wrong cable is visible",
            )


def _spines(subject: Subject) -> Iterator[Finding]:
    counts = Counter(node.plane for node in subject.topology.nodes if node.role == "spine")
    for plane, count in sorted(counts.items(), key=str):
        if count < subject.least_spines:
            where = "spines" if plane is None else f"plane {plane + 1}"
            yield warning(
                "spines",
                where=where,
                what=f"{count} spines, and the policy is {subject.least_spines}: with two, a double"
                " failure under load can bounce traffic and end in a PFC storm",
                fix=f"use {subject.least_spines} spines, or lower min_spines to accept the risk",
            )
    for name, node in subject.nodes.items():
        if node.role not in ("leaf", "spine"):
            continue
        above = Counter(link.far_from(name).node for link in subject.wiring.uplinks(name))
        if len(set(above.values())) > 1:
            (most, high), (least, low) = above.most_common()[0], above.most_common()[-1]
            yield error(
                "spines",
                where=name,
                what=f"has {high} links to {most} and {low} to {least}: ECMP paths are unequal",
                fix="choose a number of spines that divides the uplinks, and spread them evenly",
            )


def _symmetry(subject: Subject) -> Iterator[Finding]:
    kinds: Counter[tuple[int | None, tuple[tuple[float, int], ...]]] = Counter()
    of: dict[str, tuple[int | None, tuple[tuple[float, int], ...]]] = {}
    for name, node in subject.nodes.items():
        if node.role == "leaf":
            speeds = Counter(link.speed_bits_per_s for link in subject.wiring.uplinks(name))
            of[name] = (node.plane, tuple(sorted(speeds.items())))
            kinds[of[name]] += 1
    usual = {
        plane: max((kind for kind in kinds if kind[0] == plane), key=lambda kind: kinds[kind])
        for plane in {kind[0] for kind in kinds}
    }
    for name, kind in of.items():
        if len(kind[1]) > 1:
            yield warning(
                "symmetry",
                where=name,
                what=f"has uplinks of {_speeds(kind[1])}",
                fix="use one speed: ECMP splits traffic equally, whatever the speed of a path",
            )
        elif kind != usual[kind[0]]:
            yield error(
                "symmetry",
                where=name,
                what=f"has {_speeds(kind[1])} up, and most leaves {_speeds(usual[kind[0]][1])}",
                fix="use the same uplinks on every leaf",
            )


def _speeds(kind: tuple[tuple[float, int], ...]) -> str:
    return (
        " and ".join(f"{count} × {show(speed, BITS_PER_S)}" for speed, count in kind) or "no links"
    )


def _oversubscription(subject: Subject) -> Iterator[Finding]:
    allowed, worst = subject.oversubscription_ratio, 0.0
    has_spines = any(node.role == "spine" for node in subject.topology.nodes)
    for name, node in subject.nodes.items():
        if node.role not in ("leaf", "spine") or not has_spines:
            continue
        down = sum(link.speed_bits_per_s for link in subject.wiring.downlinks(name))
        up = sum(link.speed_bits_per_s for link in subject.wiring.uplinks(name))
        if up == 0 and (node.role == "spine" or down == 0):
            continue  # the top tier, or a leaf without servers yet
        ratio = down / up if up else float("inf")
        worst = max(worst, ratio)
        if ratio > allowed * (1 + TOLERANCE_RATIO):
            yield error(
                "oversubscription",
                where=name,
                what=f"{show(down, BITS_PER_S)} down and {show(up, BITS_PER_S)} up:"
                f" {ratio:.3g}:1, and {allowed:.3g}:1 is requested",
                fix=f"add {show(down / allowed - up, BITS_PER_S)} of uplinks,"
                " or connect fewer servers",
            )
    if 0 < worst <= allowed * (1 + TOLERANCE_RATIO):
        kind = "non-blocking" if worst <= 1 else f"{allowed:.3g}:1 requested"
        yield note("oversubscription", where="all leaves", what=f"at most {worst:.3g}:1, {kind}")


CHECKS: tuple[Check[Subject], ...] = (
    Check(
        name="rails",
        verifies="NIC k of every server is on leaf k of its stripe and plane",
        find=_rails,
    ),
    Check(name="nics", verifies="every NIC has a cable", find=_nics),
    Check(
        name="ports",
        verifies="a server uses the same port on every leaf of its stripe",
        find=_ports,
    ),
    Check(
        name="spines",
        verifies="there are enough spines, and every leaf has the same number of links to each",
        find=_spines,
    ),
    Check(name="symmetry", verifies="all leaves have the same uplinks", find=_symmetry),
    Check(
        name="oversubscription",
        verifies="no leaf or spine has more bandwidth down than up, beyond the requested ratio",
        find=_oversubscription,
    ),
)
