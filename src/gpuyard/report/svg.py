"""Charts as SVG text: scatter plots on logarithmic axes and stacked bars; no script or font."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

# Okabe and Ito (2008), then Tol's muted scheme: distinguishable with any colour vision.
PALETTE = (
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#f0e442", "#7f7f7f",
    "#332288", "#999933", "#882255", "#44aa99", "#ddcc77", "#aa4499", "#117733", "#cc6677",
)  # fmt: skip
OTHER = "other"
LEAST_SHARE = 0.01  # of a bar, to have a colour
MARKERS = ("circle", "square", "triangle", "diamond", "wedge")
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 400, 92, 50, 16, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterPoint:
    """A point of a scatter plot: colour by `group`, shape by `kind`, `label` as its tooltip."""

    x: float
    y: float
    group: str
    label: str
    kind: str = ""
    joined: bool = False  # on the drawn front
    ringed: bool = False
    chosen: bool = False
    name: str = ""  # written next to it
    size: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Quantity and unit of an axis; its ticks are round in `unit`."""

    title: str
    words: Callable[[float], str]
    unit: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A stacked bar, in the order of the legend; it is drawn as a share of its `whole`."""

    label: str
    parts: tuple[tuple[str, float], ...]
    whole: float = 0.0  # the sum of the parts, if it is less than that

    @property
    def sum(self) -> float:
        return sum(value for _, value in self.parts if value > 0)


def scatter(points: Sequence[ScatterPoint], x_axis: Axis, y_axis: Axis) -> str:
    """Scatter plot on two logarithmic axes, joined points connected, labels as tooltips."""
    place_x = log_axis([point.x for point in points], LEFT, WIDTH - RIGHT)
    place_y = log_axis([point.y for point in points], HEIGHT - BOTTOM, TOP)
    groups = sorted({point.group for point in points})
    kinds = sorted({point.kind for point in points})
    colour = {group: PALETTE[index % len(PALETTE)] for index, group in enumerate(groups)}
    shape = {kind: MARKERS[index % len(MARKERS)] for index, kind in enumerate(kinds)}
    body = [frame(x_axis.title, y_axis.title)]
    body += [
        tick_x(place_x(value), x_axis.words(value))
        for value in ticks([point.x for point in points], x_axis.unit)
    ]
    body += [
        tick_y(place_y(value), y_axis.words(value))
        for value in ticks([point.y for point in points], y_axis.unit)
    ]
    front = sorted((place_x(point.x), place_y(point.y)) for point in points if point.joined)
    if len(front) > 1:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in front)
        body.append(
            f'<polyline points="{path}" fill="none" stroke="currentColor" stroke-dasharray="4 3"'
            ' opacity=".5"/>'
        )
    for point in sorted(points, key=lambda point: point.joined):
        x, y, radius = place_x(point.x), place_y(point.y), 4 * point.size
        body.append(
            f"<{marker(shape[point.kind], x, y, radius)} "
            f'fill="{colour[point.group]}" fill-opacity="{0.95 if point.joined else 0.5}">'
            f"<title>{escape(point.label)}</title></{marker_tag(shape[point.kind])}>"
        )
        if point.ringed or point.chosen:
            body.append(_ring(x, y, radius, point))
    body += _names([(place_x(point.x), place_y(point.y), point) for point in points])
    shapes = [(kind, shape[kind]) for kind in kinds if kind]
    return (
        drawing(HEIGHT, "".join(body), f"{y_axis.title} against {x_axis.title}")
        + legend([(group, colour[group]) for group in groups])
        + (_shape_legend(shapes) if len(shapes) > 1 else "")
    )


def marker(shape: str, x: float, y: float, radius: float) -> str:
    """Return the tag and attributes of a point's mark, without its fill."""
    if shape == "circle":
        return f'circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"'
    r = radius * 1.15  # equal areas look equal
    steps = {
        "square": f"M{x - r:.1f} {y - r:.1f}h{2 * r:.1f}v{2 * r:.1f}h{-2 * r:.1f}z",
        "triangle": f"M{x:.1f} {y - r:.1f}l{r:.1f} {2 * r:.1f}h{-2 * r:.1f}z",
        "diamond": f"M{x:.1f} {y - r:.1f}l{r:.1f} {r:.1f} {-r:.1f} {r:.1f} {-r:.1f} {-r:.1f}z",
        "wedge": f"M{x:.1f} {y + r:.1f}l{r:.1f} {-2 * r:.1f}h{-2 * r:.1f}z",
    }
    return f'path d="{steps[shape]}"'


def marker_tag(shape: str) -> str:
    """Return the name of a mark's element."""
    return "circle" if shape == "circle" else "path"


def _ring(x: float, y: float, radius: float, point: ScatterPoint) -> str:
    width, distance = (2, 5) if point.chosen else (1, 2.5)
    return (
        f'<circle class="{"chosen" if point.chosen else "ring"}" cx="{x:.1f}" cy="{y:.1f}"'
        f' r="{radius + distance:.1f}" fill="none" stroke="currentColor" stroke-width="{width}"/>'
    )


def _names(places: Sequence[tuple[float, float, ScatterPoint]]) -> list[str]:
    """Labels next to their points where they hit nothing; the chosen point comes first."""
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y, _ in places]  # the points themselves
    texts = []
    named = [place for place in places if place[2].name]
    for x, y, point in sorted(named, key=lambda place: (not place[2].chosen, place[0])):
        width = 6.2 * len(point.name)
        for left, baseline in (
            (x - 9 - width, y + 14),  # below and left of a front is nothing
            (x + 9, y + 14),
            (x - 9 - width, y - 6),
            (x + 9, y - 6),
            (x - width / 2, y - 14),
            (min(x - width / 2, WIDTH - width), y - 28),
        ):
            box = (left, baseline - 11, left + width, baseline + 2)
            inside = (
                left >= LEFT and box[2] <= WIDTH and box[1] >= TOP and box[3] <= HEIGHT - BOTTOM
            )
            if inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                bold = ' font-weight="bold"' if point.chosen else ""
                texts.append(
                    f'<text x="{left:.1f}" y="{baseline:.1f}" font-size="11"{bold}>'
                    f"{escape(point.name)}</text>"
                )
                break
    return texts


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _shape_legend(shapes: Sequence[tuple[str, str]]) -> str:
    items = "".join(
        '<li><svg class="mark" viewBox="0 0 12 12"'
        ' style="width:.9em;min-width:0;margin-right:.3em">'
        f'<{marker(shape, 6, 6, 4.5)} fill="currentColor"/></svg>{escape(kind)}</li>'
        for kind, shape in shapes
    )
    return f'<ul class="legend">{items}</ul>'


def stacked_bars(bars: Sequence[Bar], show: Callable[[float], str]) -> str:
    """Horizontal stacked bars: shares of a whole, the sum as text, sizes as tooltips.

    Parts below a hundredth of every bar share one colour, so that no colour repeats.
    """
    bars = [_without_small_parts(bar, bars) for bar in bars]
    names = list(dict.fromkeys(name for bar in bars for name, value in bar.parts if value > 0))
    names.sort(key=lambda name: name == OTHER)  # last in the legend
    colour = {name: PALETTE[index % len(PALETTE)] for index, name in enumerate(names)}
    row, label_width, right = 26, 230, 90
    body = []
    for index, bar in enumerate(bars):
        whole = max(bar.whole, bar.sum) or 1.0
        scale = (WIDTH - label_width - right) / whole
        y, x = 6 + index * row, float(label_width)
        if whole > bar.sum:
            body.append(
                f'<rect x="{x:.1f}" y="{y + 0.5}" width="{whole * scale:.2f}" height="17"'
                ' fill="none" stroke="currentColor" opacity=".5"><title>capacity:'
                f" {escape(show(whole))}</title></rect>"
            )
        body.append(
            f'<text x="{label_width - 8}" y="{y + 14}" text-anchor="end">{escape(bar.label)}</text>'
        )
        for name, value in bar.parts:
            if value <= 0:
                continue
            body.append(
                f'<rect x="{x:.1f}" y="{y}" width="{value * scale:.2f}" height="18"'
                f' fill="{colour[name]}"><title>{escape(name)}:'
                f" {escape(show(value))}, {value / whole:.0%}</title></rect>"
            )
            x += value * scale
        body.append(f'<text x="{WIDTH - right + 6}" y="{y + 14}">{escape(show(bar.sum))}</text>')
    return drawing(12 + row * len(bars), "".join(body), ", ".join(names)) + legend(
        [(name, colour[name]) for name in names]
    )


def _without_small_parts(bar: Bar, bars: Sequence[Bar]) -> Bar:
    """The bar with the parts that are small in every bar summed as "other"."""
    large = {
        name
        for other in bars
        for name, value in other.parts
        if value >= LEAST_SHARE * max(other.whole, other.sum)
    }
    shown = [(name, value) for name, value in bar.parts if name in large]
    rest = sum(value for name, value in bar.parts if name not in large)
    return Bar(label=bar.label, parts=(*shown, (OTHER, rest)), whole=bar.whole)


def drawing(height: int, body: str, label: str = "drawing") -> str:
    """Wrap shapes in an SVG element; `label` is what a screen reader says."""
    return (
        f'<div class="drawing"><svg viewBox="0 0 {WIDTH} {height}" role="img"'
        f' aria-label="{escape(label)}"'
        f' xmlns="http://www.w3.org/2000/svg" font-size="12" fill="currentColor">{body}</svg></div>'
    )


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """Names and their colours, as HTML."""
    items = "".join(
        f'<li><i style="background:{colour}"></i>{escape(name)}</li>' for name, colour in entries
    )
    return f'<ul class="legend">{items}</ul>'


def log_axis(values: Sequence[float], low_px: float, high_px: float) -> Callable[[float], float]:
    """Map a value to its pixel on a logarithmic axis with margins."""
    low, high = math.log10(min(values)), math.log10(max(values))
    margin = max(0.05 * (high - low), 0.05)
    low, high = low - margin, high + margin
    return lambda value: low_px + (math.log10(value) - low) / (high - low) * (high_px - low_px)


def ticks(values: Sequence[float], unit: float) -> list[float]:
    """Round values inside the range: 1, 2 and 5 times powers of ten."""
    low, high = min(values) / unit, max(values) / unit
    round_values = []
    for power in range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1):
        round_values += [
            step * 10.0**power
            for step in (1, 2, 5)
            if low * 0.95 <= step * 10.0**power <= high * 1.05
        ]
    return [value * unit for value in round_values or [low]]


def frame(x_title: str, y_title: str) -> str:
    """Axes and their titles."""
    bottom, middle = HEIGHT - BOTTOM, (HEIGHT - BOTTOM + TOP) / 2
    return (
        f'<path d="M{LEFT} {TOP}V{bottom}H{WIDTH - RIGHT}" fill="none" stroke="currentColor"'
        f' opacity=".6"/><text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 8}"'
        f' text-anchor="middle">{escape(x_title)}</text><text transform="translate(14 {middle:.0f})'
        f' rotate(-90)" text-anchor="middle">{escape(y_title)}</text>'
    )


def tick_x(x: float, text: str) -> str:
    """A tick on the horizontal axis."""
    bottom = HEIGHT - BOTTOM
    return (
        f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="currentColor" opacity=".12"/>'
        f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{escape(text)}</text>'
    )


def tick_y(y: float, text: str) -> str:
    """A tick on the vertical axis."""
    return (
        f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="currentColor" opacity=".12"/>'
        f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>'
    )
