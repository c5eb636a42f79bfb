"""Splits of prepared data: no leakage into training rows, whole groups, later rows for testing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gpuyard.datasets.prepare import prepare
from gpuyard.datasets.prepared import PreparedDataset
from gpuyard.datasets.spec import DataSpec
from gpuyard.document.decode import decode
from gpuyard.document.field_types import Keys
from gpuyard.document.read import read_yaml
from gpuyard.errors import InputError
from gpuyard.learn.evaluate.bundled import bundle_predictions
from gpuyard.learn.evaluate.evaluation import evaluate
from gpuyard.learn.evaluate.prepared import method_of, prepared_splits, problem_of
from gpuyard.learn.evaluate.spec import EvaluateSpec
from gpuyard.learn.evaluate.splits import cached_split
from gpuyard.learn.fit import fit
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.task import TrainTask
from gpuyard.learn.trainer import TabularData
from gpuyard.learn.trainers.trees.trees_settings import TreesSpec

ROWS = 240


def prepared(folder: Path, split: str, name: str = "out") -> PreparedDataset:
    """Rows with a label, a group and a time; the steps learn the mean of x."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=ROWS)
    table = pl.DataFrame(
        {
            "x": x,
            "z": rng.normal(size=ROWS),
            "who": [f"g{i % 12}" for i in range(ROWS)],
            "day": np.arange(ROWS),
            "y": (x > 0).astype(int),
        }
    )
    table.write_parquet(folder / "rows.parquet")
    text = f"source: rows.parquet\nlabel: y\nproblem: classification\nsteps:\n  - zscore: {{columns: [x, z]}}\nsplit: {split}\n"
    return prepare(
        decode(read_yaml(text, "d.yaml").root, DataSpec, Keys.BARE), base=folder, out=folder / name
    )


def tables(
    data: PreparedDataset, spec: EvaluateSpec, number: int
) -> tuple[TabularData, TabularData]:
    """The rows of one part."""
    part = cached_split(prepared_splits(data, spec), number)
    assert isinstance(part.train, TabularData)
    assert isinstance(part.test, TabularData)
    return part.train, part.test


def test_fold_transform_is_fitted_on_training_rows_only(tmp_path: Path) -> None:
    data = prepared(tmp_path, "{test: 0.25, seed: 1}")
    spec = EvaluateSpec(folds=3)
    parts = prepared_splits(data, spec)
    assert (parts.count, method_of(parts, problem_of(data))) == (3, "3 folds, stratified")
    seen = 0
    for number in range(3):
        train, test = tables(data, spec, number)
        assert np.allclose(
            train.x[:, :2].mean(axis=0), 0.0, atol=1e-5
        )  # the scale is that of the training rows
        assert np.allclose(train.x[:, :2].std(axis=0), 1.0, atol=0.02)
        assert not np.allclose(test.x[:, :2].mean(axis=0), 0.0, atol=1e-5)
        seen += len(test.x)
    split = data.manifest.split("train")
    assert split is not None
    assert seen == split.rows


def test_folds_follow_the_group_or_time_split_of_the_data(tmp_path: Path) -> None:
    grouped = prepared(tmp_path, "{test: 0.25, group: who, seed: 1}", "grouped")
    for number in range(2):
        train, test = tables(grouped, EvaluateSpec(folds=2), number)
        assert train.groups is not None
        assert test.groups is not None
        assert not set(train.groups) & set(test.groups)
    timed = prepared(tmp_path, "{test: 0.25, time: day}", "timed")
    assert (
        method_of(prepared_splits(timed, EvaluateSpec(folds=2)), "classification")
        == "2 folds, time"
    )
    sizes = [len(tables(timed, EvaluateSpec(folds=2), number)[0].x) for number in range(2)]
    assert sizes[0] < sizes[1]


def test_hold_out_scores_match_those_of_the_exported_bundle(
    tmp_path: Path,
) -> None:
    data = prepared(tmp_path, "{test: 0.25, seed: 1}")
    train = TrainSpec(trees=TreesSpec(rounds=5, leaves=4, min_rows=5, threads=1))
    spec = EvaluateSpec(folds=0, metrics=("log_loss",), slices=("x",), resamples=20)
    parts = prepared_splits(data, spec)
    evaluation = evaluate(parts, train, spec, method=method_of(parts, "classification"), workers=1)
    assert evaluation.card.method.startswith("hold-out")
    assert {item.column for item in evaluation.card.slices} == {"x"}
    result = fit(TrainTask(train=train, data=str(data.folder), out=str(tmp_path / "task")))
    assert result.bundle is not None
    again = bundle_predictions(Path(result.bundle), data, "test")
    assert np.allclose(again.outputs, evaluation.predictions.outputs, atol=1e-5)
    other = prepared(tmp_path, "{test: 0.5, seed: 2}", "other")
    with pytest.raises(InputError, match="was trained on different columns"):
        bundle_predictions(Path(result.bundle), other, "test")


def test_missing_split_or_column_raises_input_error(tmp_path: Path) -> None:
    data = prepared(tmp_path, "{seed: 1}")
    with pytest.raises(InputError, match="there is no test split"):
        prepared_splits(data, EvaluateSpec(folds=0))
    with pytest.raises(InputError, match="no column colour"):
        tables(data, EvaluateSpec(folds=2, slices=("colour",)), 0)
