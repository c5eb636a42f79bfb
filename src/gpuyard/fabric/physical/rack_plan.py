"""The physical plan of a fabric: racks, routed cables, the order, and what does not fit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.rows import Watts
from gpuyard.document.field_types import Doc
from gpuyard.errors import Finding, Infeasible, InputError
from gpuyard.fabric.demand import LOSSLESS
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.physical.cables import PlannedCable, planned_cables
from gpuyard.fabric.physical.order import OrderLine, merged, optics_w, order_lines
from gpuyard.fabric.physical.racks import Rack, RackSettings, place_racks
from gpuyard.fabric.physical.routes import ordered_m, positions
from gpuyard.topology.nodes import TIERS
from gpuyard.units import LENGTH, POWER, show

AIR_J_PER_M3_K = 1.2 * 1005  # density and specific heat of air at 20 °C
AIR_RISE_K = 15.0  # from the inlets to the outlets of a rack


@dataclass(frozen=True, slots=True, kw_only=True)
class TierLength:
    """The longest route between two tiers, and the cable that the design assumed."""

    network: Annotated[str, Doc("backend, storage, frontend or management")]
    tier: Annotated[str, Doc("server, spine or core: as in --server-cable")]
    longest_m: Annotated[float, LENGTH]
    designed_m: Annotated[float, LENGTH]


@dataclass(frozen=True, slots=True, kw_only=True)
class RackPlan:
    """The physical plan."""

    settings: RackSettings
    racks: tuple[Rack, ...]
    cables: tuple[PlannedCable, ...]
    order: tuple[OrderLine, ...]
    lengths: tuple[TierLength, ...]
    findings: tuple[Finding, ...]

    @property
    def row_count(self) -> int:
        return max((rack.row for rack in self.racks), default=0)

    @property
    def power_w(self) -> float:
        return sum(rack.power_w for rack in self.racks)

    @property
    def unknown_count(self) -> int:
        """Devices whose power is not known."""
        return sum(rack.unknown_count for rack in self.racks)

    @property
    def price_usd(self) -> float:
        """Price of the lines with a price."""
        return sum(line.total_usd or 0.0 for line in self.order)


def rack_plan(
    fabrics: Sequence[Fabric], catalog: Catalog, settings: RackSettings | None = None
) -> RackPlan | Infeasible:
    """Place the devices of a fabric into racks, route its cables and list what to order.

    Args:
        fabrics: the networks of the same servers, the backend first; devices with one name are one.
        catalog: heights, power and part numbers.
        settings: racks and distances.

    Raises:
        InputError: two of the fabrics have a switch of one name.
    """
    settings = settings or RackSettings()
    _check_networks(fabrics)
    racks = place_racks(fabrics, catalog, settings)
    if isinstance(racks, Infeasible):
        return racks
    places = positions(racks, settings)
    cables: list[PlannedCable] = []
    order: list[OrderLine] = []
    lengths: list[TierLength] = []
    optics: dict[str, float] = {}
    for fabric in fabrics:
        own = planned_cables(fabric, catalog, places, settings)
        optics |= optics_w(fabric, catalog, own)
        order += order_lines(fabric, catalog, own)
        lengths += _lengths(fabric, own)
        cables += [replace(cable, number=len(cables) + cable.number) for cable in own]
    racks = _with_optics(racks, optics)
    return RackPlan(
        settings=settings,
        racks=racks,
        cables=tuple(cables),
        order=merged(order),
        lengths=tuple(lengths),
        findings=tuple(_findings(lengths, racks, settings)),
    )


def _check_networks(fabrics: Sequence[Fabric]) -> None:
    names: set[str] = set()
    for fabric in fabrics:
        own = {switch.name for switch in fabric.switches}
        if both := sorted(names & own):
            raise InputError.one(
                f"{fabric.demand.purpose} network",
                f"has a switch {both[0]}, as another network has: its cables would count twice",
                "give every network once",
            )
        names |= own


def _with_optics(racks: Sequence[Rack], optics: Mapping[str, float]) -> tuple[Rack, ...]:
    return tuple(
        replace(
            rack,
            slots=tuple(
                replace(slot, optics_w=optics[slot.device]) if slot.device in optics else slot
                for slot in rack.slots
            ),
        )
        for rack in racks
    )


def airflow_m3_per_s(heat_w: Watts) -> float:
    """Return the air that carries the heat of a rack away."""
    return heat_w / (AIR_J_PER_M3_K * AIR_RISE_K)


def _lengths(fabric: Fabric, cables: Sequence[PlannedCable]) -> tuple[TierLength, ...]:
    designed = fabric.demand.cables
    roles = {device.name: device.role for device in fabric.devices}
    longest: dict[int, float] = {}
    for cable in cables:
        tier = TIERS[roles[cable.upper.node]]
        longest[tier] = max(longest.get(tier, 0.0), cable.route_m)
    names = ((1, "server", designed.server_m), (2, "spine", designed.spine_m))
    return tuple(
        TierLength(
            network=fabric.demand.purpose, tier=name, longest_m=longest[tier], designed_m=designed_m
        )
        for tier, name, designed_m in (*names, (3, "core", designed.core_m))
        if tier in longest
    )


def _findings(
    lengths: Sequence[TierLength], racks: Sequence[Rack], settings: RackSettings
) -> Iterator[Finding]:
    for row in lengths:
        order_m = ordered_m(row.longest_m)
        if row.network in LOSSLESS and order_m > row.designed_m:
            yield Finding(
                rule="cable-length",
                severity="warning",
                where=f"{row.network}: cables to {row.tier}s",
                what=f"the longest route is {row.longest_m:.1f} m, and PFC headroom was designed"
                f" for {show(row.designed_m, LENGTH)}",
                fix=f"design again with --{row.tier}-cable {math.ceil(order_m)}m",
            )
    # Racks are filled by the power of their devices; transceivers are known once cables are routed.
    limit_w = settings.power_w
    for rack in racks:
        if limit_w is not None and rack.power_w > limit_w:
            yield Finding(
                rule="rack-power",
                severity="warning",
                where=rack.name,
                what=f"needs {show(rack.power_w, POWER)} with its transceivers, above the limit of"
                f" {show(limit_w, POWER)}",
                fix="lower --rack-power by the difference, or use racks with more power",
            )
    unknown = sum(rack.unknown_count for rack in racks)
    if unknown:
        yield Finding(
            rule="rack-power",
            severity="note",
            where="racks",
            what=f"the power of {unknown:,} devices is not in the catalog: power per rack is a"
            " lower bound",
            fix="set power_w of the switch or machine in a catalog layer",
        )
