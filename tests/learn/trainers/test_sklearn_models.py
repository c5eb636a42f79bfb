"""Every family: learns, predicts the same from its export, and refuses what it cannot learn."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from gpuyard.errors import InputError
from gpuyard.learn.fit import fit_data
from gpuyard.learn.onnx_predictor import OnnxPredictor
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import TabularData
from gpuyard.learn.trainers.sklearn_models.sklearn_settings import SklearnSpec

pytest.importorskip("skl2onnx")
from gpuyard.learn.trainers.sklearn_models.families import FAMILIES

NAMES = [family.name for family in FAMILIES]


def spec(name: str) -> TrainSpec:
    return TrainSpec(sklearn=SklearnSpec(family=name, alpha=0.01, trees=20))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("table", ["binary", "three"])
def test_classes(name: str, table: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    rows: TabularData = request.getfixturevalue(table)
    fitted = fit_data(spec(name), rows)
    probabilities = fitted.predict(rows.x)
    assert probabilities.shape == (len(rows.x), len(rows.classes))
    likely = np.bincount(rows.y.astype(int)).max() / len(rows.y)  # type: ignore[union-attr]
    assert (probabilities.argmax(axis=1) == rows.y).mean() > likely
    exported = fitted.export(tmp_path)
    assert exported is not None
    assert [output.name for output in exported.outputs] == ["probabilities", "label"]
    model = OnnxPredictor(tmp_path / "model.onnx", "classification", rows.classes)
    np.testing.assert_allclose(model.predict([rows.x]), probabilities, atol=2e-4)
    label, again = model.run(("label", "probabilities"), rows.x[:7])
    assert np.array_equal(label, again.argmax(axis=1))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "naive_bayes"])
def test_values(name: str, numbers: TabularData, tmp_path: Path) -> None:
    fitted = fit_data(spec(name), numbers)
    values = fitted.predict(numbers.x)
    assert np.corrcoef(values, numbers.y)[0, 1] > 0.6  # type: ignore[arg-type]
    fitted.export(tmp_path)
    model = OnnxPredictor(tmp_path / "model.onnx", "regression", ())
    np.testing.assert_allclose(model.predict([numbers.x]), values, rtol=1e-3, atol=1e-3)


def test_missing_values_and_values_of_naive_bayes_are_refused(numbers: TabularData) -> None:
    with pytest.raises(InputError, match="does not predict values"):
        fit_data(spec("naive_bayes"), numbers)
    x = numbers.x.copy()
    x[3, 1] = np.nan
    with pytest.raises(InputError, match="missing"):
        fit_data(spec("ridge"), dataclasses.replace(numbers, x=x))
