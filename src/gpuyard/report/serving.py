"""A simulated service: latency percentiles, distributions, timeline."""

from __future__ import annotations

from gpuyard.perf.inference.quantiles import LatencyQuantiles
from gpuyard.plan.inference.serving_run import ServingRun
from gpuyard.plan.service import LatencyStats, layout_text
from gpuyard.report.curves import Line, distributions, tracks
from gpuyard.report.page import html_table, page
from gpuyard.report.svg import Axis
from gpuyard.report.table import Table, table_columns
from gpuyard.units import DURATION, RATIO, TOKENS, show


def serving_table(run: ServingRun) -> Table:
    """Latencies, one per row."""
    rows = (
        ("time to first token (TTFT)", run.ttft),
        ("time per output token (TPOT)", run.tpot),
        ("inter-token latency (ITL)", run.itl),
        ("end-to-end latency (E2E)", run.e2e),
        ("queueing", run.queued),
    )
    met = f"missed: {', '.join(run.broken)}" if run.broken else "every latency target is met"
    if not run.targets:
        met = "no latency target in the file"
    layout = f"{run.replicas} × {layout_text(run.tp, run.pp, run.ep, run.attention_dp)}"
    if run.prefill is not None:
        pool = run.prefill
        layout = (
            f"{pool.replicas} × {layout_text(pool.tp, 1, pool.ep, pool.attention_dp)}"
            f" (prefill), {layout} (decode)"
        )
    return Table(
        columns=table_columns("latency", ">mean", ">p50", ">p90", ">p99", ">±"),
        rows=tuple((name, *_cells(values)) for name, values in rows),
        notes=(
            f"{layout} on {run.machine}, {run.weights} weights, {run.kv} KV cache, {run.engine}",
            _rates(run),
            met,
            "±: 80 % of predictions of published runs were within it",
            *run.notes,
        ),
    )


def _rates(run: ServingRun) -> str:
    return (
        f"{run.requests:,} requests in {show(run.duration_s, DURATION)}, seed {run.seed}:"
        f" {run.requests_per_s:.3g} requests/s, {show(run.output_tokens_per_s, TOKENS)} output"
        f" tokens/s, {show(run.total_tokens_per_s, TOKENS)} input and output"
        f" (±{show(run.rate_error_ratio, RATIO, 2)}), {run.preemptions} preemptions"
    )


def _cells(values: LatencyStats | LatencyQuantiles) -> tuple[str, ...]:
    cells = tuple(
        show(value, DURATION) for value in (values.mean_s, values.p50_s, values.p90_s, values.p99_s)
    )
    return (*cells, show(values.error_ratio, RATIO, 2) if isinstance(values, LatencyStats) else "")


def run_sections(run: ServingRun) -> list[str]:
    """Plots of the run, as sections of a page."""
    time = Axis(title="latency", words=lambda value: show(value, DURATION, 3))
    lines = [Line(name=curve.name, xs=curve.seconds, ys=curve.shares) for curve in run.curves]
    marks = [(f"{limit.name} target", limit.seconds) for limit in run.targets]
    sections = [
        f"<h2>Latencies under load</h2>{distributions(lines, time, marks)}",
        html_table(serving_table(run)),
    ]
    clock = Axis(title="time", words=lambda value: show(value, DURATION, 3) if value else "0")
    counted = [
        Line(name=track.name, xs=track.at_s, ys=track.values)
        for track in run.tracks
        if "cache" not in track.name
    ]
    filled = [
        Line(name=track.name, xs=track.at_s, ys=track.values)
        for track in run.tracks
        if "cache" in track.name
    ]
    if counted:
        drawn = tracks(counted, clock, lambda value: f"{value:,g}", "requests")
        sections.append(f"<h2>Requests waiting and running</h2>{drawn}")
    if filled:
        drawn = tracks(filled, clock, lambda value: f"{value:.3g}", "share of the cache")
        sections.append(f"<h2>Cache of keys and values</h2>{drawn}")
    return sections


def serving_page(run: ServingRun) -> str:
    """The run as a self-contained page."""
    return page(f"Serving: {run.workload}", run_sections(run))
