"""The cables of a rack plan: route, ordered length, medium, and labels for both ends.

Links that share a port of a switch share its transceiver or its splitter cable, and so its medium.
Copper joins one port to one port, or a port to its NICs; everything else is fibre.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.optics import Medium, Optic
from gpuyard.catalog.rows import LinkSpeed
from gpuyard.catalog.switches import Switch
from gpuyard.document.field_types import Doc
from gpuyard.fabric.fabric import Device, Fabric
from gpuyard.fabric.labels import cable_labels
from gpuyard.fabric.physical.racks import RackSettings
from gpuyard.fabric.physical.routes import Position, ordered_m, route_m
from gpuyard.fabric.ports import port_names, uplink_port_names
from gpuyard.topology.links import End
from gpuyard.units import LENGTH

COPPER_M = 2.0  # reach of passive copper with 100 Gb/s lanes (IEEE 802.3ck)
MULTIMODE_M = 50.0  # of multimode fibre with such lanes (802.3db VR)
COPPER_BASE_T_M = 100.0  # of twisted pairs up to 10 Gb/s (1000BASE-T, 10GBASE-T)
SLOW_BITS_PER_S = 10e9

Cage = tuple[str, int]  # a device and its cage; NIC cages are negative


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCable:
    """One link with its route."""

    number: int
    lower: End
    upper: End
    speed_bits_per_s: LinkSpeed
    route_m: Annotated[float, LENGTH]
    length_m: Annotated[float, LENGTH, Doc("to order")]
    medium: Medium
    lower_cage: Cage
    upper_cage: Cage
    lower_label: str
    upper_label: str


def planned_cables(
    fabric: Fabric,
    catalog: Catalog,
    places: Mapping[str, Position],
    settings: RackSettings,
) -> tuple[PlannedCable, ...]:
    """Return every link of the fabric, in order of its label number."""
    devices = {device.name: device for device in fabric.devices}
    cages = _Cages(fabric, catalog)
    labels = [*cable_labels(fabric, {name: str(place) for name, place in places.items()})]
    routes: dict[tuple[str, str], float] = {}
    ends = [(cages.of(label.lower), cages.of(label.upper)) for label in labels]
    for label in labels:
        pair = (label.lower.node, label.upper.node)
        if pair not in routes:
            routes[pair] = route_m(places[pair[0]], places[pair[1]], settings)
    lengths = [routes[label.lower.node, label.upper.node] for label in labels]
    media = _media(ends, lengths, [label.speed_bits_per_s for label in labels], devices, catalog)
    return tuple(
        PlannedCable(
            number=label.number,
            lower=label.lower,
            upper=label.upper,
            speed_bits_per_s=label.speed_bits_per_s,
            route_m=length_m,
            length_m=ordered_m(length_m),
            medium=medium,
            lower_cage=lower,
            upper_cage=upper,
            lower_label=label.lower_text,
            upper_label=label.upper_text,
        )
        for label, (lower, upper), length_m, medium in zip(
            labels, ends, lengths, media, strict=True
        )
    )


class _Cages:
    """The physical port that each link of a switch belongs to."""

    def __init__(self, fabric: Fabric, catalog: Catalog) -> None:
        self._models = {device.name: device.model for device in fabric.switches}
        demand = fabric.demand
        machine = catalog.machine(demand.machine) if demand.machine else None
        shared = machine.network.nics_per_cage if machine and demand.purpose == "backend" else 1
        # NIC ports in order; those that share a cage are next to each other.
        self._nics = {
            (server.name, port.port): (server.name, -1 - index // (shared * demand.planes))
            for server in fabric.servers
            for index, port in enumerate(
                sorted(server.interfaces, key=lambda port: (port.rail or 0, port.plane))
            )
        }
        self._numbers = {
            model: _cage_numbers(catalog.switch(model), fabric.demand.os)
            for model in sorted({model for model in self._models.values() if model})
        }

    def of(self, end: End) -> Cage:
        """Return the port; planes of a NIC share one."""
        model = self._models.get(end.node)
        if model is None:
            return self._nics[end.node, end.port]
        return end.node, self._numbers[model].get(end.port, -1)


def _cage_numbers(switch: Switch, os: str | None) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for ways in sorted({1, *switch.breakouts}):
        for index, name in enumerate(port_names(switch, os, ways)):
            numbers.setdefault(name, index // (ways * switch.ports_per_cage))
    if switch.uplink_port_count:
        for index, name in enumerate(uplink_port_names(switch, os, 1, switch.uplink_port_count)):
            numbers[name] = switch.port_count + index
    return numbers


def _media(
    ends: Sequence[tuple[Cage, Cage]],
    lengths_m: Sequence[float],
    speeds: Sequence[float],
    devices: Mapping[str, Device],
    catalog: Catalog,
) -> list[Medium]:
    # Links joined by ports at either end have one medium, by the longest of them.
    root: dict[Cage, Cage] = {}
    for lower, upper in ends:
        low, high = _root(root, lower), _root(root, upper)
        root[low] = high
    longest: dict[Cage, float] = {}
    ports: dict[Cage, tuple[set[Cage], set[Cage]]] = {}
    for (lower, upper), length_m in zip(ends, lengths_m, strict=True):
        group = _root(root, upper)
        longest[group] = max(longest.get(group, 0.0), length_m)
        below, above = ports.setdefault(group, (set(), set()))
        below.add(lower)
        above.add(upper)
    chosen: dict[Cage, Medium] = {}
    for (lower, upper), speed in zip(ends, speeds, strict=True):
        group = _root(root, upper)
        if group not in chosen:
            below, above = ports[group]
            splits = len(above) == 1 and lower[1] < 0
            simple = splits or (len(above) == 1 and len(below) == 1)
            model = devices[upper[0]].model
            reach_m = copper_m(catalog, model, speed, splits=splits) if simple else 0.0
            chosen[group] = _medium(longest[group], reach_m)
    return [chosen[_root(root, upper)] for _, upper in ends]


def _root(root: dict[Cage, Cage], item: Cage) -> Cage:
    while (above := root.get(item, item)) != item:
        root[item] = root.get(above, above)
        item = above
    return item


def _medium(length_m: float, copper_reach_m: float) -> Medium:
    if ordered_m(length_m) <= copper_reach_m:
        return "copper"
    return "multimode" if ordered_m(length_m) <= MULTIMODE_M else "single-mode"


def copper_m(catalog: Catalog, switch: str | None, bits_per_s: float, *, splits: bool) -> float:
    """Return the reach of copper at a switch: of a cable in the catalog, or of the standard."""
    if bits_per_s <= SLOW_BITS_PER_S:
        return COPPER_BASE_T_M
    use = "switch-nic" if splits else "switch-switch"
    fitting = [
        optic.reach_m or 0.0
        for optic in optics_for(catalog, switch)
        if optic.use == use and optic.nic_bits_per_s in (None, bits_per_s)
    ]
    return max(fitting, default=COPPER_M)


def optics_for(catalog: Catalog, switch: str | None) -> Iterator[Optic]:
    """Yield the transceivers and cables that a switch takes."""
    for optic in catalog.optics:
        if not optic.switches or (switch is not None and switch in optic.switches):
            yield optic
