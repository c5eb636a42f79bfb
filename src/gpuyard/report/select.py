"""A model selection as tables and a page: winner, ranking, rejected trials."""

from __future__ import annotations

from html import escape

from gpuyard.learn.select.selection import Footprint, Selection
from gpuyard.report.page import html_table, page
from gpuyard.report.plots import marks
from gpuyard.report.table import Table, table_columns
from gpuyard.units import BYTES, DURATION, MONEY, show


def winner_text(chosen: Selection) -> str:
    """The winner in a few lines."""
    winner, score = chosen.winner, chosen.winner.score
    assert score is not None
    interval = (
        "" if score.low is None or score.high is None else f" ({score.low:.4g} to {score.high:.4g})"
    )
    lines = [
        f"chosen: trial {winner.number}, {winner.label}",
        f"{chosen.metric} {score.value:.6g}{interval}",
    ]
    if winner.footprint is not None:
        lines.append(footprint_words(winner.footprint))
    second = chosen.against_second
    if second is not None:
        words = "more than chance" if second.significant else "may be chance"
        lines.append(
            f"lead over the next: {second.difference:+.4g}, {words} (p {second.p_value:.2g},"
            f" {second.test})"
        )
    total = chosen.fits_count + chosen.fits_saved_count
    lines.append(
        f"{chosen.fits_count} models fitted of {total}: {chosen.search}, pruning {chosen.prune}"
    )
    return "\n".join(lines)


def footprint_words(taken: Footprint) -> str:
    """Latency, memory and cost of serving, in one line."""
    words = (
        f"one row in {show(taken.latency_s, DURATION)} (99 of 100 within"
        f" {show(taken.latency_p99_s, DURATION)}), {taken.batch_rows} rows in"
        f" {show(taken.batch_latency_s, DURATION)}, process {show(taken.memory_bytes, BYTES)},"
        f" files {show(taken.size_bytes, BYTES)}"
    )
    return (
        words
        if taken.cost_usd is None
        else f"{words}, a million predictions {show(taken.cost_usd, MONEY)}"
    )


def ranking_table(chosen: Selection, most: int = 20) -> Table:
    """Complete trials, best first."""
    rows = []
    for place, trial in enumerate(chosen.ranking[:most], start=1):
        assert trial.score is not None
        low, high = trial.score.low, trial.score.high
        interval = "–" if low is None or high is None else f"{low:.4g} to {high:.4g}"
        taken = "" if trial.footprint is None else footprint_words(trial.footprint)
        rows.append(
            (
                str(place),
                str(trial.number),
                trial.label,
                f"{trial.score.value:.6g}",
                interval,
                taken,
            )
        )
    headings = ("place", "trial", "setting", chosen.metric, "interval", "measured")
    numeric = ("place", "trial", chosen.metric, "interval")
    return Table(
        columns=table_columns(*headings, numeric=numeric),
        rows=tuple(rows),
    )


def rejected_table(chosen: Selection) -> Table:
    """Rejected trials with the reason."""
    return Table(
        columns=table_columns(">trial", "setting", "reason"),
        rows=tuple((str(item.number), item.label, item.reason) for item in chosen.rejected),
        title="rejected",
    )


def selection_page(chosen: Selection) -> str:
    """A selection as a self-contained page."""
    return page("Selection", selection_sections(chosen))


def selection_sections(chosen: Selection) -> list[str]:
    """Sections of the page, as HTML."""
    sections = [
        f"<pre>{escape(winner_text(chosen))}</pre>",
        "<h2>Ranking</h2>",
        html_table(ranking_table(chosen, 100)),
    ]
    if len(chosen.ranking) > 1:
        numbers = [float(trial.number) for trial in chosen.ranking]
        values = [trial.score.value for trial in chosen.ranking if trial.score is not None]
        sections += ["<h2>Scores by trial</h2>", marks(numbers, values, "trial", chosen.metric)]
    sections += ["<h2>Rejected</h2>", html_table(rejected_table(chosen))]
    return sections
