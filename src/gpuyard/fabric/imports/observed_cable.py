"""Observed cables: rows of a CSV or LLDP neighbours, merged into one cable per pair of ports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.errors import Finding
from gpuyard.units import BITS_PER_S, LENGTH


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ReportedPort:
    """A port as a report names it."""

    device: str
    port: str
    others: Annotated[tuple[str, ...], Doc("other names: a description, a MAC address")] = ()

    @property
    def key(self) -> tuple[str, str]:
        return self.device, self.port

    def __str__(self) -> str:
        return f"{self.device} {self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCable:
    """Two ports that a report says are connected."""

    where: Annotated[str, Doc("file and line")]
    near: ReportedPort
    far: ReportedPort
    seen_by: Annotated[str, Doc("the device that reports it; empty for a CSV")] = ""
    speed_bits_per_s: Annotated[float | None, BITS_PER_S] = None
    cable_m: Annotated[float | None, LENGTH] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedCable:
    """A cable after all observations of it were merged."""

    a: ReportedPort
    b: ReportedPort
    where: str
    speed_bits_per_s: float | None = None
    cable_m: float | None = None


def merge_observations(
    observations: Sequence[ObservedCable],
) -> tuple[tuple[MergedCable, ...], tuple[Finding, ...]]:
    """Return each cable once, and the conflicts; of two observations of a port the first wins."""
    cables: dict[frozenset[tuple[str, str]], ObservedCable] = {}
    by_port: dict[tuple[str, str], ObservedCable] = {}
    conflicts: list[Finding] = []
    observers: dict[frozenset[tuple[str, str]], set[str]] = {}
    for observed in observations:
        ends = frozenset((observed.near.key, observed.far.key))
        if ends in cables:
            observers[ends].add(observed.seen_by)
            continue
        before = by_port.get(observed.near.key) or by_port.get(observed.far.key)
        if before is not None:
            conflicts.append(_conflict(observed, before))
            continue
        cables[ends] = observed
        observers[ends] = {observed.seen_by}
        by_port[observed.near.key] = by_port[observed.far.key] = observed
    reporting = {observed.seen_by for observed in observations if observed.seen_by}
    conflicts += [
        _one_sided(observed)
        for ends, observed in cables.items()
        if observed.seen_by
        and {device for device, _ in ends} <= reporting
        and len(observers[ends]) == 1
    ]
    merged = tuple(
        MergedCable(
            a=observed.near,
            b=observed.far,
            where=observed.where,
            speed_bits_per_s=observed.speed_bits_per_s,
            cable_m=observed.cable_m,
        )
        for observed in cables.values()
    )
    return merged, tuple(conflicts)


def _conflict(observed: ObservedCable, before: ObservedCable) -> Finding:
    return Finding(
        rule="reports",
        severity="warning",
        where=observed.where,
        what=f"{observed.near} – {observed.far},"
        f" and {before.where} reports {before.near} – {before.far}",
        fix="check the port: a cable was moved during collection, or port names differ",
    )


def _one_sided(observed: ObservedCable) -> Finding:
    # Both devices report, and only one sees the other: typical of a fibre with one dead strand.
    return Finding(
        rule="reports",
        severity="warning",
        where=observed.where,
        what=f"{observed.near} sees {observed.far}, which does not see it",
        fix="check both strands of the cable, and that LLDP is sent on both ports",
    )
