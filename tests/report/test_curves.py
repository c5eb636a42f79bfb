"""Line charts: well-formed, inside the frame, with escaped names."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from gpuyard.report.curves import Line, distributions, tracks
from gpuyard.report.svg import HEIGHT, WIDTH, Axis

AXIS = Axis(title="time", words=lambda value: f"{value:g}s")
LINES = [
    Line(name="a <b>", xs=(0.0, 0.1, 5.0), ys=(0.0, 0.5, 1.0)),
    Line(name="c", xs=(0.2, 0.3, 0.4), ys=(0.0, 0.5, 1.0)),
]


def parse(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{svg}</div>")


def points(svg: str) -> list[tuple[float, float]]:
    tree = parse(svg)
    pairs = []
    for line in tree.iter("{http://www.w3.org/2000/svg}polyline"):
        pairs += [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
    return pairs  # type: ignore[return-value]


def test_distributions_are_inside_the_frame() -> None:
    svg = distributions(LINES, AXIS, [("target", 1.0), ("far", 100.0)])
    assert len(points(svg)) == 6
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points(svg))
    assert "a &lt;b&gt;" in svg
    assert ">target</text>" in svg


def test_tracks_start_at_zero() -> None:
    svg = tracks(LINES, AXIS, lambda value: f"{value:g}", "requests")
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points(svg))
    assert ">0</text>" in svg
    flat = tracks(
        [Line(name="none", xs=(0.0, 1.0), ys=(0.0, 0.0))],
        AXIS,
        lambda value: f"{value:g}",
        "requests",
    )
    assert parse(flat) is not None
