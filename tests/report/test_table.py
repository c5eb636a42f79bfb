"""Values as table cells."""

from __future__ import annotations

import datetime

import pytest

from gpuyard.report.table import TableColumn, show_value, table_columns
from gpuyard.units import BYTES, Dimension


@pytest.mark.parametrize(
    ("value", "dimension", "text"),
    [
        (None, None, "–"),
        ("", None, "–"),
        ((), None, "–"),
        (True, None, "yes"),
        (False, None, "no"),
        (0, None, "0"),
        (80e9, BYTES, "80GB"),
        (("a", "b"), None, "a, b"),
        (1.5, None, "1.5"),
        (datetime.date(2026, 8, 21), None, "2026-08-21"),
    ],
)
def test_value_is_shown_with_its_unit(
    value: object, dimension: Dimension | None, text: str
) -> None:
    assert show_value(value, dimension) == text


def test_heading_with_a_mark_is_a_numeric_column() -> None:
    name, count, size = table_columns("name", ">count", "size", numeric=("size",))
    assert name == TableColumn(heading="name")
    assert count == TableColumn(heading="count", numeric=True)
    assert size.numeric
