"""Charts: every mark is there, labels cannot break out, axes have round marks."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from hypothesis import given
from hypothesis import strategies as st

from gpuyard.report import Column, Table
from gpuyard.report.page import html_table, page
from gpuyard.report.svg import Axis, Bar, Point, scatter, stacked_bars

AXIS = Axis(title="x", words=lambda value: f"{value:g}")


def drawing(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(re.search(r"<svg.*</svg>", text, re.DOTALL).group())  # type: ignore[union-attr]


@given(st.lists(st.tuples(st.floats(1e-3, 1e12), st.floats(1e-3, 1e12)), min_size=1, max_size=20))
def test_a_scatter_shows_every_point_inside_its_frame(pairs: list[tuple[float, float]]) -> None:
    points = [Point(x=x, y=y, group="g", label="<b>&", joined=index % 2 == 0) for index, (x, y) in enumerate(pairs)]
    circles = [node for node in drawing(scatter(points, AXIS, AXIS)).iter() if node.tag.endswith("circle")]
    assert len(circles) == len(points)
    for circle in circles:
        assert 0 <= float(circle.attrib["cx"]) <= 720
        assert 0 <= float(circle.attrib["cy"]) <= 400
        assert circle[0].text == "<b>&"


def test_ticks_are_round_in_the_unit() -> None:
    points = [Point(x=86400.0 * days, y=1.0, group="g", label="") for days in (1, 30)]
    text = scatter(points, Axis(title="t", words=lambda value: f"{value / 86400:g}d", unit=86400.0), AXIS)
    assert all(f">{mark}<" in text for mark in ("1d", "2d", "5d", "10d", "20d"))


def test_bars_are_as_long_as_their_sums() -> None:
    bars = [Bar(label="a<", parts=(("p", 1.0), ("q", 3.0))), Bar(label="b", parts=(("p", 2.0), ("q", 0.0)))]
    rects = [
        node for node in drawing(stacked_bars(bars, lambda value: f"{value:g}")).iter() if node.tag.endswith("rect")
    ]
    widths = [float(node.attrib["width"]) for node in rects]
    assert len(widths) == 3
    assert widths[1] == 3 * widths[0]
    assert abs(widths[2] - 2 * widths[0]) < 0.02


def test_names_cannot_become_markup() -> None:
    table = Table(columns=(Column(heading="<script>"),), rows=(("<img onerror=x>",),), notes=("</p><b>",))
    text = page("<title>", [html_table(table)])
    assert "<script>" not in text
    assert "<img" not in text
    assert "<title>&lt;title&gt;</title>" in text
