"""Values as table cells."""

from __future__ import annotations

import datetime

import pytest

from gpuyard.report.table import show_value
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
