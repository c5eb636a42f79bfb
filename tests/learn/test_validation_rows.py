"""Validation rows: the declared split is used, later rows stay out of training, folds agree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gpuyard.datasets.folds import folds
from gpuyard.datasets.prepare import prepare
from gpuyard.datasets.prepared import PreparedDataset
from gpuyard.datasets.spec import DataSpec, OutputSpec, SplitSpec
from gpuyard.errors import InputError
from gpuyard.learn.evaluate.evaluation import evaluate
from gpuyard.learn.evaluate.prepared import method_of, prepared_splits
from gpuyard.learn.evaluate.spec import EvaluateSpec
from gpuyard.learn.fit import fit
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.task import TrainTask
from gpuyard.learn.trainer import TabularData
from gpuyard.learn.trainers.trees.trees_settings import TreesSpec
from gpuyard.learn.training_data import load_training

ROWS = 200


def data(folder: Path, split: SplitSpec, keep: tuple[str, ...] = ()) -> PreparedDataset:
    rng = np.random.default_rng(0)
    x = rng.normal(size=ROWS)
    frame = pl.DataFrame(
        {
            "x": x,
            "day": rng.permutation(ROWS),
            "who": np.arange(ROWS) % 20,
            "y": (x + rng.normal(size=ROWS) > 0).astype(int),
        }
    )
    frame.write_parquet(folder / "rows.parquet")
    spec = DataSpec(source="rows.parquet", label="y", split=split, output=OutputSpec(keep=keep))
    return prepare(spec, base=folder, out=folder / "out")


def rows_of(prepared: PreparedDataset, spec: TrainSpec) -> tuple[TabularData, TabularData]:
    task = TrainTask(train=spec, data=str(prepared.folder), out="")
    loaded = load_training(task).training
    assert isinstance(loaded.train, TabularData)
    assert isinstance(loaded.validation, TabularData)
    return loaded.train, loaded.validation


def test_declared_validation_rows_stop_training(tmp_path: Path) -> None:
    prepared = data(tmp_path, SplitSpec(test_ratio=0.2, validation_ratio=0.1, time="day"))
    spec = TrainSpec(trees=TreesSpec(rounds=50, leaves=4, early_stopping=3))
    train, validation = rows_of(prepared, spec)
    assert (len(train.x), len(validation.x)) == (140, 20)
    out = tmp_path / "task"
    result = fit(TrainTask(train=spec, data=str(prepared.folder), out=str(out)))
    assert result.validation_loss is not None
    for count in (0, 3):  # and every way to evaluate it
        part = EvaluateSpec(folds=count, resamples=0)
        splits = prepared_splits(prepared, part)
        method = method_of(splits, "classification")
        assert evaluate(splits, spec, part, method=method, workers=1).card.rows > 0


def test_validation_share_of_a_time_split_is_its_latest_rows(tmp_path: Path) -> None:
    prepared = data(tmp_path, SplitSpec(test_ratio=0.2, time="day"))
    spec = TrainSpec(trees=TreesSpec(), validation_ratio=0.25)
    train, validation = rows_of(prepared, spec)
    assert train.times is not None
    assert validation.times is not None
    assert (len(validation.x), len(train.x)) == (40, 120)
    assert validation.times.min() > train.times.max()


def test_validation_share_without_the_time_column_is_refused(tmp_path: Path) -> None:
    split = SplitSpec(test_ratio=0.2, time="day")
    prepared = data(tmp_path, split, keep=("x", "y"))
    with pytest.raises(InputError, match="future"):
        rows_of(prepared, TrainSpec(trees=TreesSpec(), validation_ratio=0.25))


def test_folds_follow_the_split_of_the_data_by_default(tmp_path: Path) -> None:
    for number, fold in enumerate(
        folds(data(tmp_path, SplitSpec(time="day", test_ratio=0.2)), count=3)
    ):
        assert fold.number == number
        assert fold.train.times is not None
        assert fold.test.times is not None
        assert fold.test.times.min() > fold.train.times.max()
    (tmp_path / "group").mkdir()
    grouped = data(tmp_path / "group", SplitSpec(group="who", test_ratio=0.2))
    for fold in folds(grouped, count=3):
        assert fold.train.groups is not None
        assert fold.test.groups is not None
        assert not set(fold.train.groups) & set(fold.test.groups)
