"""Models of scikit-learn: linear models, forests, support vectors, neighbours and naive Bayes.

They are fitted at once, without steps or checkpoints, and exported by skl2onnx.
"""

from __future__ import annotations

import time
import typing
import warnings
from pathlib import Path

import numpy as np
import onnx
import sklearn
from onnx import TensorProto, helper
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType
from sklearn.exceptions import ConvergenceWarning

from gpuyard.errors import InputError
from gpuyard.learn.arrays import Array
from gpuyard.learn.memory import peak_bytes
from gpuyard.learn.metrics_log import StepMetrics
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import (
    Exported,
    TabularData,
    TrainingContext,
    TrainingInputs,
    TrainingSummary,
)
from gpuyard.learn.trainers.sklearn_models.families import Estimator, family_named
from gpuyard.learn.trainers.sklearn_models.sklearn_settings import SklearnSpec
from gpuyard.registry.bundle import ONNX, Tensor

WHERE = "train: sklearn"
OPSET = 17


class SklearnTrainer:
    """Fits one scikit-learn model."""

    def __init__(self, train: TrainSpec, spec: SklearnSpec) -> None:
        self.train, self.spec = train, spec

    def fit(self, data: TrainingInputs, run: TrainingContext) -> FittedSklearn:
        table = _checked(data.train)
        if run.ranks.world > 1:
            raise InputError.one(WHERE, "trains in one process", "set one process")
        family = family_named(self.spec.family)
        make = family.classes if table.problem == "classification" else family.values
        if make is None:
            raise InputError.one(
                f"{WHERE}: family",
                f"{family.name} does not predict values",
                "use linear, ridge, random_forest, extra_trees, svm or neighbours",
            )
        began = time.perf_counter()
        model = make(self.spec, self.train.seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the scores show it
            model.fit(table.x, _labels(table))
        fit_s = time.perf_counter() - began
        loss = _loss(model, table)
        run.record(StepMetrics(step=1, steps=1, loss=loss, step_s=fit_s))
        summary = TrainingSummary(
            steps=1,
            step_s=fit_s,
            samples_per_s=len(table.x) / fit_s if fit_s > 0 else 0.0,
            memory_bytes=peak_bytes(),
            model_flop_per_step=0.0,
            parameters_count=float(_parameters(model)),
            device="cpu",
            loss=loss,
        )
        return FittedSklearn(model, table, summary)


class FittedSklearn:
    """A fitted scikit-learn model."""

    def __init__(self, model: Estimator, table: TabularData, summary: TrainingSummary) -> None:
        self.model, self.table, self.summary = model, table, summary

    def predict(self, rows: Array) -> Array:
        """Return probabilities [n, c], or values [n]."""
        return _predicted(self.model, self.table, rows)

    def export(self, folder: Path) -> Exported:
        """Write model.onnx with the names and shapes of the other trainers."""
        width, classes = self.table.x.shape[1], self.table.classes
        is_classifier = self.table.problem == "classification"
        options = {"zipmap": False} if is_classifier else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # skl2onnx reads deprecated attributes
            model = to_onnx(
                self.model,
                initial_types=[("x", FloatTensorType([None, width]))],
                options={id(self.model): options} if options else None,
                target_opset={"": OPSET, "ai.onnx.ml": 3},
            )
        _rename_outputs(model, is_classifier, len(classes))
        onnx.save(model, str(folder / ONNX))
        outputs = (
            (
                Tensor(name="probabilities", dtype="float32", shape=(-1, len(classes))),
                Tensor(name="label", dtype="int64"),
            )
            if is_classifier
            else (Tensor(name="value", dtype="float32"),)
        )
        return Exported(
            kind=self.table.problem,
            inputs=(Tensor(name="x", dtype="float32", shape=(-1, width)),),
            outputs=outputs,
            classes=classes,
            framework=f"scikit-learn {sklearn.__version__}",
        )


def _rename_outputs(model: typing.Any, is_classifier: bool, classes: int) -> None:
    """Name the outputs `probabilities` and `label`, or `value` as a vector."""
    graph = model.graph
    source = f"raw_{graph.output[-1].name}"  # of a classifier: label, probabilities
    names = {item.name: f"raw_{item.name}" for item in graph.output}
    for node in graph.node:
        for field in (node.input, node.output):
            field[:] = [names.get(name, name) for name in field]
    del graph.output[:]
    if not is_classifier:
        graph.initializer.append(helper.make_tensor("row_axis", TensorProto.INT64, [1], [-1]))
        graph.node.append(helper.make_node("Reshape", [source, "row_axis"], ["value"]))
        graph.output.append(helper.make_tensor_value_info("value", TensorProto.FLOAT, ["n"]))
        return
    # The likeliest class: the label of support vectors can differ from their probabilities.
    graph.node.extend(
        (
            helper.make_node("Identity", [source], ["probabilities"]),
            helper.make_node("ArgMax", [source], ["label"], axis=1, keepdims=0),
        )
    )
    graph.output.extend(
        (
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["n", classes]),
            helper.make_tensor_value_info("label", TensorProto.INT64, ["n"]),
        )
    )


def _checked(data: object) -> TabularData:
    if not isinstance(data, TabularData):
        raise InputError.one(WHERE, "requires a table", "use a transformer or lora")
    if data.y is None:
        raise InputError.one(WHERE, "the data has no label", "set the label under data: label")
    if not np.isfinite(data.x).all():
        names = [
            name
            for name, column in zip(data.names, data.x.T, strict=True)
            if not np.isfinite(column).all()
        ]
        raise InputError.one(
            WHERE,
            f"{', '.join(names[:5])}: values are missing",
            "add an impute step to data, or use trees",
        )
    if data.problem == "classification" and len(np.unique(data.y)) != len(data.classes):
        raise InputError.one(
            WHERE, "a class has no training rows", "use more rows, or split: {stratify: true}"
        )
    return data


def _labels(table: TabularData) -> Array:
    assert table.y is not None
    return table.y.astype(np.int64) if table.problem == "classification" else table.y


def _predicted(model: Estimator, table: TabularData, rows: Array) -> Array:
    is_classifier = table.problem == "classification"
    answers = model.predict_proba(rows) if is_classifier else model.predict(rows)
    return np.asarray(answers)


def _loss(model: Estimator, table: TabularData) -> float:
    """Return the mean log loss, or the mean squared error, of the training rows."""
    answers, labels = _predicted(model, table, table.x), _labels(table)
    if table.problem != "classification":
        return float(np.mean((answers - labels) ** 2))
    likely = answers[np.arange(len(labels)), labels]
    return float(-np.log(np.clip(likely, 1e-15, 1.0)).mean())


def _parameters(model: Estimator) -> int:
    """Return the number of fitted numbers: coefficients, or leaves of trees."""
    if hasattr(model, "final_estimator_"):
        return _parameters(model.final_estimator_) + sum(map(_parameters, model.estimators_))
    if hasattr(model, "steps"):  # of a pipeline, the last is the model
        return _parameters(model.steps[-1][1])
    if hasattr(model, "estimators_"):
        return int(sum(tree.get_n_leaves() for tree in np.ravel(model.estimators_)))
    return int(sum(np.size(getattr(model, name, ())) for name in ("coef_", "intercept_", "theta_")))


def make(spec: TrainSpec) -> SklearnTrainer:
    """Return the trainer of a spec."""
    assert spec.sklearn is not None
    return SklearnTrainer(spec, spec.sklearn)
