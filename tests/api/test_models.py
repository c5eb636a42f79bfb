"""Data and models through the public API, from a DataFrame to a running service."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import gpuyard as gy


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    random = np.random.default_rng(0)
    x = random.normal(size=(400, 3))
    label = (x[:, 0] + 0.5 * x[:, 1] + 0.1 * random.normal(size=400) > 0).astype(int)
    return pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "label": label})


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def data(frame: pl.DataFrame, home: Path) -> object:
    steps = [{"zscore": {}}]
    split = {"test": "25%", "stratify": True}
    return gy.prepare(frame, label="label", steps=steps, split=split, home=home)


def test_prepare_reads_frames_of_three_libraries(frame: pl.DataFrame, home: Path) -> None:
    versions = {
        gy.prepare(table, label="label", home=home).prepared.manifest.version
        for table in (frame, frame.to_arrow(), pytest.importorskip("pandas") and frame.to_pandas())
    }
    assert len(versions) == 1


def test_model_is_trained_evaluated_and_predicts(
    data: object, frame: pl.DataFrame, home: Path
) -> None:
    model = gy.train(data, "trees", rounds=30, home=home)
    assert gy.evaluate(model, data)["roc_auc"] > 0.95
    assert "<svg" in model._repr_html_()
    predictions = gy.predict(model, frame.drop("label"))
    accuracy = (predictions["prediction"].cast(pl.Int64) == frame["label"]).mean()
    assert accuracy > 0.9


def test_rows_are_frames_columns_lists_of_rows_and_one_row(
    data: object, frame: pl.DataFrame, home: Path
) -> None:
    model = gy.train(data, "trees", rounds=30, home=home)
    inputs = frame.drop("label").head(2)
    expected = gy.predict(model, inputs)
    assert gy.predict(model, inputs.to_dict(as_series=False)).equals(expected)
    assert gy.predict(model, inputs.to_dicts()).equals(expected)
    assert gy.predict(model, inputs.to_dicts()[0]).equals(expected.head(1))
    same = gy.prepare(frame.to_dicts(), label="label", home=home)
    assert same.prepared.manifest.rows_out == len(frame)
    with pytest.raises(gy.InputError):
        gy.predict(model, inputs.head(0))
    with pytest.raises(gy.InputError):
        gy.train(frame, "trees", home=home)


def test_trainer_is_cross_validated(data: object) -> None:
    card = gy.evaluate({"trees": {"rounds": 20}}, data, folds=3, metrics=["roc_auc"])
    assert "3 folds" in repr(card)
    assert card["roc_auc"] > 0.9


@pytest.mark.slow
def test_selected_model_is_served(data: object, frame: pl.DataFrame, home: Path) -> None:
    candidates = [{"trees": {"rounds": {"from": 10, "to": 40}}}]
    chosen = gy.select(data, candidates, metric="roc_auc", trials=2, folds=2, home=home)
    assert "<table" in chosen._repr_html_()
    with (
        gy.serve(chosen, name="api-test", home=home) as endpoint,
        urllib.request.urlopen(f"{endpoint.url}/v2/models/api-test") as response,
    ):
        metadata = json.load(response)
    assert {item["name"] for item in metadata["inputs"]} == {"a", "b", "c"}


def test_wrong_hyperparameter_is_named(data: object) -> None:
    with pytest.raises(gy.InputError) as raised:
        gy.train(data, "trees", roundz=10)
    assert raised.value.problems[0].fix == 'did you mean "rounds"?'
