"""The order: switches, transceivers and cables by part number and length, with power and price."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.optics import Medium, Optic, OpticUse
from gpuyard.catalog.rows import LinkSpeed, Watts
from gpuyard.document.field_types import Doc
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.physical.cables import SLOW_BITS_PER_S, Cage, PlannedCable, optics_for
from gpuyard.units import BITS_PER_S, LENGTH, show

NO_PART = "no part number in the catalog: add it under optics in a layer of yours"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderLine:
    """One line of the order."""

    kind: Literal["switch", "transceiver", "cable"]
    part: Annotated[str, Doc("manufacturer's part number; empty if not in the catalog")]
    what: str
    count: int
    unit_w: Annotated[Watts | None, Doc("None if not documented")] = None
    unit_usd: Annotated[float | None, Doc("None without a price in the catalog")] = None
    note: str = ""

    @property
    def total_w(self) -> float | None:
        return None if self.unit_w is None else self.unit_w * self.count

    @property
    def total_usd(self) -> float | None:
        return None if self.unit_usd is None else self.unit_usd * self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class _Port:
    """A port with a transceiver: whose it is, and what it must do."""

    model: str | None
    medium: Medium
    bits_per_s: LinkSpeed
    ways: int
    peer: str


def order_lines(
    fabric: Fabric, catalog: Catalog, cables: Sequence[PlannedCable]
) -> tuple[OrderLine, ...]:
    """Return the order of a fabric's network: servers are not part of it."""
    return (
        *_switches(fabric, catalog),
        *_transceivers(fabric, catalog, cables),
        *_copper(fabric, catalog, cables),
        *_fibres(fabric, catalog, cables),
    )


def merged(lines: Sequence[OrderLine]) -> tuple[OrderLine, ...]:
    """Return the lines with equal ones added up."""
    counts: Counter[OrderLine] = Counter()
    for line in lines:
        counts[replace(line, count=0)] += line.count
    return tuple(replace(line, count=count) for line, count in counts.items())


def _switches(fabric: Fabric, catalog: Catalog) -> Iterator[OrderLine]:
    counts = Counter((device.model or "", device.role) for device in fabric.switches)
    for (model, role), count in counts.items():
        switch = catalog.switch(model)
        yield OrderLine(
            kind="switch",
            part=switch.part,
            what=f"{switch.label} as {role}",
            count=count,
            unit_w=switch.power_w,
            unit_usd=switch.price_usd,
            note=switch.note if switch.power_w is not None else "power is not in the catalog",
        )


def optics_w(fabric: Fabric, catalog: Catalog, cables: Sequence[PlannedCable]) -> dict[str, float]:
    """Return the power of the transceivers in each switch whose own power excludes them."""
    total_w: dict[str, float] = {}
    known: dict[_Port, float] = {}
    for (device, _), port in _fibre_ports(fabric, cables).items():
        if port.model and not catalog.switch(port.model).power_includes_optics:
            if port not in known:
                optic = _transceiver(catalog, port)
                known[port] = (optic.power_w if optic else None) or 0.0
            total_w[device] = total_w.get(device, 0.0) + known[port]
    return total_w


def _fibre_ports(fabric: Fabric, cables: Sequence[PlannedCable]) -> dict[Cage, _Port]:
    models = {device.name: device.model for device in fabric.switches}
    ports: dict[Cage, _Port] = {}
    links: Counter[Cage] = Counter()
    for cable in cables:
        if cable.medium == "copper":
            continue
        for cage, far in (
            (cable.lower_cage, cable.upper_cage),
            (cable.upper_cage, cable.lower_cage),
        ):
            links[cage] += 1
            ports[cage] = _Port(
                model=models.get(cage[0]),
                medium=cable.medium,
                bits_per_s=cable.speed_bits_per_s,
                ways=links[cage],
                peer="switches" if far[0] in models else "NICs",
            )
    return ports


def _transceivers(
    fabric: Fabric, catalog: Catalog, cables: Sequence[PlannedCable]
) -> Iterator[OrderLine]:
    for port, count in Counter(_fibre_ports(fabric, cables).values()).items():
        optic = _transceiver(catalog, port)
        speed = show(port.bits_per_s, BITS_PER_S)
        total = speed if port.ways == 1 else f"{port.ways} x {speed}"
        owner = catalog.switch(port.model).label if port.model else "NICs"
        yield OrderLine(
            kind="transceiver",
            part=optic.name.upper() if optic else "",
            what=f"{total}, {port.medium} fibre, in {owner} toward {port.peer}",
            count=count,
            unit_w=optic.power_w if optic else None,
            unit_usd=optic.price_usd if optic else None,
            note=optic.note if optic else NO_PART,
        )


def _transceiver(catalog: Catalog, port: _Port) -> Optic | None:
    use: OpticUse = "switch" if port.model else "nic"
    size = port.bits_per_s * port.ways
    if port.model:
        switch = catalog.switch(port.model)
        size = switch.port_bits_per_s * switch.ports_per_cage
    return next(
        (
            optic
            for optic in optics_for(catalog, port.model)
            if optic.use == use
            and optic.medium == port.medium
            and optic.port_bits_per_s == size
            and (port.model is None or optic.switches)
        ),
        None,
    )


def _copper(
    fabric: Fabric, catalog: Catalog, cables: Sequence[PlannedCable]
) -> Iterator[OrderLine]:
    # A cable is what leaves one port of the upper switch: to one port, or split to NICs.
    models = {device.name: device.model for device in fabric.switches}
    assemblies: dict[Cage, list[PlannedCable]] = {}
    for cable in cables:
        if cable.medium == "copper":
            assemblies.setdefault(cable.upper_cage, []).append(cable)
    counts: Counter[tuple[str | None, float, int, float, bool]] = Counter()
    for (switch, _), links in assemblies.items():
        first = links[0]
        counts[
            models[switch],
            max(cable.length_m for cable in links),
            len(links),
            first.speed_bits_per_s,
            first.lower_cage[0] in models,
        ] += 1
    for (model, length_m, ways, bits_per_s, between), count in sorted(counts.items(), key=str):
        use: OpticUse = "switch-switch" if between else "switch-nic"
        optic = next(
            (
                row
                for row in optics_for(catalog, model)
                if row.use == use
                and row.nic_bits_per_s in (None, bits_per_s)
                and length_m <= (row.reach_m or 0)
            ),
            None,
        )
        speed = show(bits_per_s, BITS_PER_S)
        split = f"{ways} x {speed}" if ways > 1 else speed
        slow = bits_per_s <= SLOW_BITS_PER_S
        yield OrderLine(
            kind="cable",
            part=_length_part(optic, length_m) if optic else "",
            what=f"{split} {'twisted pair' if slow else 'passive copper'},"
            f" {show(length_m, LENGTH)}, {'between switches' if between else 'to servers'}",
            count=count,
            unit_w=2 * optic.power_w if optic and optic.power_w is not None else None,
            unit_usd=optic.price_usd if optic else None,
            note=optic.note if optic else "any Cat 6A cable" if slow else NO_PART,
        )


def _length_part(optic: Optic, length_m: float) -> str:
    exact = next((row.part for row in optic.lengths if row.cable_m == length_m), None)
    return exact or f"{optic.name.upper()}, {show(length_m, LENGTH)}"


def _fibres(
    fabric: Fabric, catalog: Catalog, cables: Sequence[PlannedCable]
) -> Iterator[OrderLine]:
    models = {device.name: device.model for device in fabric.switches}
    ways = Counter(cable.upper_cage for cable in cables)
    counts: Counter[tuple[str | None, Medium, float]] = Counter()
    for cable in cables:
        if cable.medium == "copper":
            continue
        model = models[cable.upper.node]
        port = _Port(
            model=model,
            medium=cable.medium,
            bits_per_s=cable.speed_bits_per_s,
            ways=ways[cable.upper_cage],
            peer="",
        )
        optic = _transceiver(catalog, port)
        fibres = max(1, (optic.fibre_count if optic else 1) // ways[cable.upper_cage])
        counts[model, cable.medium, cable.length_m] += fibres
    for (model, medium, length_m), count in sorted(counts.items(), key=str):
        optic = next(
            (
                row
                for row in optics_for(catalog, model)
                if row.use == "fibre" and row.medium == medium and length_m <= (row.reach_m or 0)
            ),
            None,
        )
        yield OrderLine(
            kind="cable",
            part=_length_part(optic, length_m) if optic else "",
            what=f"{medium} fibre, {show(length_m, LENGTH)}, MPO",
            count=count,
            unit_w=0.0,
            unit_usd=optic.price_usd if optic else None,
            note=optic.note if optic else NO_PART,
        )
