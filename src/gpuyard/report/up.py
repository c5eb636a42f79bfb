"""The report of `gpuyard up`: stages as a table, and a page with their results."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gpuyard.app.up_report import PlanningResults, RunResults, UpReport
from gpuyard.perf.local.comparison import PredictedVsMeasured
from gpuyard.report.page import html_table, page
from gpuyard.report.planning_sections import planned_sections
from gpuyard.report.run_results import results_sections
from gpuyard.report.table import Table, TableColumn
from gpuyard.units import BYTES, DURATION, show

MARKS = {"done": "✓", "cached": "✓ cached", "skipped": "–", "planned": "·", "stopped": "■"}


def stages_table(way: UpReport) -> Table:
    """Every stage with its outcome."""
    rows = tuple(
        (
            stage.name,
            MARKS[stage.state],
            show(stage.seconds, DURATION) if stage.seconds else "",
            stage.what,
        )
        for stage in way.stages
    )
    columns = (
        TableColumn(heading="stage"),
        TableColumn(heading=""),
        TableColumn(heading="time", numeric=True),
        TableColumn(heading=""),
    )
    notes = (f"next: {way.next}",) if way.next else ()
    return Table(columns=columns, rows=rows, title=f"{way.name} on {way.target}", notes=notes)


def _value(row: PredictedVsMeasured, value: float) -> str:
    if row.unit == "s":
        return show(value, DURATION)
    if row.unit == "B":
        return show(value, BYTES)
    return f"{value:,.0f}{row.unit}"


def compared_table(rows: Sequence[PredictedVsMeasured]) -> Table:
    """Predictions and measurements."""
    columns = (
        TableColumn(heading=""),
        TableColumn(heading="predicted", numeric=True),
        TableColumn(heading="measured", numeric=True),
        TableColumn(heading="error", numeric=True),
    )
    cells = tuple(
        (row.name, _value(row, row.predicted), _value(row, row.measured), f"{row.error_ratio:+.0%}")
        for row in rows
    )
    return Table(columns=columns, rows=cells, title="predicted against measured")


def up_page(
    way: UpReport,
    compared: Sequence[PredictedVsMeasured] = (),
    results: RunResults | None = None,
    planned: PlanningResults | None = None,
) -> str:
    """The report page: stages, comparison, scorecard, plan."""
    parts = [f"<p>{escape(way.target)}</p>", html_table(stages_table(way))]
    if compared:
        parts += ["<h2>Predicted against measured</h2>", html_table(compared_table(compared))]
    if results is not None:
        parts += results_sections(results)
    if planned is not None:
        parts += [html for _, html in planned_sections(planned)]
    return page(way.name, parts)
