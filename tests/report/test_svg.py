"""Scatter plots and stacked bars: marks inside the frame, round ticks, escaped labels."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from hypothesis import given
from hypothesis import strategies as st

from gpuyard.report.svg import MARKERS, Axis, Bar, ScatterPoint, marker, scatter, stacked_bars

AXIS = Axis(title="x", words=lambda value: f"{value:g}")


def drawing(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(re.search(r"<svg.*</svg>", text, re.DOTALL).group())  # type: ignore[union-attr]


@given(st.lists(st.tuples(st.floats(1e-3, 1e12), st.floats(1e-3, 1e12)), min_size=1, max_size=20))
def test_scatter_shows_every_point_inside_its_frame(pairs: list[tuple[float, float]]) -> None:
    points = [
        ScatterPoint(x=x, y=y, group="g", label="<b>&", joined=index % 2 == 0)
        for index, (x, y) in enumerate(pairs)
    ]
    circles = [
        node for node in drawing(scatter(points, AXIS, AXIS)).iter() if node.tag.endswith("circle")
    ]
    assert len(circles) == len(points)
    for circle in circles:
        assert 0 <= float(circle.attrib["cx"]) <= 720
        assert 0 <= float(circle.attrib["cy"]) <= 400
        assert circle[0].text == "<b>&"


def test_ticks_are_round_in_the_unit() -> None:
    points = [ScatterPoint(x=86400.0 * days, y=1.0, group="g", label="") for days in (1, 30)]
    text = scatter(
        points, Axis(title="t", words=lambda value: f"{value / 86400:g}d", unit=86400.0), AXIS
    )
    assert all(f">{mark}<" in text for mark in ("1d", "2d", "5d", "10d", "20d"))


def test_bars_are_shares_of_their_whole() -> None:
    bars = [
        Bar(label="a<", parts=(("p", 1.0), ("q", 3.0))),
        Bar(label="b", parts=(("p", 2.0), ("q", 0.0))),
    ]
    rects = [
        node
        for node in drawing(stacked_bars(bars, lambda value: f"{value:g}")).iter()
        if node.tag.endswith("rect")
    ]
    widths = [float(node.attrib["width"]) for node in rects]
    assert len(widths) == 3
    assert widths[1] == 3 * widths[0]
    assert widths[2] == widths[0] + widths[1]  # the same length, whatever the sum


def test_bars_show_their_capacity_and_sum_small_parts() -> None:
    parts = (("p", 50.0), ("q", 30.0), ("r", 0.4), ("s", 0.3))
    text = stacked_bars([Bar(label="a", parts=parts, whole=100.0)], lambda value: f"{value:g}")
    assert "capacity: 100" in text
    assert "other: 0.7" in text
    assert "p: 50, 50%" in text
    assert text.count("<li>") == 3


def test_kinds_have_their_own_shapes_and_a_legend() -> None:
    points = [
        ScatterPoint(x=index + 1.0, y=1.0, group="g", label="", kind=kind)
        for index, kind in enumerate(("spot", "on-demand", "spot"))
    ]
    text = scatter(points, AXIS, AXIS)
    assert "spot</li>" in text
    assert "on-demand</li>" in text
    shapes = {marker(shape, 5, 5, 4).split('"')[1][:20] for shape in MARKERS}
    assert len(shapes) == len(MARKERS)


def test_names_of_points_do_not_overlap() -> None:
    points = [
        ScatterPoint(x=1.0 + index / 1000, y=1.0, group="g", label="", name=f"{index} × machine")
        for index in range(30)
    ]
    texts = [
        node
        for node in drawing(scatter(points, AXIS, AXIS)).iter()
        if node.tag.endswith("text") and "machine" in (node.text or "")
    ]
    assert 1 <= len(texts) < 30
    places = [(float(node.attrib["x"]), float(node.attrib["y"])) for node in texts]
    assert all(
        abs(a[0] - b[0]) > 60 or abs(a[1] - b[1]) >= 13
        for number, a in enumerate(places)
        for b in places[:number]
    )


def test_chosen_point_and_rings_are_drawn_around_their_points() -> None:
    points = [
        ScatterPoint(x=1.0, y=2.0, group="g", label="", chosen=True),
        ScatterPoint(x=2.0, y=1.0, group="g", label="", ringed=True),
    ]
    classes = [node.attrib.get("class") for node in drawing(scatter(points, AXIS, AXIS)).iter()]
    assert [name for name in classes if name] == ["chosen", "ring"]
