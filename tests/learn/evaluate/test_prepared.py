"""Parts of prepared data: no test row is seen in training, whole groups stay together, later rows are judged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gpuyard.datasets import DataSpec, Prepared, prepare
from gpuyard.document import Keys, decode, read_yaml
from gpuyard.errors import InputError
from gpuyard.learn import Table, TrainTask, fit
from gpuyard.learn.evaluate import EvaluateSpec, evaluate
from gpuyard.learn.evaluate.bundled import bundle_predictions
from gpuyard.learn.evaluate.parts import cut
from gpuyard.learn.evaluate.prepared import method_of, prepared_parts, problem_of
from gpuyard.learn.spec import TrainSpec, Trees

ROWS = 240


def prepared(folder: Path, split: str, name: str = "out") -> Prepared:
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
    return prepare(decode(read_yaml(text, "d.yaml").root, DataSpec, Keys.BARE), base=folder, out=folder / name)


def tables(data: Prepared, spec: EvaluateSpec, number: int) -> tuple[Table, Table]:
    """The rows of one part."""
    part = cut(prepared_parts(data, spec), number)
    assert isinstance(part.train, Table)
    assert isinstance(part.test, Table)
    return part.train, part.test


def test_the_steps_of_a_fold_have_seen_its_training_rows_only(tmp_path: Path) -> None:
    data = prepared(tmp_path, "{test: 0.25, seed: 1}")
    spec = EvaluateSpec(folds=3)
    parts = prepared_parts(data, spec)
    assert (parts.count, method_of(parts, problem_of(data))) == (3, "3 folds, stratified")
    seen = 0
    for number in range(3):
        train, test = tables(data, spec, number)
        assert np.allclose(train.x[:, :2].mean(axis=0), 0.0, atol=1e-5)  # the scale is that of the training rows
        assert np.allclose(train.x[:, :2].std(axis=0), 1.0, atol=0.02)
        assert not np.allclose(test.x[:, :2].mean(axis=0), 0.0, atol=1e-5)
        seen += len(test.x)
    split = data.manifest.split("train")
    assert split is not None
    assert seen == split.rows


def test_folds_by_group_and_by_time_follow_the_data(tmp_path: Path) -> None:
    grouped = prepared(tmp_path, "{test: 0.25, group: who, seed: 1}", "grouped")
    for number in range(2):
        train, test = tables(grouped, EvaluateSpec(folds=2), number)
        assert train.groups is not None
        assert test.groups is not None
        assert not set(train.groups) & set(test.groups)
    timed = prepared(tmp_path, "{test: 0.25, time: day}", "timed")
    assert method_of(prepared_parts(timed, EvaluateSpec(folds=2)), "classification") == "2 folds, time"
    sizes = [len(tables(timed, EvaluateSpec(folds=2), number)[0].x) for number in range(2)]
    assert sizes[0] < sizes[1]


def test_a_hold_out_is_judged_on_the_test_split_and_by_its_exported_model_too(tmp_path: Path) -> None:
    data = prepared(tmp_path, "{test: 0.25, seed: 1}")
    train = TrainSpec(trees=Trees(rounds=5, leaves=4, min_rows=5, threads=1))
    spec = EvaluateSpec(folds=0, metrics=("log_loss",), slices=("x",), resamples=20)
    parts = prepared_parts(data, spec)
    found = evaluate(parts, train, spec, method=method_of(parts, "classification"), workers=1)
    assert found.card.method.startswith("hold-out")
    assert {item.column for item in found.card.slices} == {"x"}
    result = fit(TrainTask(train=train, data=str(data.folder), out=str(tmp_path / "task")))
    assert result.bundle is not None
    again = bundle_predictions(Path(result.bundle), data, "test")
    assert np.allclose(again.outputs, found.predictions.outputs, atol=1e-5)
    other = prepared(tmp_path, "{test: 0.5, seed: 2}", "other")
    with pytest.raises(InputError, match="was trained on other columns"):
        bundle_predictions(Path(result.bundle), other, "test")


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    data = prepared(tmp_path, "{seed: 1}")
    with pytest.raises(InputError, match="there is no test split"):
        prepared_parts(data, EvaluateSpec(folds=0))
    with pytest.raises(InputError, match="no column colour"):
        tables(data, EvaluateSpec(folds=2, slices=("colour",)), 0)
