"""Checks of the cabling: rails, stripes and planes, ports in the same place, links spread evenly, bandwidth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gpuyard.fabric.verify.finding import Check, Finding, error, note, warning
from gpuyard.fabric.verify.subject import Subject
from gpuyard.topology import Link, Node
from gpuyard.units import BITS_PER_S, show

__all__ = ["CHECKS"]

TOLERANCE_RATIO = 1e-9


def _rails(subject: Subject) -> Iterator[Finding]:
    """NIC k on the leaf of rail k, in its own stripe and plane."""
    for link, server, leaf in _server_links(subject):
        nic, port = link.end_at(server.name), link.end_at(leaf.name)
        pairs = (
            ("rail", server.rail_of(nic.port), leaf.rail),
            ("stripe", server.stripe, leaf.stripe),
            ("plane", server.plane_of(nic.port), leaf.plane),
        )
        for noun, wanted, found in pairs:
            if wanted is not None and found is not None and wanted != found:
                yield error(
                    "rails",
                    where=str(nic),
                    what=f"is of {noun} {wanted + 1} and goes to {port}, a leaf of {noun} {found + 1}",
                    fix=f"plug it into the leaf of {noun} {wanted + 1}",
                )


def _server_links(subject: Subject) -> Iterator[tuple[Link, Node, Node]]:
    """Links between a server and a leaf."""
    for link in subject.topology.links:
        a, b = subject.nodes[link.a.node], subject.nodes[link.b.node]
        if a.role == "server" and b.role == "leaf":
            yield link, a, b
        elif b.role == "server" and a.role == "leaf":
            yield link, b, a


def _nics(subject: Subject) -> Iterator[Finding]:
    """Every server has as many links as the others, and every declared NIC has a cable."""
    plugged: dict[str, set[str]] = {node.name: set() for node in subject.topology.nodes if node.role == "server"}
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
                fix="plug in the NIC: a rail without it slows the whole job",
            )
        elif len(ports) != usual[0][0]:
            yield error(
                "nics",
                where=name,
                what=f"has {len(ports)} cables to leaves, the others {usual[0][0]}",
                fix="give every server the same number of NICs",
            )


def _ports(subject: Subject) -> Iterator[Finding]:
    """A server sits in the same port on every leaf of its stripe."""
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
                fix="use the same port of every leaf, so that a wrong cable shows",
            )


def _spines(subject: Subject) -> Iterator[Finding]:
    """Enough spines, and each leaf has the same number of links to each of them."""
    counts = Counter(node.plane for node in subject.topology.nodes if node.role == "spine")
    for plane, count in sorted(counts.items(), key=str):
        if count < subject.least_spines:
            where = "spines" if plane is None else f"plane {plane + 1}"
            yield warning(
                "spines",
                where=where,
                what=f"{count} spines, and {subject.least_spines} are the policy: with two, a double failure "
                "under load can bounce traffic and end in a PFC storm",
                fix=f"build {subject.least_spines} spines, or lower min_spines if you accept that",
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
                what=f"has {high} links to {most} and {low} to {least}: equal paths are not equally wide",
                fix="choose a number of spines that divides the uplinks, and spread them evenly",
            )


def _symmetry(subject: Subject) -> Iterator[Finding]:
    """Leaves of a plane have the same uplinks."""
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
                fix="use one speed: equal paths share traffic equally, whatever their speed",
            )
        elif kind != usual[kind[0]]:
            yield error(
                "symmetry",
                where=name,
                what=f"has {_speeds(kind[1])} up, most leaves {_speeds(usual[kind[0]][1])}",
                fix="give every leaf the same uplinks",
            )


def _speeds(kind: tuple[tuple[float, int], ...]) -> str:
    """How many links of which speed."""
    return " and ".join(f"{count} × {show(speed, BITS_PER_S)}" for speed, count in kind) or "no links"


def _oversubscription(subject: Subject) -> Iterator[Finding]:
    """No switch takes in more from below than it can pass up."""
    allowed, worst = subject.oversubscription_ratio, 0.0
    has_spines = any(node.role == "spine" for node in subject.topology.nodes)
    for name, node in subject.nodes.items():
        if node.role not in ("leaf", "spine") or not has_spines:
            continue
        down = sum(link.speed_bits_per_s for link in subject.wiring.downlinks(name))
        up = sum(link.speed_bits_per_s for link in subject.wiring.uplinks(name))
        if up == 0 and (node.role == "spine" or down == 0):
            continue  # the top tier, or a leaf that waits for its servers
        ratio = down / up if up else float("inf")
        worst = max(worst, ratio)
        if ratio > allowed * (1 + TOLERANCE_RATIO):
            yield error(
                "oversubscription",
                where=name,
                what=f"{show(down, BITS_PER_S)} below and {show(up, BITS_PER_S)} above: {ratio:.3g}:1, "
                f"and {allowed:.3g}:1 is asked",
                fix=f"add {show(down / allowed - up, BITS_PER_S)} of uplinks, or connect fewer servers",
            )
    if 0 < worst <= allowed * (1 + TOLERANCE_RATIO):
        kind = "non-blocking" if worst <= 1 else f"{allowed:.3g}:1 as asked"
        yield note("oversubscription", where="all leaves", what=f"{worst:.3g}:1 at most, {kind}")


CHECKS: tuple[Check[Subject], ...] = (
    Check(name="rails", proves="NIC k of every server is on the leaf of rail k, of its stripe and plane", find=_rails),
    Check(name="nics", proves="every NIC has its cable", find=_nics),
    Check(name="ports", proves="a server is in the same port of every leaf of its stripe", find=_ports),
    Check(name="spines", proves="there are enough spines, and each leaf spreads over them evenly", find=_spines),
    Check(name="symmetry", proves="all leaves have the same uplinks", find=_symmetry),
    Check(name="oversubscription", proves="no leaf or spine takes in more than it passes up", find=_oversubscription),
)
