"""The report of `gpuyard up`: stages as a table, and a page with their results."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gpuyard.app.up_report import PlanningResults, RunResults, UpReport
from gpuyard.perf.local.comparison import PredictedVsMeasured
from gpuyard.report.comparison_plot import comparison_plot
from gpuyard.report.page import headline, html_table, page
from gpuyard.report.planning_sections import planned_sections
from gpuyard.report.recommendation import recommendation
from gpuyard.report.run_results import results_sections
from gpuyard.report.table import Table, table_columns
from gpuyard.units import BYTES, DURATION, show

MARKS = {"done": "✓", "cached": "✓ cached", "skipped": "–", "planned": "·", "stopped": "■"}


def stages_table(report: UpReport) -> Table:
    """The stages with their outcome; those that do not apply are a note."""
    shown = [stage for stage in report.stages if stage.state != "skipped"]
    rows = tuple(
        (
            stage.name,
            MARKS[stage.state],
            show(stage.seconds, DURATION) if stage.seconds else "",
            stage.what,
        )
        for stage in shown
    )
    columns = table_columns("stage", "", ">time", "")
    skipped = "; ".join(
        f"{stage.name}: {stage.what}" for stage in report.stages if stage not in shown
    )
    notes = ((f"not needed: {skipped}",) if skipped else ()) + (
        (f"next: {report.next}",) if report.next else ()
    )
    return Table(columns=columns, rows=rows, title=f"{report.name} on {report.target}", notes=notes)


def _value(row: PredictedVsMeasured, value: float) -> str:
    if row.unit == "s":
        return show(value, DURATION)
    if row.unit == "B":
        return show(value, BYTES)
    return f"{value:,.0f}{row.unit}"


def compared_table(rows: Sequence[PredictedVsMeasured]) -> Table:
    """Predictions and measurements."""
    columns = table_columns("", ">predicted", ">measured", ">error", ">stated", "")
    cells = tuple(
        (
            row.name,
            _value(row, row.predicted),
            _value(row, row.measured),
            f"{row.error_ratio:+.0%}",
            "" if row.stated_ratio is None else f"±{row.stated_ratio:.0%}",
            "outside" if row.is_outside else "",
        )
        for row in rows
    )
    outside = any(row.is_outside for row in rows)
    note = "outside: the machine was busier or idler than when it was measured (gpuyard measure)"
    return Table(
        columns=columns,
        rows=cells,
        title="predicted against measured",
        notes=(note,) if outside else (),
    )


def answer(report: UpReport, planned: PlanningResults | None) -> str:
    """The answer in one sentence."""
    if planned is not None and planned.plan is not None:
        checks = next((stage.what for stage in report.stages if stage.name == "verify"), "")
        proof = f" {checks[0].upper()}{checks[1:]}." if planned.findings is not None else ""
        return recommendation(planned.plan)[0] + proof
    done = {stage.name: stage.what for stage in report.stages if stage.state in ("done", "cached")}
    words = [done["register"]] if "register" in done else []
    if "deploy" in done:
        words.append(f"Served at {done['deploy']}")
    return ". ".join(words)


def up_page(
    report: UpReport,
    compared: Sequence[PredictedVsMeasured] = (),
    results: RunResults | None = None,
    planned: PlanningResults | None = None,
    stamp: str = "",
) -> str:
    """The report page: the answer, stages, comparison, scorecard, plan."""
    first = answer(report, planned)
    parts = [headline(first)] if first else []
    parts += [f"<p>{escape(report.target)}</p>", html_table(stages_table(report))]
    if compared:
        parts += [f"<h2>Predicted against measured</h2>{comparison_html(compared)}"]
    if results is not None:
        parts += results_sections(results)
    if planned is not None:
        parts += [html for _, html in planned_sections(planned)]
    return page(report.name, parts, stamp)


def comparison_html(rows: Sequence[PredictedVsMeasured]) -> str:
    """Predictions and measurements as a plot and a table."""
    return comparison_plot(rows) + html_table(compared_table(rows))
