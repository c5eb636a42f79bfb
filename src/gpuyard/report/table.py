"""A table as a value, independent of how it is printed."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from gpuyard.units import Dimension, show

NOT_KNOWN = "–"
# Cells that are a state, and how they are coloured.
STATES = {
    "✓": "good", "✓ cached": "good", "done": "good", "passed": "good",
    "running": "active", "■": "bad", "failed": "bad", "error": "bad",
    "interrupted": "warn", "cancelled": "warn", "warning": "warn", "outside": "warn",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A heading; numeric columns are right-aligned."""

    heading: str
    numeric: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Headings and cells as text."""

    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    notes: tuple[str, ...] = ()


def table_columns(*headings: str, numeric: Container[str] = ()) -> tuple[TableColumn, ...]:
    """Return the columns of these headings; `>` before a heading marks a numeric column."""
    return tuple(
        TableColumn(
            heading=heading.removeprefix(">"),
            numeric=heading.startswith(">") or heading in numeric,
        )
        for heading in headings
    )


def show_value(value: object, dimension: Dimension | None = None) -> str:
    """Format one value; a dash when it is unknown."""
    if value is None or value == "":
        return NOT_KNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if dimension and isinstance(value, int | float):
        return show(value, dimension, digits=4)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(show_value(item, dimension) for item in value) or NOT_KNOWN
    return str(value)
