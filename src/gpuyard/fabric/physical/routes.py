"""Cable lengths by route: up to the tray, along it, down to the other rack, with slack at the ends.

    same rack:  |za - zb| + 2 slack
    otherwise:  (top - za) + (top - zb) + |xa - xb| + |ya - yb| + 2 slack

x is the distance along a row, y across rows, z the height of the device; trays cross the rows at
every rack. The ordered length is the shortest stock length that reaches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuyard.fabric.physical.racks import Rack, RackSettings

UNIT_M = 0.04445  # of EIA-310 racks
STOCK_M = (0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 7, 10, 15, 20, 25, 30, 40, 50, 75, 100, 150, 200, 300, 500)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a device is: its rack, and coordinates in metres."""

    rack: str
    unit: int
    x_m: float
    y_m: float
    z_m: float

    def __str__(self) -> str:
        return f"{self.rack}-U{self.unit:02d}"


def positions(racks: Sequence[Rack], settings: RackSettings) -> dict[str, Position]:
    """Return the position of every device."""
    return {
        slot.device: Position(
            rack=rack.name,
            unit=slot.top_unit,
            x_m=rack.place * settings.rack_width_m,
            y_m=rack.row * settings.row_pitch_m,
            z_m=(slot.unit - 1 + slot.units / 2) * UNIT_M,
        )
        for rack in racks
        for slot in rack.slots
    }


def route_m(one: Position, other: Position, settings: RackSettings) -> float:
    """Return the length of a cable between two devices."""
    slack_m = 2 * settings.slack_m
    if one.rack == other.rack:
        return abs(one.z_m - other.z_m) + slack_m
    top_m = settings.units * UNIT_M + settings.tray_m
    return (
        (top_m - one.z_m)  # up to the tray
        + (top_m - other.z_m)  # and down from it
        + abs(one.x_m - other.x_m)
        + abs(one.y_m - other.y_m)
        + slack_m
    )


def ordered_m(length_m: float) -> float:
    """Return the shortest stock length that reaches; beyond stock, whole hundreds of metres."""
    return next(
        (stock_m for stock_m in STOCK_M if stock_m >= length_m - 1e-9),
        -(-length_m // 100) * 100,
    )
