"""Charts as SVG text: a scatter on logarithmic axes and stacked bars. No script, no font, no network."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

__all__ = [
    "PALETTE", "Axis", "Bar", "Point", "drawing", "frame", "legend", "log_axis", "scatter", "stacked_bars", "tick_x",
    "tick_y", "ticks",
]  # fmt: skip

# Okabe and Ito (2008), then Tol's muted scheme: told apart by people with any colour vision.
PALETTE = (
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#f0e442", "#7f7f7f",
    "#332288", "#999933", "#882255", "#44aa99", "#ddcc77", "#aa4499", "#117733", "#cc6677",
)  # fmt: skip
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 400, 70, 50, 16, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A mark of a scatter; `size` is relative to 1, `joined` marks lie on the drawn front."""

    x: float
    y: float
    group: str
    label: str
    joined: bool = False
    size: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """What an axis measures; its marks are round in `unit`."""

    title: str
    words: Callable[[float], str]
    unit: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar of parts, in the order of the legend."""

    label: str
    parts: tuple[tuple[str, float], ...]


def scatter(points: Sequence[Point], x_axis: Axis, y_axis: Axis) -> str:
    """Marks over two logarithmic axes, the joined ones connected, each with its label as a tooltip."""
    place_x = log_axis([point.x for point in points], LEFT, WIDTH - RIGHT)
    place_y = log_axis([point.y for point in points], HEIGHT - BOTTOM, TOP)
    groups = sorted({point.group for point in points})
    colour = {group: PALETTE[index % len(PALETTE)] for index, group in enumerate(groups)}
    body = [frame(x_axis.title, y_axis.title)]
    body += [tick_x(place_x(value), x_axis.words(value)) for value in ticks([point.x for point in points], x_axis.unit)]
    body += [tick_y(place_y(value), y_axis.words(value)) for value in ticks([point.y for point in points], y_axis.unit)]
    front = sorted((place_x(point.x), place_y(point.y)) for point in points if point.joined)
    if len(front) > 1:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in front)
        body.append(
            f'<polyline points="{path}" fill="none" stroke="currentColor" stroke-dasharray="4 3" opacity=".5"/>'
        )
    for point in sorted(points, key=lambda point: point.joined):
        body.append(
            f'<circle cx="{place_x(point.x):.1f}" cy="{place_y(point.y):.1f}" r="{4 * point.size:.1f}" '
            f'fill="{colour[point.group]}" fill-opacity="{0.95 if point.joined else 0.5}">'
            f"<title>{escape(point.label)}</title></circle>"
        )
    return drawing(HEIGHT, "".join(body)) + legend([(group, colour[group]) for group in groups])


def stacked_bars(bars: Sequence[Bar], show: Callable[[float], str]) -> str:
    """Horizontal bars of parts, each part with its size as a tooltip."""
    names = list(dict.fromkeys(name for bar in bars for name, value in bar.parts if value > 0))
    colour = {name: PALETTE[index % len(PALETTE)] for index, name in enumerate(names)}
    largest = max((sum(value for _, value in bar.parts) for bar in bars), default=1.0) or 1.0
    row, label_width = 26, 230
    scale = (WIDTH - label_width - 90) / largest
    body = []
    for index, bar in enumerate(bars):
        y, x = 6 + index * row, float(label_width)
        body.append(f'<text x="{label_width - 8}" y="{y + 14}" text-anchor="end">{escape(bar.label)}</text>')
        for name, value in bar.parts:
            if value <= 0:
                continue
            body.append(
                f'<rect x="{x:.1f}" y="{y}" width="{value * scale:.2f}" height="18" fill="{colour[name]}">'
                f"<title>{escape(name)}: {escape(show(value))}</title></rect>"
            )
            x += value * scale
        body.append(f'<text x="{x + 6:.1f}" y="{y + 14}">{escape(show(sum(value for _, value in bar.parts)))}</text>')
    return drawing(12 + row * len(bars), "".join(body)) + legend([(name, colour[name]) for name in names])


def drawing(height: int, body: str) -> str:
    """The drawing's frame."""
    return (
        f'<div class="drawing"><svg viewBox="0 0 {WIDTH} {height}" role="img" xmlns="http://www.w3.org/2000/svg" '
        f'font-size="12" fill="currentColor">{body}</svg></div>'
    )


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """Names and their colours, as HTML."""
    items = "".join(f'<li><i style="background:{colour}"></i>{escape(name)}</li>' for name, colour in entries)
    return f'<ul class="legend">{items}</ul>'


def log_axis(values: Sequence[float], low_px: float, high_px: float) -> Callable[[float], float]:
    """From a value to its pixel, with a margin on both sides."""
    low, high = math.log10(min(values)), math.log10(max(values))
    margin = max(0.05 * (high - low), 0.05)
    low, high = low - margin, high + margin
    return lambda value: low_px + (math.log10(value) - low) / (high - low) * (high_px - low_px)


def ticks(values: Sequence[float], unit: float) -> list[float]:
    """Round values inside the range: 1, 2 and 5 times powers of ten units."""
    low, high = min(values) / unit, max(values) / unit
    found = []
    for power in range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1):
        found += [step * 10.0**power for step in (1, 2, 5) if low * 0.95 <= step * 10.0**power <= high * 1.05]
    return [value * unit for value in found or [low]]


def frame(x_title: str, y_title: str) -> str:
    """The axes and their titles."""
    bottom, middle = HEIGHT - BOTTOM, (HEIGHT - BOTTOM + TOP) / 2
    return (
        f'<path d="M{LEFT} {TOP}V{bottom}H{WIDTH - RIGHT}" fill="none" stroke="currentColor" opacity=".6"/>'
        f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_title)}</text>'
        f'<text transform="translate(14 {middle:.0f}) rotate(-90)" text-anchor="middle">{escape(y_title)}</text>'
    )


def tick_x(x: float, text: str) -> str:
    """A mark on the horizontal axis."""
    bottom = HEIGHT - BOTTOM
    return (
        f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="currentColor" opacity=".12"/>'
        f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{escape(text)}</text>'
    )


def tick_y(y: float, text: str) -> str:
    """A mark on the vertical axis."""
    return (
        f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="currentColor" opacity=".12"/>'
        f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>'
    )
