"""Folds: every training row is tested once, classes and groups are kept, and no step sees the test part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gpuyard.datasets import folds, writing
from gpuyard.datasets.hashing import row_hash
from gpuyard.errors import InputError

from .made import made, mixed

TEXT = """
source: table.parquet
label: label
id: id
steps:
- deduplicate: {columns: [id]}
- impute: {columns: [a, b], value: mean}
- zscore: {columns: [a, b]}
- onehot: {columns: [city]}
- target: {columns: [code]}
split: {test: 0.2, seed: 1}
"""


def test_folds_cover_the_training_rows_once(tmp_path: Path) -> None:
    prepared = made(tmp_path, TEXT, mixed(600))
    rows = prepared.manifest.splits[0].rows
    found = list(folds(prepared, count=4, seed=3))
    assert [fold.number for fold in found] == [0, 1, 2, 3]
    assert sum(len(fold.test.x) for fold in found) == rows
    for fold in found:
        assert len(fold.train.x) + len(fold.test.x) == rows
        assert fold.train.y is not None
        assert fold.test.y is not None
        assert fold.train.y.mean() == pytest.approx(fold.test.y.mean(), abs=0.02)  # stratified by default
        place = fold.train.names.index("a")
        assert fold.train.x[:, place].mean() == pytest.approx(0, abs=1e-5)
        assert abs(fold.test.x[:, place].mean()) > 1e-5
        assert fold.transform.outputs == fold.train.names
    again = list(folds(prepared, count=4, seed=3))
    assert all((one.test.x == other.test.x).all() for one, other in zip(found, again, strict=True))


def test_absurd_values_in_the_test_part_do_not_leak(tmp_path: Path) -> None:
    frame = mixed(400)
    text = "source: table.parquet\nid: id\nsteps: [{zscore: {columns: [a]}}]"
    plain = next(folds(made(tmp_path, text, frame, name="plain"), count=4, kind="random", seed=5))
    place = plain.train.names.index("a")
    order = np.argsort(row_hash(np.arange(400), 5), kind="stable")  # every fourth of these is tested first
    tested = pl.Series(np.isin(np.arange(400), order[::4]))
    absurd = frame.with_columns(pl.when(tested).then(1e12).otherwise(pl.col("a")).alias("a"))
    moved = next(folds(made(tmp_path, text, absurd, name="absurd"), count=4, kind="random", seed=5))
    np.testing.assert_array_equal(moved.train.x[:, place], plain.train.x[:, place])
    assert moved.test.x[:, place].min() > 1e9


def test_groups_and_time(tmp_path: Path) -> None:
    frame = mixed(500).with_columns(pl.Series("g", np.arange(500) % 23)).drop_nulls("when")
    text = "source: table.parquet\nlabel: label\nsteps: [{zscore: {columns: [a]}}]\nsplit: {group: g}"
    for fold in folds(made(tmp_path, text, frame, name="g"), count=5, kind="grouped"):
        assert fold.train.groups is not None
        assert not set(fold.train.groups) & set(fold.test.groups)  # type: ignore[arg-type]
    timed = made(tmp_path, text.replace("group: g", "time: when"), frame, name="t")
    ends = []
    for fold in folds(timed, count=4, kind="time"):
        assert fold.train.times is not None
        assert fold.train.times.max() <= fold.test.times.min()  # type: ignore[union-attr]
        ends.append(len(fold.train.x))
    assert ends == sorted(ends)
    with pytest.raises(InputError, match="no group is named"):
        next(folds(timed, count=3, kind="grouped"))


def test_a_large_source_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = mixed(500)
    kept = made(tmp_path, TEXT, frame, name="kept")
    monkeypatch.setattr(writing, "BASE_ROWS", 10)
    large = made(tmp_path, TEXT, name="large")
    assert not large.manifest.base
    for one, other in zip(folds(kept, count=3), folds(large, count=3), strict=True):
        np.testing.assert_array_equal(one.train.x, other.train.x)
    frame.head(400).write_parquet(tmp_path / "table.parquet")
    with pytest.raises(InputError, match="changed since"):
        next(folds(large, count=3))


def test_wrong_counts_are_named(tmp_path: Path) -> None:
    prepared = made(tmp_path, TEXT, mixed(100))
    with pytest.raises(InputError, match="write 2 or more"):
        next(folds(prepared, count=1))
