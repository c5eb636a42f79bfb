"""The files of a rack plan: elevations, cables with labels, the order, and everything as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator

from gpuyard.document.encode import plain
from gpuyard.fabric.physical.rack_plan import RackPlan, airflow_m3_per_s
from gpuyard.report.rack_page import rack_page

BTU_PER_H_PER_W = 3.412
RACK_COLUMNS = (
    "rack", "row", "place", "units_used", "power_w", "heat_btu_per_h", "airflow_m3_per_s",
    "devices_of_unknown_power",
)  # fmt: skip
SLOT_COLUMNS = ("rack", "unit", "units", "device", "role", "model", "power_w", "optics_w")
ORDER_COLUMNS = (
    "kind", "part", "what", "count", "unit_w", "total_w", "unit_usd", "total_usd", "note",
)  # fmt: skip
CABLE_COLUMNS = (
    "cable", "a_node", "a_port", "b_node", "b_port", "speed_gbps", "route_m", "cable_m", "medium",
    "a_label", "b_label",
)  # fmt: skip


def rack_files(plan: RackPlan, title: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every file."""
    yield "racks.csv", _csv(RACK_COLUMNS, _racks(plan))
    yield "elevations.csv", _csv(SLOT_COLUMNS, _slots(plan))
    yield "cables.csv", _csv(CABLE_COLUMNS, _cables(plan))
    yield "order.csv", _csv(ORDER_COLUMNS, _order(plan))
    yield "plan.json", json.dumps(summary(plan), indent=1) + "\n"
    yield "plan.html", rack_page(plan, title)


def _racks(plan: RackPlan) -> Iterator[tuple[object, ...]]:
    for rack in plan.racks:
        yield (
            rack.name,
            rack.row,
            rack.place,
            rack.used_units,
            f"{rack.power_w:.0f}",
            f"{rack.power_w * BTU_PER_H_PER_W:.0f}",
            f"{airflow_m3_per_s(rack.power_w):.2f}",
            rack.unknown_count,
        )


def _slots(plan: RackPlan) -> Iterator[tuple[object, ...]]:
    for rack in plan.racks:
        for slot in rack.slots:
            yield (
                rack.name,
                slot.unit,
                slot.units,
                slot.device,
                slot.role,
                slot.model or "",
                _number(slot.power_w),
                _number(slot.optics_w),
            )


def _cables(plan: RackPlan) -> Iterator[tuple[object, ...]]:
    for cable in plan.cables:
        yield (
            cable.number,
            cable.lower.node,
            cable.lower.port,
            cable.upper.node,
            cable.upper.port,
            f"{cable.speed_bits_per_s / 1e9:g}",
            f"{cable.route_m:.2f}",
            f"{cable.length_m:g}",
            cable.medium,
            cable.lower_label,
            cable.upper_label,
        )


def _order(plan: RackPlan) -> Iterator[tuple[object, ...]]:
    for line in plan.order:
        numbers = (line.unit_w, line.total_w, line.unit_usd, line.total_usd)
        yield line.kind, line.part, line.what, line.count, *map(_number, numbers), line.note


def summary(plan: RackPlan) -> dict[str, object]:
    """Return the plan without its cables, which are in cables.csv."""
    return {
        "settings": plain(plan.settings),
        "rows": plan.row_count,
        "power_w": plan.power_w,
        "devices_of_unknown_power": plan.unknown_count,
        "price_usd": plan.price_usd,
        "cable_count": len(plan.cables),
        "lengths": [plain(row) for row in plan.lengths],
        "order": [plain(line) for line in plan.order],
        "findings": [plain(finding) for finding in plan.findings],
        "racks": [plain(rack) for rack in plan.racks],
    }


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _csv(columns: Iterable[str], rows: Iterable[tuple[object, ...]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()
