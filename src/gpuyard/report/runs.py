"""Runs as tables: the list, one run in full, and a page with curves."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from html import escape

from gpuyard.document.encode import plain
from gpuyard.document.frozen_json import Plain
from gpuyard.jobs.records import Run, Series
from gpuyard.report.curves import Line, tracks
from gpuyard.report.page import html_table, page
from gpuyard.report.svg import Axis
from gpuyard.report.table import NOT_KNOWN, Table, TableColumn, table_columns
from gpuyard.units import BYTES, BYTES_PER_S, DURATION, FLOP_PER_S, MONEY, show

MOST_POINTS = 600  # of a line: more than the page has pixels for
DIGITS = 4


def _when(time_s: float | None) -> str:
    return (
        NOT_KNOWN if time_s is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_s))
    )


def _took(start_s: float | None, end_s: float | None) -> str:
    if start_s is None or end_s is None:
        return NOT_KNOWN
    return show(max(0.0, end_s - start_s), DURATION) if end_s > start_s else "0s"


def _cost(cost_usd: float) -> str:
    return show(cost_usd, MONEY) if cost_usd else NOT_KNOWN


def runs_table(runs: Sequence[Run]) -> Table:
    """One run per row."""
    rows = tuple(
        (
            run.id,
            run.name,
            run.state,
            _stage_words(run),
            run.engine.name,
            _when(run.created_s),
            _took(run.created_s, run.ended_s),
            _cost(run.cost_usd),
        )
        for run in runs
    )
    headings = ("run", "name", "state", "stages", "engine", "started", "took", "cost")
    waiting = [run.id for run in runs if run.state == "interrupted"]
    notes = (f"`gpuyard resume {waiting[0]}` resumes it",) if waiting else ()
    return Table(columns=table_columns(*headings), rows=rows, notes=notes)


def _stage_words(run: Run) -> str:
    done = sum(stage.state in ("done", "skipped") for stage in run.stages)
    now = next(
        (stage.name for stage in run.stages if stage.state in ("running", "failed", "cancelled")),
        "",
    )
    return f"{done}/{len(run.stages)}" + (f" {now}" if now else "")


def run_fields(run: Run, series: Sequence[Series] = ()) -> dict[str, Plain]:
    """A run as JSON fields; the last value of each metric."""
    tree = plain(run)
    assert isinstance(tree, dict)
    last: dict[str, Plain] = {
        f"{series_row.stage}.{series_row.name}": series_row.points[-1].value
        for series_row in series
    }
    return tree | {
        "cost_usd": run.cost_usd,
        "resumable": run.resumable,
        "metrics": last,
    }


def run_tables(run: Run, series: Sequence[Series]) -> list[Table]:
    """One run: stages and metrics."""
    facts = [
        ("name", run.name),
        ("state", run.state),
        ("engine", run.engine.name),
        ("folder", run.folder),
        ("workload", run.workload_hash[:12]),
        ("started", _when(run.created_s)),
        ("ended", _when(run.ended_s)),
        ("cost", _cost(run.cost_usd)),
        *(("error", run.error) for _ in (1,) if run.error),
        *run.versions,
    ]
    stages = tuple(
        (
            stage.name,
            stage.state,
            str(stage.attempt),
            _took(stage.started_s, stage.ended_s),
            _cost(stage.cost_usd),
            stage.error or stage.result or NOT_KNOWN,
        )
        for stage in run.stages
    )
    tables = [
        Table(
            columns=table_columns(f"run {run.id}", ""),
            rows=tuple(facts),
        ),
        Table(
            columns=table_columns("stage", "state", "attempt", "took", "cost", "result"),
            rows=stages,
        ),
    ]
    if series:
        tables.append(_metrics_table(series))
    return tables


def compared_runs_table(runs: Sequence[Run], scores: Sequence[Mapping[str, float]]) -> Table:
    """Runs side by side: facts, times of the stages, and the scores of their models."""
    facts: tuple[tuple[str, Callable[[Run], str]], ...] = (
        ("name", lambda run: run.name),
        ("state", lambda run: run.state),
        ("engine", lambda run: run.engine.name),
        ("started", lambda run: _when(run.created_s)),
        ("took", lambda run: _took(run.created_s, run.ended_s)),
        ("cost", lambda run: _cost(run.cost_usd)),
        ("workload", lambda run: run.workload_hash[:12]),
    )
    rows = [(name, *(words(run) for run in runs)) for name, words in facts]
    for name in dict.fromkeys(stage.name for run in runs for stage in run.stages):
        rows.append((f"time of {name}", *(_stage_time(run, name) for run in runs)))
    for name in dict.fromkeys(name for values in scores for name in values):
        cells = (f"{values[name]:.4g}" if name in values else NOT_KNOWN for values in scores)
        rows.append((name, *cells))
    columns = table_columns("", *(f">{run.id}" for run in runs))
    return Table(columns=columns, rows=tuple(rows))


def _stage_time(run: Run, name: str) -> str:
    stage = run.stage(name)
    return NOT_KNOWN if stage is None else _took(stage.started_s, stage.ended_s)


def _metrics_table(series: Sequence[Series]) -> Table:
    rows = []
    for metric in series:
        known = [point.value for point in metric.points if point.value is not None]
        values = (known[-1], min(known), max(known)) if known else (None, None, None)
        shown = tuple(
            NOT_KNOWN if value is None else _value(metric.name, value) for value in values
        )
        rows.append((metric.stage, metric.name, str(metric.points[-1].step), *shown))
    numeric = ("step", "last", "min", "max")
    columns = table_columns("stage", "metric")
    return Table(
        columns=(*columns, *(TableColumn(heading=metric, numeric=True) for metric in numeric)),
        rows=tuple(rows),
    )


def _value(name: str, value: float) -> str:
    for dimension in (BYTES_PER_S, FLOP_PER_S, BYTES):
        if name.endswith(dimension.suffix):
            return show(value, dimension)
    if name.endswith("_s") and not name.endswith("_per_s"):
        return show(value, DURATION)
    return f"{value:,.{DIGITS}g}"


def run_page(run: Run, series: Sequence[Series]) -> str:
    """A self-contained page: tables, and a curve for every metric."""
    first, *rest = run_tables(run, series)
    sections = [html_table(first), "<h2>Stages</h2>", html_table(rest[0])]
    for name in sorted({metric.name for metric in series}, key=_rank):
        lines = [_line(metric) for metric in series if metric.name == name]
        drawn = [line for line in lines if len(line.xs) > 1]
        if drawn:
            sections.append(f"<h2>{escape(_title(name))}</h2>")
            sections.append(_curve(name, drawn))
    sections += [html_table(table) for table in rest[1:]]
    sections.append(f"<h2>Workload</h2><pre>{escape(run.workload)}</pre>")
    return page(f"{run.name}: run {run.id}", sections)


def _rank(name: str) -> tuple[int, str]:
    wanted = ("loss", "tokens_per_s", "samples_per_s", "step_s", "memory_bytes", "flop_per_s")
    return (wanted.index(name) if name in wanted else len(wanted), name)


def _title(name: str) -> str:
    titles = {
        "loss": "Loss",
        "tokens_per_s": "Throughput, tokens per second",
        "samples_per_s": "Throughput, samples per second",
        "step_s": "Step time",
        "memory_bytes": "Memory",
        "flop_per_s": "Compute rate",
    }
    return titles.get(name, name.replace("_", " "))


def _line(series: Series) -> Line:
    known = [(float(point.step), point.value) for point in series.points if point.value is not None]
    every = max(1, -(-len(known) // MOST_POINTS))
    points = known[::every] + (known[-1:] if known and (len(known) - 1) % every else [])
    return Line(
        name=series.stage,
        xs=tuple(step for step, _ in points),
        ys=tuple(value for _, value in points),
    )


def _curve(name: str, lines: Sequence[Line]) -> str:
    return tracks(
        lines,
        Axis(title="step", words=lambda step: f"{step:,.0f}"),
        lambda value: _value(name, value),
        _title(name),
    )
