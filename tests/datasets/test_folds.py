"""Folds: every training row is tested once, and no step is fitted on test rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gpuyard.datasets import writing
from gpuyard.datasets.folds import folds
from gpuyard.datasets.hashing import row_hash
from gpuyard.errors import InputError

from .tables import mixed_table, prepare_yaml

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
    prepared = prepare_yaml(tmp_path, TEXT, mixed_table(600))
    rows = prepared.manifest.splits[0].rows
    every = list(folds(prepared, count=4, seed=3))
    assert [fold.number for fold in every] == [0, 1, 2, 3]
    assert sum(len(fold.test.x) for fold in every) == rows
    for fold in every:
        assert len(fold.train.x) + len(fold.test.x) == rows
        assert fold.train.y is not None
        assert fold.test.y is not None
        assert fold.train.y.mean() == pytest.approx(
            fold.test.y.mean(), abs=0.02
        )  # stratified by default
        place = fold.train.names.index("a")
        assert fold.train.x[:, place].mean() == pytest.approx(0, abs=1e-5)
        assert abs(fold.test.x[:, place].mean()) > 1e-5
        assert fold.transform.outputs == fold.train.names
    again = list(folds(prepared, count=4, seed=3))
    assert all((one.test.x == other.test.x).all() for one, other in zip(every, again, strict=True))


def test_extreme_test_values_do_not_leak_into_training_rows(tmp_path: Path) -> None:
    frame = mixed_table(400)
    text = "source: table.parquet\nid: id\nsteps: [{zscore: {columns: [a]}}]"
    plain = next(
        folds(prepare_yaml(tmp_path, text, frame, name="plain"), count=4, kind="random", seed=5)
    )
    place = plain.train.names.index("a")
    order = np.argsort(
        row_hash(np.arange(400), 5), kind="stable"
    )  # every fourth of these is tested first
    tested = pl.Series(np.isin(np.arange(400), order[::4]))
    extreme = frame.with_columns(pl.when(tested).then(1e12).otherwise(pl.col("a")).alias("a"))
    moved = next(
        folds(prepare_yaml(tmp_path, text, extreme, name="extreme"), count=4, kind="random", seed=5)
    )
    np.testing.assert_array_equal(moved.train.x[:, place], plain.train.x[:, place])
    assert moved.test.x[:, place].min() > 1e9


def test_grouped_folds_keep_groups_and_time_folds_go_forward(tmp_path: Path) -> None:
    frame = mixed_table(500).with_columns(pl.Series("g", np.arange(500) % 23)).drop_nulls("when")
    text = (
        "source: table.parquet\nlabel: label\nsteps: [{zscore: {columns: [a]}}]\nsplit: {group: g}"
    )
    for fold in folds(prepare_yaml(tmp_path, text, frame, name="g"), count=5, kind="grouped"):
        assert fold.train.groups is not None
        assert not set(fold.train.groups) & set(fold.test.groups)  # type: ignore[arg-type]
    timed = prepare_yaml(tmp_path, text.replace("group: g", "time: when"), frame, name="t")
    ends = []
    for fold in folds(timed, count=4, kind="time"):
        assert fold.train.times is not None
        assert fold.train.times.max() <= fold.test.times.min()  # type: ignore[union-attr]
        ends.append(len(fold.train.x))
    assert ends == sorted(ends)
    with pytest.raises(InputError, match="no group is named"):
        next(folds(timed, count=3, kind="grouped"))


def test_folds_read_source_again_when_rows_are_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = mixed_table(500)
    saved = prepare_yaml(tmp_path, TEXT, frame, name="saved")
    monkeypatch.setattr(writing, "BASE_ROWS", 10)
    large = prepare_yaml(tmp_path, TEXT, name="large")
    assert not large.manifest.base
    for one, other in zip(folds(saved, count=3), folds(large, count=3), strict=True):
        np.testing.assert_array_equal(one.train.x, other.train.x)
    frame.head(400).write_parquet(tmp_path / "table.parquet")
    with pytest.raises(InputError, match="changed since"):
        next(folds(large, count=3))


def test_single_fold_raises_input_error(tmp_path: Path) -> None:
    prepared = prepare_yaml(tmp_path, TEXT, mixed_table(100))
    with pytest.raises(InputError, match="write 2 or more"):
        next(folds(prepared, count=1))
