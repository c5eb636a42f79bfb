"""The whole way of a workload: on one screen, and as a page with what the stages found."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gpuyard.jobs.way import Planned, Way
from gpuyard.learn.evaluate import Scorecard
from gpuyard.learn.select import Selection
from gpuyard.perf.local import Compared
from gpuyard.report.evaluate import scorecard_sections
from gpuyard.report.page import html_table, page
from gpuyard.report.planned import planned_sections
from gpuyard.report.select import selection_sections
from gpuyard.report.table import Column, Table
from gpuyard.units import BYTES, DURATION, show

__all__ = ["compared_table", "up_page", "way_table"]

MARKS = {"done": "✓", "kept": "✓ kept", "skipped": "–", "planned": "·", "stopped": "■"}


def way_table(way: Way) -> Table:
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
    columns = (Column(heading="stage"), Column(heading=""), Column(heading="time", numeric=True), Column(heading=""))
    notes = (f"next: {way.next}",) if way.next else ()
    return Table(columns=columns, rows=rows, title=f"{way.name} on {way.target}", notes=notes)


def _value(row: Compared, value: float) -> str:
    """A quantity in its unit."""
    if row.unit == "s":
        return show(value, DURATION)
    if row.unit == "B":
        return show(value, BYTES)
    return f"{value:,.0f}{row.unit}"


def compared_table(rows: Sequence[Compared]) -> Table:
    """Predicted beside measured."""
    columns = (
        Column(heading=""), Column(heading="predicted", numeric=True), Column(heading="measured", numeric=True),
        Column(heading="error", numeric=True),
    )  # fmt: skip
    cells = tuple(
        (row.name, _value(row, row.predicted), _value(row, row.measured), f"{row.error_ratio:+.0%}") for row in rows
    )
    return Table(columns=columns, rows=cells, title="predicted against measured")


def up_page(
    way: Way, compared: Sequence[Compared] = (), card: Scorecard | None = None, chosen: Selection | None = None,
    planned: Planned | None = None,
) -> str:  # fmt: skip
    """The report: the stages, predicted against measured, how good the model is, what was planned."""
    parts = [f"<p>{escape(way.target)}</p>", html_table(way_table(way))]
    if compared:
        parts += ["<h2>Predicted against measured</h2>", html_table(compared_table(compared))]
    if card is not None:
        parts += scorecard_sections(card)
    if chosen is not None:
        parts += selection_sections(chosen)
    if planned is not None:
        parts += [html for _, html in planned_sections(planned)]
    return page(way.name, parts)
