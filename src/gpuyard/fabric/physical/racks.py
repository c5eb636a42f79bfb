"""Racks: which device is in which unit of which rack, and where each rack is on the floor.

Servers of a stripe are on both sides of its leaves, and spines and cores in the middle of the hall,
which keeps cables short. A rack of the design that is too small for its devices, by units or by
power, becomes several. Servers are placed from the bottom of a rack, switches from its top.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.rows import Watts
from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.errors import Infeasible
from gpuyard.fabric.fabric import Device, Fabric
from gpuyard.fabric.machine_demands import servers_of
from gpuyard.topology.nodes import Role
from gpuyard.units import LENGTH, POWER, show

RackKind = Literal["servers", "leaves", "spines"]
SERVER_UNITS = 8  # of an 8-GPU server whose height is not in the catalog
STORAGE_UNITS = 2  # of a storage node, and of a switch whose height is not in the catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class RackSettings:
    """The racks and the hall; distances are assumptions until the hall is measured."""

    units: Annotated[int, AtLeast(1)] = 48
    power_w: Annotated[Watts | None, Doc("limit per rack; none: only units limit a rack")] = None
    racks_per_row: Annotated[int, AtLeast(1)] = 20
    server_units: Annotated[int | None, AtLeast(1), Doc("none: of the machine")] = None
    rack_width_m: Annotated[float, LENGTH] = 0.6
    row_pitch_m: Annotated[float, LENGTH, Doc("from one row of racks to the next")] = 3.0
    tray_m: Annotated[float, LENGTH, Doc("from the top of a rack to the cable tray")] = 0.3
    slack_m: Annotated[float, LENGTH, Doc("at each end of a cable")] = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A device in a rack."""

    device: str
    role: Role
    model: str | None
    unit: Annotated[int, Doc("the lowest, counted from 1 at the bottom")]
    units: int
    power_w: Watts | None = None
    optics_w: Annotated[Watts, Doc("transceivers of a switch whose power excludes them")] = 0.0

    @property
    def top_unit(self) -> int:
        return self.unit + self.units - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rack:
    """A rack, its place on the floor, and its devices."""

    name: str
    kind: RackKind
    row: Annotated[int, Doc("from 1")]
    place: Annotated[int, Doc("in its row, from 1")]
    slots: tuple[Slot, ...]

    @property
    def used_units(self) -> int:
        return sum(slot.units for slot in self.slots)

    @property
    def power_w(self) -> float:
        """Power of the devices and transceivers whose power is known."""
        return sum((slot.power_w or 0.0) + slot.optics_w for slot in self.slots)

    @property
    def unknown_count(self) -> int:
        """Devices whose power is not known."""
        return sum(slot.power_w is None for slot in self.slots)


_Group = tuple[str, tuple[Device, ...]]  # the name of a rack, and its devices


def place_racks(
    fabrics: Sequence[Fabric], catalog: Catalog, settings: RackSettings
) -> tuple[Rack, ...] | Infeasible:
    """Place every device once; infeasible if a device exceeds a rack."""
    attached = {
        name for fabric in fabrics for hosts in fabric.demand.attached for name in hosts.host_names
    }
    sizes = _Sizes(attached=frozenset(attached), catalog=catalog, settings=settings)
    devices: dict[str, Device] = {}
    for fabric in fabrics:
        for device in fabric.devices:
            devices.setdefault(device.name, device)
    for device in devices.values():
        units, power_w = sizes.units(device), sizes.power_w(device)
        limit_w = settings.power_w
        is_hot = power_w is not None and limit_w is not None and power_w > limit_w
        if units > settings.units or is_hot:
            need = f" and {show(power_w, POWER)}" if power_w is not None else ""
            return Infeasible(
                binding="rack",
                what=f"{device.name} needs {units} units{need}",
                fix="use racks with more units and power",
            )
    placed = [*_floor(devices.values(), sizes, settings)]
    return tuple(
        Rack(
            name=name,
            kind=_kind(group[0].role),
            row=number // settings.racks_per_row + 1,
            place=number % settings.racks_per_row + 1,
            slots=_slots(group, sizes, settings.units),
        )
        for number, (name, group) in enumerate(placed)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    """Height and power of each device."""

    attached: frozenset[str]
    catalog: Catalog
    settings: RackSettings

    def units(self, device: Device) -> int:
        if device.role != "server":
            model = self.catalog.switch(device.model) if device.model else None
            return (model.rack_units if model else None) or STORAGE_UNITS
        if device.name in self.attached:
            return STORAGE_UNITS
        if self.settings.server_units:
            return self.settings.server_units
        if device.model is None:
            return SERVER_UNITS
        machine = self.catalog.machine(device.model)
        if servers_of(machine) > 1:
            return 1  # a tray of a rack-scale machine
        return machine.rack_units or SERVER_UNITS

    def power_w(self, device: Device) -> float | None:
        if device.model is None:
            return None
        if device.role != "server":
            return self.catalog.switch(device.model).power_w
        machine = self.catalog.machine(device.model)
        return None if machine.power_w is None else machine.power_w / servers_of(machine)


def _floor(devices: Iterable[Device], sizes: _Sizes, settings: RackSettings) -> Iterator[_Group]:
    # Stripe by stripe, leaves in the middle of their servers; spines in the middle of the hall.
    servers: dict[int, list[_Group]] = {}
    leaves: dict[int, list[_Group]] = {}
    spines: list[_Group] = []
    groups: dict[str, list[Device]] = {}
    for device in devices:
        groups.setdefault(device.rack, []).append(device)
    for name, group in groups.items():
        first = group[0]
        if first.role in ("spine", "core"):
            spines.append((name, tuple(group)))
        else:
            side = servers if first.role == "server" else leaves
            side.setdefault(first.stripe or 0, []).append((name, tuple(group)))
    stripes = sorted(servers.keys() | leaves.keys())
    for stripe in stripes:
        own = _filled(servers.get(stripe, []), sizes, settings)
        half = len(own) // 2
        yield from own[:half]
        yield from _filled(_shared(leaves.get(stripe, []), sizes, settings), sizes, settings)
        if stripe == stripes[len(stripes) // 2]:
            yield from _filled(_shared(spines, sizes, settings), sizes, settings)
        yield from own[half:]


def _shared(groups: Sequence[_Group], sizes: _Sizes, settings: RackSettings) -> list[_Group]:
    # Few switches, as of a second network, share a rack; half of it stays free for their cables.
    shared: list[_Group] = []
    for name, devices in groups:
        if shared:
            together = (*shared[-1][1], *devices)
            if sum(map(sizes.units, together)) <= settings.units // 2:
                shared[-1] = (shared[-1][0], together)
                continue
        shared.append((name, devices))
    return shared


def _filled(groups: Sequence[_Group], sizes: _Sizes, settings: RackSettings) -> list[_Group]:
    # A group that exceeds a rack, by units or by power, becomes several.
    racks: list[_Group] = []
    for name, devices in groups:
        parts: list[list[Device]] = []
        units, power_w = 0, 0.0
        for device in devices:
            more, more_w = sizes.units(device), sizes.power_w(device) or 0.0
            hot = settings.power_w is not None and power_w + more_w > settings.power_w
            if not parts or units + more > settings.units or hot:
                parts.append([])
                units, power_w = 0, 0.0
            parts[-1].append(device)
            units, power_w = units + more, power_w + more_w
        racks += [
            (f"{name}-{number + 1}" if number else name, tuple(part))
            for number, part in enumerate(parts)
        ]
    return racks


def _slots(devices: Iterable[Device], sizes: _Sizes, units: int) -> tuple[Slot, ...]:
    bottom, top = 1, units
    slots: list[Slot] = []
    for device in devices:
        height = sizes.units(device)
        if device.role == "server":
            unit, bottom = bottom, bottom + height
        else:
            unit, top = top - height + 1, top - height
        slots.append(
            Slot(
                device=device.name,
                role=device.role,
                model=device.model,
                unit=unit,
                units=height,
                power_w=sizes.power_w(device),
            )
        )
    return tuple(sorted(slots, key=lambda slot: -slot.unit))


def _kind(role: Role) -> RackKind:
    return "servers" if role == "server" else "leaves" if role == "leaf" else "spines"
