"""A cable as somebody saw it: one line of a table, or one neighbour that a device reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from gpuyard.document import Doc
from gpuyard.units import BITS_PER_S, LENGTH

__all__ = ["Disagreement", "Place", "Seen", "Sighting", "seen_cables"]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Place:
    """A port as it was written; other spellings stand beside it, such as a description or a MAC address."""

    device: str
    port: str
    others: Annotated[tuple[str, ...], Doc("what else the same port was called")] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Device and port alone."""
        return self.device, self.port

    def __str__(self) -> str:
        return f"{self.device} {self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """Two ports that somebody saw joined, and where it is written."""

    where: Annotated[str, Doc("file and line")]
    near: Place
    far: Place
    seen_by: Annotated[str, Doc("the device that reports it; empty for a table of cables")] = ""
    speed_bits_per_s: Annotated[float | None, BITS_PER_S] = None
    cable_m: Annotated[float | None, LENGTH] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A cable after all sightings were joined."""

    a: Place
    b: Place
    where: str
    speed_bits_per_s: float | None = None
    cable_m: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """Two sightings that cannot both be true, or a cable that one end sees and the other, which was asked, does not."""

    where: str
    what: str
    fix: str


def seen_cables(sightings: Sequence[Sighting]) -> tuple[tuple[Seen, ...], tuple[Disagreement, ...]]:
    """Each cable once, and what the ends disagree about; of two sightings of a port, the first is kept."""
    cables: dict[frozenset[tuple[str, str]], Sighting] = {}
    at: dict[tuple[str, str], Sighting] = {}
    odd: list[Disagreement] = []
    sides: dict[frozenset[tuple[str, str]], set[str]] = {}
    for sighting in sightings:
        ends = frozenset((sighting.near.key, sighting.far.key))
        if ends in cables:
            sides[ends].add(sighting.seen_by)
            continue
        clash = next((at[place.key] for place in (sighting.near, sighting.far) if place.key in at), None)
        if clash is not None:
            odd.append(_clash(sighting, clash))
            continue
        cables[ends], sides[ends] = sighting, {sighting.seen_by}
        at[sighting.near.key] = at[sighting.far.key] = sighting
    asked = {sighting.seen_by for sighting in sightings if sighting.seen_by}
    odd += _one_sided(cables.items(), sides, asked)
    found = tuple(
        Seen(a=each.near, b=each.far, where=each.where, speed_bits_per_s=each.speed_bits_per_s, cable_m=each.cable_m)
        for each in cables.values()
    )
    return found, tuple(odd)


def _clash(sighting: Sighting, before: Sighting) -> Disagreement:
    """One port with two cables."""
    return Disagreement(
        where=sighting.where,
        what=f"{sighting.near} – {sighting.far}, and {before.where} says {before.near} – {before.far}",
        fix="look at the port: a cable was moved while this was collected, or one side names its ports otherwise",
    )


def _one_sided(
    cables: Iterable[tuple[frozenset[tuple[str, str]], Sighting]],
    sides: dict[frozenset[tuple[str, str]], set[str]],
    asked: set[str],
) -> list[Disagreement]:
    """Cables that only one of two reporting devices sees: a fibre with one dead strand looks like this."""
    return [
        Disagreement(
            where=sighting.where,
            what=f"{sighting.near} sees {sighting.far}, which does not see it",
            fix="check both strands of the cable, and that LLDP is sent on both ports",
        )
        for ends, sighting in cables
        if sighting.seen_by and {device for device, _ in ends} <= asked and len(sides[ends]) == 1
    ]
