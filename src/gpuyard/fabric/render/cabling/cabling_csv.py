"""CSV files: the cabling with labels, and the bill of materials."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from gpuyard.catalog.load import Catalog
from gpuyard.fabric.bill_of_materials import materials, medium
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.labels import cable_labels

CABLING_COLUMNS = (
    "cable", "a_node", "a_port", "b_node", "b_port", "speed_gbps", "cable_m", "medium", "a_rack",
    "b_rack", "a_label", "b_label",
)  # fmt: skip


def cabling_csv(fabric: Fabric) -> str:
    """Return every cable with its ends, speed, length, medium and labels."""
    return _csv(
        CABLING_COLUMNS,
        (
            (
                str(label.number),
                label.lower.node,
                label.lower.port,
                label.upper.node,
                label.upper.port,
                f"{label.speed_bits_per_s / 1e9:g}",
                "" if label.cable_m is None else f"{label.cable_m:g}",
                "" if label.cable_m is None else medium(label.cable_m),
                label.lower_rack,
                label.upper_rack,
                label.lower_text,
                label.upper_text,
            )
            for label in cable_labels(fabric)
        ),
    )


def materials_csv(fabric: Fabric, catalog: Catalog) -> str:
    """Return the bill of materials; power is empty where unknown."""
    return _csv(
        ("kind", "what", "count", "each_w", "total_w", "note"),
        (
            (
                item.kind,
                item.what,
                str(item.count),
                _watts(item.each_w),
                _watts(item.total_w),
                item.note,
            )
            for item in materials(fabric, catalog).items
        ),
    )


def _watts(power_w: float | None) -> str:
    return "" if power_w is None else f"{power_w:g}"


def _csv(columns: Iterable[str], rows: Iterable[tuple[str, ...]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()
