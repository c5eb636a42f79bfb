"""A dataset profile as one page: findings, correlations, a plot per column."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gpuyard.datasets.profile.measures import QUANTILES, ColumnProfile, Correlations, DatasetProfile
from gpuyard.report.page import asset, html_table, page
from gpuyard.report.profile import (
    MEASURES,
    distinct,
    moment,
    number,
    profile_notes,
    profile_summary,
    profile_table,
    share,
    short,
    tie_words,
    ties_table,
)
from gpuyard.report.svg import PALETTE

WIDTH, HEIGHT = 300, 96
BAR, SHOWN = 15, 8
MOST_CARDS = 400
CELL, LABELS = 26, 130
FIGURES = 16  # columns up to which a cell shows its number


def profile_page(profile: DatasetProfile) -> str:
    """The profile as a self-contained page."""
    return page(f"Data: {profile.source}", profile_sections(profile))


def profile_sections(profile: DatasetProfile) -> list[str]:
    """Sections of the page, as HTML."""
    sections = [
        asset("profile.css"),
        f"<p>{escape(profile_summary(profile).removeprefix(profile.source + ': '))}</p>",
    ]
    sections += [f"<p>{escape(note)}</p>" for note in profile_notes(profile)]
    sections.append(_warnings(profile))
    if table := ties_table(profile):
        sections.append(f"<h2>With the label {escape(profile.label or '')}</h2>{html_table(table)}")
    if profile.correlations:
        sections.append(
            f'<h2>Correlations</h2><div class="heat">{correlation_map(profile.correlations)}</div>'
        )
    cards = "".join(_card(column, profile) for column in profile.columns[:MOST_CARDS])
    more = len(profile.columns) - MOST_CARDS
    rest = f"<p>{more:,} more columns are in the table below.</p>" if more > 0 else ""
    sections.append(f'<h2>Columns</h2><div class="cards">{cards}</div>{rest}')
    sections.append(f"<h2>All columns</h2>{html_table(profile_table(profile))}")
    return sections


def _warnings(profile: DatasetProfile) -> str:
    if not profile.findings:
        return "<h2>To look at</h2><p>Nothing looks wrong.</p>"
    items = "".join(
        f"<li><b>{escape(one.where)}</b> {escape(one.what)}<small>{escape(one.fix)}</small></li>"
        for one in profile.findings
    )
    return f'<h2>To look at</h2><ul class="warnings">{items}</ul>'


def _card(column: ColumnProfile, profile: DatasetProfile) -> str:
    facts = [
        ("nulls", share(column.nulls_count, profile.rows_count)),
        ("distinct", distinct(column)),
    ]
    if column.kind == "text" and column.longest is not None:
        facts.append(("characters", f"{column.shortest} to {column.longest}"))
    if column.min is not None:
        facts.append(("range", f"{short(column.min)} to {short(column.max)}"))
    if column.mean is not None:
        spread = "" if column.std is None else f" ± {number(column.std)}"
        facts.append(("mean", f"{number(column.mean)}{spread}"))
    if column.quantiles:
        middle = (moment(column, column.quantiles[QUANTILES.index(at)]) for at in (0.25, 0.5, 0.75))
        facts.append(("quartiles", " · ".join(middle)))
    if column.outliers_ratio:
        facts.append(("outliers", f"{column.outliers_ratio:.1%}"))
    if column.nan_count or column.infinite_count:
        facts.append(("NaN, infinite", f"{column.nan_count:,}, {column.infinite_count:,}"))
    if column.association:
        facts.append((MEASURES[column.association.measure], tie_words(column.association)))
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    label = " · label" if column.name == profile.label else ""
    return (
        f'<div class="card"><h3>{escape(column.name)}</h3><p>{escape(column.dtype)}{label}</p>'
        f"{_plot(column)}<dl>{rows}</dl></div>"
    )


def _plot(column: ColumnProfile) -> str:
    if column.top and (column.kind != "number" or column.distinct_count <= SHOWN):
        return common_values(column)
    return histogram(column) if len(column.histogram) > 1 else ""


def _svg(height: float, body: str, name: str, width: float = WIDTH) -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(name)}" '
        f'xmlns="http://www.w3.org/2000/svg" font-size="10" fill="currentColor">{body}</svg>'
    )


def histogram(column: ColumnProfile) -> str:
    """Histogram with row counts as tooltips."""
    most = max(bar.rows_count for bar in column.histogram) or 1
    low, high = column.histogram[0].low, column.histogram[-1].high
    scale, bottom = WIDTH / (high - low), HEIGHT - 14
    body = []
    for bar in column.histogram:
        height = bar.rows_count / most * (bottom - 2)
        tooltip = (
            f"{moment(column, bar.low)} to {moment(column, bar.high)}: {bar.rows_count:,} rows"
        )
        body.append(
            f'<rect x="{(bar.low - low) * scale:.1f}" y="{bottom - height:.1f}"'
            f' height="{height:.1f}" width="{max((bar.high - bar.low) * scale - 0.6, 0.4):.1f}"'
            f' fill="{PALETTE[0]}"><title>{escape(tooltip)}</title></rect>'
        )
    body.append(f'<path d="M0 {bottom}H{WIDTH}" stroke="currentColor" opacity=".4"/>')
    body.append(f'<text x="0" y="{HEIGHT - 2}">{escape(moment(column, low))}</text>')
    body.append(
        f'<text x="{WIDTH}" y="{HEIGHT - 2}"'
        f' text-anchor="end">{escape(moment(column, high))}</text>'
    )
    return _svg(HEIGHT, "".join(body), f"histogram of {column.name}")


def common_values(column: ColumnProfile) -> str:
    """Bars of the most common values."""
    shown = column.top[:SHOWN]
    most, left = shown[0].rows_count or 1, 110
    body = []
    for index, value in enumerate(shown):
        y = index * BAR
        wide = value.rows_count / most * (WIDTH - left - 50)
        text = escape(short(value.text)[:18] or "(empty)")
        body.append(
            f'<text x="{left - 6}" y="{y + 11}" text-anchor="end">{text}</text><rect x="{left}"'
            f' y="{y + 2}" width="{wide:.1f}" height="{BAR - 4}"'
            f' fill="{PALETTE[2]}"><title>{escape(short(value.text))}: {value.rows_count:,}'
            f' rows</title></rect><text x="{left + wide + 4:.1f}"'
            f' y="{y + 11}">{value.rows_count:,}</text>'
        )
    return _svg(len(shown) * BAR + 2, "".join(body), f"common values of {column.name}")


def correlation_map(table: Correlations) -> str:
    """Correlation of every two numeric columns."""
    size = len(table.names)
    body = []
    for row, name in enumerate(table.names):
        y = LABELS + row * CELL
        body.append(
            f'<text x="{LABELS - 6}" y="{y + CELL * 0.65:.0f}"'
            f' text-anchor="end">{_cut(name)}</text>'
        )
        x = LABELS + row * CELL + CELL * 0.65
        body.append(
            f'<text transform="translate({x:.0f} {LABELS - 6}) rotate(-60)">{_cut(name)}</text>'
        )
        body += [_cell(table.names, row, at, cell, size) for at, cell in enumerate(table.rows[row])]
    side = LABELS + size * CELL + 4
    legend = (
        f'<text x="{LABELS}" y="{side + 12}">blue: rise together; orange: one rises, the other'
        " falls</text>"
    )
    return _svg(side + 20, "".join(body) + legend, "correlations", side + 60)


def _cell(names: Sequence[str], row: int, column: int, value: float | None, size: int) -> str:
    x, y = LABELS + column * CELL, LABELS + row * CELL
    tooltip = "does not vary" if value is None else f"{value:+.3f}"
    colour = PALETTE[0] if (value or 0.0) >= 0 else PALETTE[3]
    text = ""
    if value is not None and size <= FIGURES:
        figure = f"{value:.1f}".replace("-0.0", "0.0")
        text = (
            f'<text x="{x + CELL / 2:.0f}" y="{y + 16}" text-anchor="middle"'
            f' font-size="8">{figure}</text>'
        )
    return (
        f'<rect x="{x}" y="{y}" width="{CELL - 1}" height="{CELL - 1}" fill="{colour}" '
        f'fill-opacity="{0.04 + 0.9 * abs(value or 0.0):.2f}">'
        f"<title>{escape(names[row])} and {escape(names[column])}: {tooltip}</title></rect>{text}"
    )


def _cut(name: str) -> str:
    return escape(name if len(name) <= 22 else f"{name[:21]}…")
