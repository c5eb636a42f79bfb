"""A simulated network: table of results, hottest links, JSON fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from gpuyard.document.encode import plain
from gpuyard.document.frozen_json import Plain
from gpuyard.report.table import NOT_KNOWN, Table, TableColumn, table_columns
from gpuyard.simulate.summary import NetworkSummary
from gpuyard.units import BYTES, BYTES_PER_S, DURATION, RATIO, show

Words = Callable[[float], str]


def summary_fields(summary: NetworkSummary) -> dict[str, Plain]:
    """Every number by name; null where the engine does not know it."""
    return {field.name: plain(getattr(summary, field.name)) for field in fields(summary)}


def _time(value: float) -> str:
    return show(value, DURATION, 4)


def _rate(value: float) -> str:
    return show(value, BYTES_PER_S, 4)


def _count(value: float) -> str:
    return f"{value:,.0f}"


ROWS: tuple[tuple[str, str, Words], ...] = (
    ("completion_s", "completion", _time),
    ("bus_bytes_per_s", "bus bandwidth", _rate),
    ("algorithm_bytes_per_s", "algorithm bandwidth", _rate),
    ("nccl_s", "NCCL, fitted on measurements", _time),
    ("nccl_bus_bytes_per_s", "NCCL bus bandwidth", _rate),
    ("fct_mean_s", "flow completion, mean", _time),
    ("fct_p50_s", "flow completion, p50", _time),
    ("fct_p90_s", "flow completion, p90", _time),
    ("fct_p99_s", "flow completion, p99", _time),
    ("fct_max_s", "flow completion, max", _time),
    ("flow_jain_ratio", "Jain's index of flow rates", lambda value: f"{value:.3f}"),
    ("link_mmr_ratio", "MMR of links between switches", lambda value: f"{value:.3f}"),
    ("link_jain_ratio", "Jain's index of those links", lambda value: f"{value:.3f}"),
    ("link_max_ratio", "hottest link", lambda value: show(value, RATIO)),
    ("pauses", "PFC pauses", _count),
    ("pause_s", "paused, summed over links", _time),
    ("pause_max_s", "paused, worst link", _time),
    ("marks", "ECN marks", _count),
    ("notifications", "CNPs", _count),
    ("drops", "drops", _count),
    ("timeouts", "timeouts", _count),
    ("failed_flows", "failed flows", _count),
    ("buffer_peak_bytes", "peak switch buffer", lambda value: show(value, BYTES)),
    ("queue_peak_bytes", "longest queue", lambda value: show(value, BYTES)),
    ("storms", "PFC storms found by the watchdog", _count),
    ("events", "events", _count),
)
QUIET = {
    "marks",
    "notifications",
    "timeouts",
    "failed_flows",
    "storms",
}  # not worth a row when they are none


def headline(summary: NetworkSummary) -> str:
    """What was simulated, in one line."""
    return f"{summary.traffic}, on {summary.network}"


def simulation_table(summary: NetworkSummary) -> Table:
    """Results, one per row."""
    rows = [
        (
            "flows",
            f"{summary.completed:,} of {summary.flows:,} done, {show(summary.total_bytes, BYTES)}",
        )
    ]
    for name, label, words in ROWS:
        value = getattr(summary, name)
        if value is not None and not (name in QUIET and not value):
            rows.append((label, words(value)))
    if summary.deadlock:
        rows.append(("deadlock", ", ".join(summary.deadlock)))
    return Table(
        columns=table_columns("what", ">value"),
        rows=tuple(rows),
        notes=(_how(summary), *summary.notes),
    )


def _how(summary: NetworkSummary) -> str:
    parts = [f"{summary.engine} engine", f"{summary.balancing} balancing"]
    if summary.algorithm:
        parts.insert(0, summary.algorithm)
    if summary.engine == "packet":
        parts.append(
            "no congestion control"
            if summary.congestion_control == "none"
            else summary.congestion_control
        )
    return ", ".join([*parts, f"seed {summary.seed}"])


def links_table(summary: NetworkSummary) -> Table:
    """Hottest links first."""
    packets = summary.engine == "packet"
    headings = ("hottest links", "utilisation", "carried") + (
        ("paused", "longest queue") if packets else ()
    )
    rows = []
    for load in summary.hottest:
        row: tuple[str, ...] = (
            load.link,
            show(load.utilisation_ratio, RATIO),
            show(load.carried_bytes, BYTES),
        )
        if packets:
            pause = NOT_KNOWN if load.pause_s is None else show(load.pause_s, DURATION)
            queue = (
                NOT_KNOWN if load.queue_peak_bytes is None else show(load.queue_peak_bytes, BYTES)
            )
            row = (*row, pause, queue)
        rows.append(row)
    return Table(
        columns=tuple(
            TableColumn(heading=heading, numeric=place > 0)
            for place, heading in enumerate(headings)
        ),
        rows=tuple(rows),
    )
