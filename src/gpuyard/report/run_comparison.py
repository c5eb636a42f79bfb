"""Runs side by side, or one per row, as a table and as JSON fields."""

from __future__ import annotations

from gpuyard.app.run_comparison import ComparedRuns, RunValues
from gpuyard.document.frozen_json import Plain
from gpuyard.report.table import NOT_KNOWN, Table, TableColumn, table_columns

DIGITS = 5


def side_by_side(comparison: ComparedRuns) -> Table:
    """One column per run: settings that differ, metrics, tags and notes."""
    runs = comparison.runs
    names = ("name", "state", *comparison.settings, *comparison.metrics)
    rows = [(name, *(_cell(row, name) for row in runs)) for name in names]
    rows += [(name, *cells) for name, cells in _texts(runs)]
    headings = table_columns("run", *(row.run.id for row in runs))
    return Table(columns=headings, rows=tuple(rows))


def one_per_row(comparison: ComparedRuns) -> Table:
    """One row per run: settings that differ, metrics and tags."""
    names = ("id", "name", "state", *comparison.settings, *comparison.metrics)
    numeric = set(comparison.metrics)
    rows = tuple((*(_cell(row, name) for name in names), _tags(row)) for row in comparison.runs)
    columns = tuple(
        TableColumn(heading="run" if name == "id" else name, numeric=name in numeric)
        for name in names
    )
    return Table(columns=(*columns, TableColumn(heading="tags")), rows=rows)


def comparison_fields(comparison: ComparedRuns) -> dict[str, Plain]:
    """Every run with all of its settings, metrics, tags and its note."""
    return {
        "differing": list(comparison.settings),
        "runs": [
            {
                "id": row.run.id,
                "name": row.run.name,
                "state": row.run.state,
                "settings": dict(row.settings),
                "metrics": dict(row.metrics),
                "tags": dict(row.run.tags),
                "note": row.run.note,
            }
            for row in comparison.runs
        ],
    }


def _texts(runs: tuple[RunValues, ...]) -> list[tuple[str, tuple[str, ...]]]:
    rows = [("tags", tuple(_tags(row) for row in runs))]
    rows.append(("note", tuple(row.run.note or NOT_KNOWN for row in runs)))
    return [(name, cells) for name, cells in rows if set(cells) != {NOT_KNOWN}]


def _tags(row: RunValues) -> str:
    texts = [f"{name}={value}" if value else name for name, value in row.run.tags]
    return ", ".join(texts) or NOT_KNOWN


def _cell(row: RunValues, name: str) -> str:
    value = row.value(name)
    if value is None:
        return NOT_KNOWN
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else value
