"""The picture of a plan: the joined line is a front of time and cost, in at most eight colours."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from gpuyard.catalog.load import load_catalog
from gpuyard.report.pareto_plot import chip_family, front_of_two

PAIRS = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=30)


@given(PAIRS)
def test_joined_line_never_rises(pairs: list[tuple[int, int]]) -> None:
    marks = front_of_two([x for x, _ in pairs], [y for _, y in pairs])
    line = sorted(pair for pair, mark in zip(pairs, marks, strict=True) if mark)
    assert line
    assert all(a[0] < b[0] and a[1] > b[1] for a, b in itertools.pairwise(line))
    for x, y in pairs:
        assert any(a <= x and b <= y for a, b in line)


def test_chips_are_drawn_in_at_most_eight_families() -> None:
    chips = {machine.chip for machine in load_catalog().machines}
    families = {chip_family(chip) for chip in chips}
    assert len(families) <= 8
    assert {"Blackwell", "Hopper", "Ampere", "TPU", "CPU"} <= families
