"""Time series: values equal those of pandas, over partitions, folds and joined requests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gpuyard.datasets.folds import folds
from gpuyard.datasets.prepared import PreparedDataset
from gpuyard.datasets.series import SeriesColumn, series_columns
from gpuyard.datasets.transform import FittedTransform, load_transform
from gpuyard.errors import InputError

from .tables import prepare_yaml

STEPS = """
source: table.parquet
label: sales
output: {precision: float64}
split: {test: 0.2, time: day}
steps:
  - filter: {where: price > -2}
  - lags: {columns: [sales, price], time: day, by: [store, open], rows: [1, 7]}
  - differences: {columns: [price], time: day, by: [store, open], rows: [2]}
  - differences: {columns: [sales], time: day, by: [store, open], rows: [1], shift: 1}
  - rolling:
      columns: [sales]
      time: day
      by: [store, open]
      windows: [5]
      functions: [mean, std, min, max, sum]
  - rolling: {columns: [price], time: day, by: [store, open], windows: [3], shift: 0, least: 3}
  - impute: {columns: [price], value: mean}
"""
ADDED = {
    "sales_lag_1", "sales_lag_7", "price_lag_1", "price_lag_7", "price_diff_2", "sales_diff_1_shift_1",
    "sales_mean_5", "sales_std_5", "sales_min_5", "sales_max_5", "sales_sum_5", "price_mean_3_shift_0",
}  # fmt: skip


def sales_table(rows: int = 1500) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    price = pl.Series(rng.normal(0, 1, rows)).set(pl.Series(rng.random(rows) < 0.1), None)
    days = rng.integers(0, 4000, rows)
    return pl.DataFrame(
        {
            "store": rng.choice(["Lima", "Oslo", "Zürich"], rows),
            "open": rng.random(rows) < 0.5,
            "day": pl.Series(days * 86_400_000_000).cast(pl.Datetime("us")).cast(pl.Date),
            "price": price,
            "sales": rng.normal(100, 20, rows),
        }
    )


def expected_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """The same columns by pandas, in the order of the rows."""
    table = frame.filter(pl.col("price") > -2).with_row_index("row").to_pandas()
    table = table.sort_values("day", kind="stable")
    groups = table.groupby(["store", "open"])
    for column in ("sales", "price"):
        for rows in (1, 7):
            table[f"{column}_lag_{rows}"] = groups[column].shift(rows)
    table["price_diff_2"] = groups["price"].diff(2)
    table["sales_diff_1_shift_1"] = groups["sales"].transform(lambda values: values.diff().shift())
    for name in ("mean", "std", "min", "max", "sum"):
        table[f"sales_{name}_5"] = groups["sales"].transform(
            lambda values, name=name: getattr(values.shift().rolling(5, min_periods=1), name)()
        )
    table["price_mean_3_shift_0"] = groups["price"].transform(lambda v: v.rolling(3).mean())
    return pl.from_pandas(table.sort_values("row")[sorted(ADDED)])


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> PreparedDataset:
    return prepare_yaml(tmp_path_factory.mktemp("series"), STEPS, sales_table())


def prepared_rows(prepared: PreparedDataset) -> pl.DataFrame:
    return pl.concat([prepared.table("train"), prepared.table("test")])


def transform_of(prepared: PreparedDataset) -> FittedTransform:
    return load_transform(prepared.folder / "transform.json")


def test_values_equal_those_of_pandas_over_all_splits(prepared: PreparedDataset) -> None:
    table = prepared_rows(prepared)
    assert set(table.columns) >= ADDED
    keys = ["day", "store", "open", "sales"]
    frame = sales_table()
    whole = frame.filter(pl.col("price") > -2).select(keys).hstack(expected_columns(frame))
    both = table.sort(keys), whole.sort(keys)
    for name in sorted(ADDED):
        actual, expected = (part[name].fill_null(np.nan).to_numpy() for part in both)
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9, err_msg=name)


def test_serving_gives_the_same_bits_where_the_history_is_sent(prepared: PreparedDataset) -> None:
    transform = transform_of(prepared)
    raw = sales_table().filter(pl.col("price") > -2).sort("day", maintain_order=True)
    series = raw.filter((pl.col("store") == "Oslo") & pl.col("open"))
    table = prepared_rows(prepared).filter((pl.col("store") == "Oslo") & pl.col("open"))
    assert transform.history_rows >= 7
    request = series.tail(9)
    columns = {name: request[name].to_list() for name in request.columns}
    columns["sales"][-1] = None  # what the model predicts
    served = transform.numbers(columns)[-1]
    trained = table.filter(pl.col("sales") == series["sales"][-1]).select(transform.outputs)
    np.testing.assert_array_equal(served, trained.fill_null(np.nan).to_numpy()[0])


def test_series_of_joined_requests_stay_apart(prepared: PreparedDataset) -> None:
    transform = transform_of(prepared)
    rows = sales_table(40)
    columns = {name: rows[name].to_list() for name in rows.columns}
    parts = [
        transform.numbers({name: values[start:end] for name, values in columns.items()})
        for start, end in ((0, 15), (15, 40))
    ]
    np.testing.assert_array_equal(transform.numbers(columns, [15, 25]), np.concatenate(parts))
    assert not np.array_equal(transform.numbers(columns), np.concatenate(parts), equal_nan=True)


def test_partitions_and_little_memory_change_nothing(
    prepared: PreparedDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuyard.datasets.prepare._MAX_PARTITION_BYTES", 10e3)
    monkeypatch.setattr("gpuyard.datasets.prepare._MIN_PARTITION_BYTES", 10e3)
    monkeypatch.setattr("gpuyard.datasets.steps.series._ROW_BYTES", 1e6)
    other = prepare_yaml(tmp_path, STEPS, sales_table())
    assert len(other.paths("train")) > 1
    assert prepared_rows(other).equals(prepared_rows(prepared))


def test_folds_hold_the_same_series(prepared: PreparedDataset) -> None:
    fold = next(iter(folds(prepared, count=3)))
    at = fold.test.names.index("sales_lag_1")
    known = np.isin(fold.test.x[:, at], prepared.table("train")["sales"].cast(pl.Float32))
    assert known.mean() > 0.9


def test_rows_without_a_time_have_no_history_and_are_none() -> None:
    lag = SeriesColumn(name="lag", source="x", function="lag", size=1)
    values = {"x": np.array([1.0, 2.0, 3.0])}
    times = np.array([1.0, np.nan, 2.0])
    out = series_columns(values, np.zeros(3, np.int64), times, [lag])
    np.testing.assert_array_equal(out[:, 0], [np.nan, np.nan, 1.0])


@pytest.mark.parametrize(
    ("step", "what"),
    [
        ("rolling: {columns: [sales], time: day, shift: 0}", "label that it predicts"),
        ("differences: {columns: [sales], time: day}", "label that it predicts"),
        ("lags: {columns: [price], time: day, rows: [0]}", "integers of 1 or more"),
        ("lags: {columns: [price], time: store}", "is String"),
        ("lags: {columns: [price], time: day, rows: [20000]}", "earlier rows"),
        ("rolling: {columns: [price], time: day, functions: []}", "none, or one twice"),
    ],
)
def test_steps_that_leak_or_cannot_work_are_refused(tmp_path: Path, step: str, what: str) -> None:
    text = f"source: table.parquet\nlabel: sales\nsteps:\n  - {step}\n"
    with pytest.raises(InputError, match=what):
        prepare_yaml(tmp_path, text, sales_table(50))
