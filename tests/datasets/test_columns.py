"""Columns: kinds of types, selection by pattern, changes."""

from __future__ import annotations

import polars as pl
import pytest

from gpuyard.datasets.columns import ALL_KINDS, columns_of, kind_of
from gpuyard.errors import InputError

COLUMNS = columns_of(
    pl.Schema({"id": pl.Int64(), "x1": pl.Float64(), "x2": pl.Float64(), "s": pl.String()}),
    reserved=("id",),
    label="s",
)


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        (pl.UInt8(), "number"),
        (pl.Decimal(10, 2), "number"),
        (pl.Categorical(), "text"),
        (pl.Datetime("ms", "UTC"), "time"),
        (pl.Boolean(), "bool"),
        (pl.List(pl.Int8()), "other"),
    ],
)
def test_kind_follows_polars_type(dtype: pl.DataType, kind: str) -> None:
    assert kind_of(str(dtype)) == kind


def test_pattern_selects_kinds_without_reserved_columns() -> None:
    assert COLUMNS.select(("*",), ("number",), "here") == ("x1", "x2")
    assert COLUMNS.select(("*", "-x1"), ALL_KINDS, "here") == ("x2", "s")
    assert COLUMNS.select(("id", "x?"), ("number",), "here") == ("id", "x1", "x2")


def test_wrong_names_are_reported_together() -> None:
    with pytest.raises(InputError) as caught:
        COLUMNS.select(("x3", "s"), ("number",), "steps[0]")
    assert [problem.what for problem in caught.value.problems] == [
        'no column named "x3"',
        'column "s" is String, not number',
    ]


def test_with_columns_changes_adds_and_drops() -> None:
    changed = COLUMNS.with_columns({"x1": "Int8", "new": "Boolean"}, drop=("s",))
    assert [(column.name, column.dtype) for column in changed.items] == [
        ("id", "Int64"),
        ("x1", "Int8"),
        ("x2", "Float64"),
        ("new", "Boolean"),
    ]
