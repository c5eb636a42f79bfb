"""The bill of materials: switches, cables and transceivers, with their power where known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.rows import Watts
from gpuyard.document.field_types import Doc
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.ports import links_per_port
from gpuyard.fabric.size import Size
from gpuyard.topology.nodes import Role
from gpuyard.units import BITS_PER_S, LENGTH, show

Kind = Literal["switch", "cable", "transceiver"]
NO_POWER = "power is not in the catalog"

# Reach of Ethernet media with 100 Gb/s lanes: copper 802.3ck, multimode 802.3db, single-mode
# 802.3df and 802.3bs.
MEDIA = (
    (2.0, "passive copper (CR)"),
    (50.0, "multimode fibre (VR)"),
    (100.0, "multimode fibre (SR)"),
    (500.0, "single-mode fibre (DR)"),
    (2_000.0, "single-mode fibre (FR)"),
    (10_000.0, "single-mode fibre (LR)"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BomItem:
    """One line of the bill."""

    kind: Kind
    what: str
    count: int
    each_w: Annotated[Watts | None, Doc("None if not documented")] = None
    note: str = ""

    @property
    def total_w(self) -> float | None:
        return None if self.each_w is None else self.each_w * self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class BillOfMaterials:
    """The bill of materials of a fabric."""

    items: tuple[BomItem, ...]
    rack_count: Annotated[int, Doc("racks with switches")]

    @property
    def unknown(self) -> tuple[str, ...]:
        return tuple(item.what for item in self.items if item.each_w is None)


def medium(cable_m: float) -> str:
    """Return the cheapest medium for a length."""
    return next(
        (name for reach_m, name in MEDIA if cable_m <= reach_m), "single-mode fibre (beyond LR)"
    )


def materials(fabric: Fabric, catalog: Catalog) -> BillOfMaterials:
    """Return the bill of materials of a fabric."""
    racks = {device.rack for device in fabric.switches}
    items = (*_switches(fabric, catalog), *_cabling(fabric, catalog))
    return BillOfMaterials(items=items, rack_count=len(racks))


def _switches(fabric: Fabric, catalog: Catalog) -> Iterator[BomItem]:
    counts = Counter((device.role, device.model) for device in fabric.switches)
    for (role, model), count in counts.items():
        if model is not None:
            switch = catalog.switch(model)
            yield BomItem(
                kind="switch",
                what=f"{switch.label} as {role}",
                count=count,
                each_w=switch.power_w,
                note=switch.note if switch.power_w is not None else "",
            )


def _cabling(fabric: Fabric, catalog: Catalog) -> Iterator[BomItem]:
    demand, size = fabric.demand, fabric.size
    tiers: tuple[tuple[Role, Role, int, int, float, float], ...] = (
        (
            "server",
            "leaf",
            size.node_leaf_cables,
            demand.planes,
            demand.plane_bits_per_s,
            demand.cables.server_m,
        ),
        (
            "leaf",
            "spine",
            size.leaf_spine_cables,
            _shared(size),
            demand.link_bits_per_s,
            demand.cables.spine_m,
        ),
        (
            "spine",
            "core",
            size.spine_core_cables,
            _shared(size),
            demand.link_bits_per_s,
            demand.cables.core_m,
        ),
    )
    for lower, upper, count, links, bits_per_s, cable_m in tiers:
        where = f"{lower} to {upper}"
        if not count:
            continue
        name, speed = medium(cable_m), show(bits_per_s * links, BITS_PER_S)
        ways = f" as {links} x {show(bits_per_s, BITS_PER_S)}" if links > 1 else ""
        what = f"{speed}{ways} {name}, {show(cable_m, LENGTH)}, {where}"
        copper = name.startswith("passive")
        yield BomItem(
            kind="cable",
            what=what,
            count=count,
            each_w=0.0,
            note="" if copper else "fibre draws no power",
        )
        if copper:
            continue
        if lower == "server":
            yield BomItem(
                kind="transceiver",
                what=f"{speed} {name}, {where}, in NICs",
                count=count,
                note=NO_POWER,
            )
        else:
            yield from _modules(fabric, catalog, (lower, upper), bits_per_s, f"{name}, {where}")
        yield from _modules(fabric, catalog, (upper, lower), bits_per_s, f"{name}, {where}")


def _modules(
    fabric: Fabric, catalog: Catalog, ends: tuple[Role, Role], bits_per_s: float, what: str
) -> Iterator[BomItem]:
    # Transceivers in the ports of one role toward another; a breakout port has one for all links.
    role, peer = ends
    counts: Counter[int] = Counter()
    for device in fabric.switches:
        if device.role != role or device.model is None:
            continue
        links = sum(port.peer_role == peer for port in device.interfaces)
        ways = max(1, links_per_port(catalog.switch(device.model), bits_per_s))
        counts[ways] += -(-links // ways)
    for ways, count in counts.items():
        one = show(bits_per_s, BITS_PER_S)
        speed = one if ways == 1 else f"{show(ways * bits_per_s, BITS_PER_S)} as {ways} x {one}"
        yield BomItem(
            kind="transceiver",
            what=f"{speed} {what}, in ports of {role}",
            count=count,
            note=NO_POWER,
        )


def _shared(size: Size) -> int:
    return max(1, size.uplinks_per_leaf_and_plane // max(1, size.uplinks_per_leaf))
