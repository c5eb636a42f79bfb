"""A sweep of simulations: spread over seeds as a table, rows as CSV, a page with a plot."""

from __future__ import annotations

import csv
import io

from gpuyard.report.page import html_table, page
from gpuyard.report.svg import Axis, ScatterPoint, scatter
from gpuyard.report.table import NOT_KNOWN, Table, table_columns
from gpuyard.simulate.sweep import SeedSpread, Sweep, SweepRow
from gpuyard.units import BYTES, BYTES_PER_S, DURATION, show

NUMBERS = (
    "engine", "algorithm", "balancing", "congestion_control", "hosts", "flows", "completed",
    "completion_s", "bus_bytes_per_s", "fct_mean_s", "fct_p50_s", "fct_p90_s", "fct_p99_s",
    "fct_max_s", "flow_jain_ratio", "link_mmr_ratio", "link_jain_ratio", "link_max_ratio", "drops",
    "pauses", "pause_s", "marks", "timeouts", "buffer_peak_bytes", "events",
)  # fmt: skip


def sweep_csv(sweep: Sweep) -> str:
    """One simulation per line."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("design", "size_bytes", "channels", "seed", *NUMBERS, "infeasible"))
    for row in sweep.rows:
        numbers = [None if row.summary is None else getattr(row.summary, name) for name in NUMBERS]
        why = (row.infeasible or "").splitlines()
        cells = (
            row.design,
            row.size_bytes,
            row.channels,
            row.seed,
            *numbers,
            why[0] if why else None,
        )
        writer.writerow(["" if cell is None else cell for cell in cells])
    return text.getvalue()


def sweep_table(sweep: Sweep) -> Table:
    """Spread over seeds."""
    infeasible = dict.fromkeys(
        f"{row.design}: {row.infeasible}" for row in sweep.rows if row.infeasible
    )
    return Table(
        columns=table_columns(
            "network",
            ">size",
            "algorithm",
            ">channels",
            "balancing",
            "engine",
            ">runs",
            ">completion",
            ">best",
            ">worst",
            ">bus bandwidth",
            ">FCT p99",
            ">MMR",
            ">pauses",
            ">drops",
        ),
        rows=tuple(_cells(spread) for spread in sweep.spreads),
        title=f"{sweep.traffic}: {len(sweep.rows):,} simulations",
        notes=tuple(infeasible),
    )


def _cells(spread: SeedSpread) -> tuple[str, ...]:
    return (
        spread.design,
        NOT_KNOWN if spread.size_bytes is None else show(spread.size_bytes, BYTES),
        spread.algorithm or NOT_KNOWN,
        str(spread.channels),
        spread.balancing,
        spread.engine,
        str(spread.runs),
        show(spread.completion_mean_s, DURATION),
        show(spread.completion_min_s, DURATION),
        show(spread.completion_max_s, DURATION),
        (
            NOT_KNOWN
            if spread.bus_mean_bytes_per_s is None
            else show(spread.bus_mean_bytes_per_s, BYTES_PER_S)
        ),
        NOT_KNOWN if spread.fct_p99_mean_s is None else show(spread.fct_p99_mean_s, DURATION),
        NOT_KNOWN if spread.mmr_mean_ratio is None else f"{spread.mmr_mean_ratio:.3g}",
        NOT_KNOWN if spread.pauses_mean is None else f"{spread.pauses_mean:,.0f}",
        NOT_KNOWN if spread.drops is None else f"{spread.drops:,}",
    )


def sweep_page(sweep: Sweep) -> str:
    """The sweep as one page: completion time over size."""
    points = [
        _point(row)
        for row in sweep.rows
        if row.summary is not None and row.summary.completion_s > 0
    ]
    size = Axis(title="data", words=lambda value: show(value, BYTES))
    time = Axis(title="completion", words=lambda value: show(value, DURATION))
    sections = [f"<h2>Completion</h2>{scatter(points, size, time)}"] if points else []
    busy = [
        _point(row, bus=True) for row in sweep.rows if row.summary and row.summary.bus_bytes_per_s
    ]
    rate = Axis(title="bus bandwidth", words=lambda value: show(value, BYTES_PER_S))
    if busy:
        sections.append(f"<h2>Bus bandwidth</h2>{scatter(busy, size, rate)}")
    sections.append(f"<h2>Over seeds</h2>{html_table(sweep_table(sweep))}")
    return page(f"Sweep: {sweep.traffic}", sections)


def _point(row: SweepRow, *, bus: bool = False) -> ScatterPoint:
    assert row.summary is not None, "only those that ran are drawn"
    done = row.summary
    group = ", ".join(part for part in (row.design, done.algorithm, done.balancing) if part)
    value = (done.bus_bytes_per_s or 0.0) if bus else done.completion_s
    shown_value = show(value, BYTES_PER_S if bus else DURATION)
    data = row.size_bytes or done.total_bytes
    return ScatterPoint(
        x=data,
        y=value,
        group=group,
        label=f"{group}, {show(data, BYTES)}, seed {row.seed}: {shown_value}",
    )
