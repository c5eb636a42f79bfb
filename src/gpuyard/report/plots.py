"""Plots on linear axes as SVG text: lines, points, histograms, confusion matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from gpuyard.report.svg import (
    BOTTOM,
    HEIGHT,
    LEFT,
    PALETTE,
    RIGHT,
    TOP,
    WIDTH,
    drawing,
    frame,
    legend,
    tick_x,
    tick_y,
)

Place = Callable[[float], float]
CELL = 46
MOST_LINES = 16
LEAST_RATIO = 1e-9  # of the values: a narrower range cannot be resolved
LEAST_WIDTH = 1e-290  # near the least float, whose parts are zero


def lines(
    curves: Sequence[tuple[str, Sequence[float], Sequence[float]]],
    x_title: str,
    y_title: str,
    *,
    unit: bool = False,
    diagonal: bool = False,
) -> str:
    """Line plot; `unit`: both axes from 0 to 1; `diagonal`: draw the line of chance."""
    curves = curves[:MOST_LINES]
    xs = [x for _, values, _ in curves for x in values if math.isfinite(x)]
    ys = [y for _, _, values in curves for y in values if math.isfinite(y)]
    place_x, place_y, body = _axes(
        (0.0, 1.0) if unit else xs, (0.0, 1.0) if unit else ys, x_title, y_title
    )
    if diagonal:
        start, end = (place_x(0.0), place_y(0.0)), (place_x(1.0), place_y(1.0))
        body.append(
            f'<path d="M{start[0]:.1f} {start[1]:.1f}L{end[0]:.1f} {end[1]:.1f}"'
            ' stroke="currentColor" stroke-dasharray="4 3" opacity=".4"/>'
        )
    for index, (name, values, heights) in enumerate(curves):
        known = [
            (x, y)
            for x, y in zip(values, heights, strict=True)
            if math.isfinite(x) and math.isfinite(y)
        ]
        points = " ".join(f"{place_x(x):.1f},{place_y(y):.1f}" for x, y in known)
        colour = PALETTE[index % len(PALETTE)]
        body.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8">'
            f"<title>{escape(name)}</title></polyline>"
        )
    names = [(name, PALETTE[index % len(PALETTE)]) for index, (name, _, _) in enumerate(curves)]
    return drawing(HEIGHT, "".join(body), f"{y_title} against {x_title}") + legend(names)


def marks(
    xs: Sequence[float], ys: Sequence[float], x_title: str, y_title: str, *, equal: bool = False
) -> str:
    """Scatter plot; `equal`: same range on both axes, with the diagonal."""
    both = [*xs, *ys]
    place_x, place_y, body = _axes(both if equal else xs, both if equal else ys, x_title, y_title)
    if equal:
        low, high = min(both), max(both)
        body.append(
            f'<path d="M{place_x(low):.1f} {place_y(low):.1f}L{place_x(high):.1f}'
            f' {place_y(high):.1f}" stroke="currentColor" stroke-dasharray="4 3" opacity=".4"/>'
        )
    body += [
        f'<circle cx="{place_x(x):.1f}" cy="{place_y(y):.1f}" r="4" fill="{PALETTE[0]}"'
        ' fill-opacity=".7"/>'
        for x, y in zip(xs, ys, strict=True)
    ]
    return drawing(HEIGHT, "".join(body), f"{y_title} against {x_title}")


def bars(edges: Sequence[float], counts: Sequence[int], x_title: str, y_title: str) -> str:
    """Histogram."""
    place_x, place_y, body = _axes(edges, (0.0, float(max(counts, default=1))), x_title, y_title)
    bottom = HEIGHT - BOTTOM
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        x, width, y = place_x(low), place_x(high) - place_x(low), place_y(count)
        body.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0.5, width - 1):.1f}"'
            f' height="{bottom - y:.1f}" fill="{PALETTE[0]}"><title>{low:.4g} to {high:.4g}:'
            f" {count:,}</title></rect>"
        )
    return drawing(HEIGHT, "".join(body), f"{y_title} against {x_title}")


def heat(table: Sequence[Sequence[int]], names: Sequence[str]) -> str:
    """Confusion matrix: true classes (rows) and predictions (columns), shaded per row."""
    left, top, body = 130, 40, []
    for column, name in enumerate(names):
        x = left + (column + 0.5) * CELL
        body.append(
            f'<text x="{x:.0f}" y="{top - 8}" text-anchor="middle">{escape(name[:8])}</text>'
        )
    for row, cells in enumerate(table):
        y, total = top + row * CELL, sum(cells) or 1
        body.append(
            f'<text x="{left - 8}" y="{y + CELL / 2 + 4:.0f}"'
            f' text-anchor="end">{escape(names[row][:16])}</text>'
        )
        for column, count in enumerate(cells):
            x = left + column * CELL
            body.append(
                f'<rect x="{x}" y="{y}" width="{CELL - 2}" height="{CELL - 2}" fill="{PALETTE[0]}"'
                f' fill-opacity="{0.08 + 0.72 * count / total:.2f}"><title>{escape(names[row])}'
                f" predicted as {escape(names[column])}: {count:,} of {total:,}</title></rect><text"
                f' x="{x + CELL / 2 - 1:.0f}" y="{y + CELL / 2 + 4:.0f}"'
                f' text-anchor="middle">{count:,}</text>'
            )
    body.append(f'<text x="{left}" y="14">columns: predicted; rows: true</text>')
    return drawing(top + CELL * len(table) + 10, "".join(body), "confusion matrix")


def _axes(
    xs: Sequence[float], ys: Sequence[float], x_title: str, y_title: str
) -> tuple[Place, Place, list[str]]:
    x_low, x_high = _range(xs)
    y_low, y_high = _range(ys)

    def place_x(value: float) -> float:
        return LEFT + (value - x_low) / (x_high - x_low) * (WIDTH - RIGHT - LEFT)

    def place_y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - y_low) / (y_high - y_low) * (HEIGHT - BOTTOM - TOP)

    body = [frame(x_title, y_title)]
    body += [tick_x(place_x(value), f"{value:.4g}") for value in _round_values(x_low, x_high)]
    body += [tick_y(place_y(value), f"{value:.4g}") for value in _round_values(y_low, y_high)]
    return place_x, place_y, body


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Value range, never too narrow for floats to divide."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    size = max(abs(low), abs(high))
    if high - low > max(LEAST_RATIO * size, LEAST_WIDTH):
        return low, high
    return low - 0.5 * max(1.0, size), high + 0.5 * max(1.0, size)


def _round_values(low: float, high: float) -> list[float]:
    """Three to eight round values inside the range."""
    raw = (high - low) / 6.0
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= raw)
    first = math.ceil(low / step - 1e-9)
    return [step * index for index in range(first, math.floor(high / step + 1e-9) + 1)]
