"""Line plots as SVG text: distributions on a logarithmic axis, and values over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from gpuyard.report.svg import (
    BOTTOM,
    HEIGHT,
    LEFT,
    PALETTE,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    drawing,
    frame,
    legend,
    log_axis,
    tick_x,
    tick_y,
    ticks,
)

SHARES = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
LEAST_S = 1e-6  # a logarithm needs something above nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A named series of points."""

    name: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]


def distributions(
    lines: Sequence[Line],
    x_axis: Axis,
    marks: Sequence[tuple[str, float]] = (),
    of: str = "requests",
) -> str:
    """Plot cumulative shares on a logarithmic axis; `marks` are labelled vertical lines."""
    known = [max(x, LEAST_S) for line in lines for x in line.xs] + [value for _, value in marks]
    place_x = log_axis(known, LEFT, WIDTH - RIGHT)

    def place_y(share: float) -> float:
        return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)

    body = [frame(x_axis.title, f"share of {of}")]
    body += [tick_x(place_x(value), x_axis.words(value)) for value in ticks(known, x_axis.unit)]
    body += [tick_y(place_y(share), f"{share:.0%}") for share in SHARES]
    for index, line in enumerate(lines):
        points = [
            (place_x(max(x, LEAST_S)), place_y(y)) for x, y in zip(line.xs, line.ys, strict=True)
        ]
        body.append(_path(points, PALETTE[index % len(PALETTE)], line.name))
    for name, value in marks:
        x = place_x(value)
        body.append(
            f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="currentColor" stroke-dasharray="2'
            f' 3" opacity=".7"/><text x="{x + (4 if x < WIDTH - 110 else -4):.1f}" y="{TOP + 12}"'
            ' font-size="11"'
            f' text-anchor="{"start" if x < WIDTH - 110 else "end"}">{escape(name)}</text>'
        )
    colours = [(line.name, PALETTE[index % len(PALETTE)]) for index, line in enumerate(lines)]
    return drawing(HEIGHT, "".join(body), f"share of {of} by {x_axis.title}") + legend(colours)


def tracks(
    lines: Sequence[Line], x_axis: Axis, y_words: Callable[[float], str], y_title: str
) -> str:
    """Plot lines over time on one axis that starts at zero."""
    last = max((line.xs[-1] for line in lines if line.xs), default=1.0) or 1.0
    most = max((y for line in lines for y in line.ys), default=1.0) or 1.0

    def place_x(x: float) -> float:
        return LEFT + x / last * (WIDTH - RIGHT - LEFT)

    def place_y(y: float) -> float:
        return HEIGHT - BOTTOM - y / most * (HEIGHT - BOTTOM - TOP)

    body = [frame(x_axis.title, y_title)]
    body += [tick_x(place_x(value), x_axis.words(value)) for value in round_steps(last)]
    body += [tick_y(place_y(value), y_words(value)) for value in round_steps(most)]
    for index, line in enumerate(lines):
        points = [(place_x(x), place_y(y)) for x, y in zip(line.xs, line.ys, strict=True)]
        body.append(_path(points, PALETTE[index % len(PALETTE)], line.name))
    colours = [(line.name, PALETTE[index % len(PALETTE)]) for index, line in enumerate(lines)]
    return drawing(HEIGHT, "".join(body), f"{y_title} by {x_axis.title}") + legend(colours)


def _path(points: Sequence[tuple[float, float]], colour: str, name: str) -> str:
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="1.8">'
        f"<title>{escape(name)}</title></polyline>"
    )


def round_steps(most: float) -> list[float]:
    """Three to seven round values from zero to the maximum."""
    raw = most / 6.0
    power = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 1.0
    step = next(
        (factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= raw), power
    )
    return [step * index for index in range(int(most / step) + 1)]
