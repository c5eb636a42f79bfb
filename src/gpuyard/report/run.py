"""A run as a table of its stages, and its training curves with predictions."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gpuyard.jobs.records import Run, Series
from gpuyard.perf.local.comparison import TrainingPrediction
from gpuyard.report.curves import Line, tracks
from gpuyard.report.svg import Axis
from gpuyard.report.table import Table, table_columns
from gpuyard.units import BYTES, COUNT, DURATION, FLOP_PER_S, MONEY, show

MOST_POINTS = 400
FEW_RATIO = 0.01  # of the steps; where more are slow, the curve shows them
OUTLIER = 10.0  # times the median: compilation, or a machine that was busy
WORDS = {
    "loss": ("Loss", lambda value: f"{value:.3g}"),
    "step_s": ("Step time", lambda value: show(value, DURATION)),
    "samples_per_s": ("Rows per second", lambda value: show(value, COUNT)),
    "tokens_per_s": ("Tokens per second", lambda value: show(value, COUNT)),
    "memory_bytes": ("Memory", lambda value: show(value, BYTES)),
    "flop_per_s": ("Compute rate", lambda value: show(value, FLOP_PER_S)),
    "gradient_norm": ("Gradient norm", lambda value: f"{value:.3g}"),
}


PREDICTED: Mapping[str, Callable[[TrainingPrediction], float]] = {
    "step_s": lambda foreseen: foreseen.step_s,
    "samples_per_s": lambda foreseen: foreseen.samples_per_s,
    "memory_bytes": lambda foreseen: foreseen.memory_bytes,
}


def run_table(run: Run, outcomes: Sequence[str]) -> Table:
    """Stages of a run."""
    rows = []
    for stage, words in zip(run.stages, outcomes, strict=True):
        took_s = (stage.ended_s - stage.started_s) if stage.ended_s and stage.started_s else None
        summary = words or (stage.error.splitlines() or [""])[0]
        rows.append(
            (stage.name, stage.state, "" if took_s is None else show(took_s, DURATION), summary)
        )
    columns = table_columns("stage", "state", ">time", "")
    cost = f", cost {show(run.cost_usd, MONEY)}" if run.cost_usd else ""
    return Table(
        columns=columns,
        rows=tuple(rows),
        title=f"run {run.id}: {run.name} on {run.engine.name}",
        notes=(f"{run.state}{cost}",) if cost or run.state != "done" else (),
    )


def run_curves(
    curves: Sequence[Series], foreseen: TrainingPrediction | None = None
) -> list[tuple[str, str]]:
    """Curves over steps; a predicted value is drawn as its own line."""
    drawn = []
    for name, (title, words) in WORDS.items():
        lines = [
            line for series in curves if series.name == name and len((line := _line(series)).xs) > 1
        ]
        if not lines:
            continue
        note = ""
        if name == "step_s":
            lines, note = _without_outliers(lines)
        if foreseen is not None and name in PREDICTED:
            value = PREDICTED[name](foreseen)
            last = max(line.xs[-1] for line in lines)
            lines.append(Line(name="predicted", xs=(0.0, last), ys=(value, value)))
        steps = Axis(title="step", words=lambda step: f"{step:,.0f}")
        drawn.append((f"{title}{note}", tracks(lines, steps, words, title)))
    return drawn


def compared_curves(runs: Sequence[tuple[str, Sequence[Series]]]) -> list[tuple[str, str]]:
    """The curves of several runs, drawn together."""
    named = [
        replace(metric, stage=f"{run} {metric.stage}")
        for run, metrics in runs
        for metric in metrics
    ]
    return run_curves(named)


def _without_outliers(lines: Sequence[Line]) -> tuple[list[Line], str]:
    """Step times without those that would flatten all others, and a note on them."""
    middle = statistics.median(y for line in lines for y in line.ys)
    most = OUTLIER * middle
    slow = [y for line in lines for y in line.ys if y > most]
    if not 0 < len(slow) <= max(1, FEW_RATIO * sum(len(line.ys) for line in lines)):
        return list(lines), ""
    shown = []
    for line in lines:
        points = [(x, y) for x, y in zip(line.xs, line.ys, strict=True) if y <= most]
        shown.append(
            Line(name=line.name, xs=tuple(x for x, _ in points), ys=tuple(y for _, y in points))
        )
    count = f"{len(slow)} slower step{'s' * (len(slow) > 1)}"
    return shown, f" ({count} not drawn, at most {show(max(slow), DURATION)}: compilation)"


def _line(series: Series) -> Line:
    known = [(float(point.step), point.value) for point in series.points if point.value is not None]
    every = max(1, -(-len(known) // MOST_POINTS))
    points = known[::every]
    return Line(
        name=series.stage,
        xs=tuple(step for step, _ in points),
        ys=tuple(value for _, value in points),
    )
