"""Line, mark, bar and heat charts of evaluations."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuyard.report.plots import bars, heat, lines, marks

NUMBERS = st.floats(-1e12, 1e12, allow_nan=False)


def assert_valid(text: str) -> None:
    """Assert that the chart is well-formed XML with finite coordinates."""
    svg = text[text.index("<svg") : text.index("</svg>") + 6]
    ElementTree.fromstring(svg)
    assert not re.search(r"\b(nan|inf)\b", svg.lower().replace("infinite", ""))


@settings(max_examples=30)
@given(points=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=20))
@example(points=[(0.0, 5e-324)])
@example(points=[(1e12, 1e12 + 1e-3)])
def test_charts_of_any_numbers_are_valid(points: list[tuple[float, float]]) -> None:
    xs, ys = [x for x, _ in points], [y for _, y in points]
    assert_valid(lines([("a <b>", xs, ys), ("none", [float("nan")], [1.0])], "x & y", "y"))
    assert_valid(marks(xs, ys, "x", "y", equal=True))
    edges = sorted({*xs, max(xs) + 1.0})
    assert_valid(bars(edges, [3] * (len(edges) - 1), "x", "rows"))


def test_confusion_matrix_shows_counts_and_escapes_labels() -> None:
    text = heat(((12345, 1), (0, 7)), ("<no>", "yes"))
    assert_valid(text)
    assert "12,345" in text
    assert "<no>" not in text
