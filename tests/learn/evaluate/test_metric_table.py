"""Every metric against scikit-learn or its definition, with and without weights."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
import sklearn.metrics as known
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.errors import InputError
from gpuyard.learn.evaluate.metric_table import METRICS, metrics_named, usual
from gpuyard.learn.evaluate.predictions import Predictions

BY_NAME = {metric.name: metric for metric in METRICS}
Floats = npt.NDArray[np.float64]


def value(name: str, predictions: Predictions, weights: Floats | None = None) -> float:
    """One metric, one row of weights."""
    units = (
        predictions.count
        if predictions.problem != "ranking"
        else len(np.unique(predictions.groups))
    )
    rows = np.ones((1, units)) if weights is None else weights[None, :]
    return float(BY_NAME[name].compute(predictions, rows)[0])


@st.composite
def classed(draw: st.DrawFn) -> tuple[Predictions, Floats]:
    """Probabilities with ties, every class present, whole weights as a bootstrap draws them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    classes, rows = draw(st.integers(2, 4)), draw(st.integers(8, 60))
    steps = draw(st.sampled_from([3, 10, 10_000]))  # few steps make many ties
    raw = rng.integers(1, steps + 1, size=(rows, classes)).astype(np.float64)
    truth = np.concatenate([np.arange(classes), rng.integers(0, classes, rows - classes)])
    weights = np.maximum(rng.poisson(1.0, rows), (np.arange(rows) < classes).astype(int)).astype(
        np.float64
    )
    return Predictions(
        problem="classification", outputs=raw / raw.sum(axis=1, keepdims=True), truth=truth
    ), weights


def expected(name: str, p: Predictions, w: Floats) -> float:
    """What scikit-learn says."""
    assert p.truth is not None
    y, labels, out = p.truth, p.labels, p.outputs
    two, classes = out.shape[1] == 2, list(range(out.shape[1]))
    one_hot = np.eye(out.shape[1])[y]
    average = {"average": "binary" if two else "macro", "zero_division": 0.0, "sample_weight": w}
    table = {
        "accuracy": lambda: known.accuracy_score(y, labels, sample_weight=w),
        "balanced_accuracy": lambda: known.balanced_accuracy_score(y, labels, sample_weight=w),
        "f1": lambda: known.f1_score(y, labels, **average),
        "f1_macro": lambda: known.f1_score(
            y, labels, average="macro", zero_division=0.0, sample_weight=w
        ),
        "f1_micro": lambda: known.f1_score(y, labels, average="micro", sample_weight=w),
        "precision": lambda: known.precision_score(y, labels, **average),
        "recall": lambda: known.recall_score(y, labels, **average),
        "mcc": lambda: known.matthews_corrcoef(y, labels, sample_weight=w),
        "roc_auc": lambda: (
            known.roc_auc_score(y, out[:, 1], sample_weight=w)
            if two
            else known.roc_auc_score(one_hot, out, average="macro", sample_weight=w)
        ),
        "pr_auc": lambda: (
            known.average_precision_score(y, out[:, 1], sample_weight=w)
            if two
            else known.average_precision_score(one_hot, out, average="macro", sample_weight=w)
        ),
        "log_loss": lambda: known.log_loss(y, out, labels=classes, sample_weight=w),
        "brier": lambda: known.brier_score_loss(
            y, out[:, 1] if two else out, labels=classes, sample_weight=w
        ),
    }
    return float(table[name]())


@pytest.mark.parametrize(
    "name",
    [item.name for item in METRICS if item.problem == "classification" and item.name != "ece"],
)
@settings(max_examples=25)
@given(case=classed())
def test_classification_metrics_match_scikit_learn(
    name: str, case: tuple[Predictions, Floats]
) -> None:
    predictions, weights = case
    assert value(name, predictions, weights) == pytest.approx(
        expected(name, predictions, weights), abs=1e-9
    )
    ones = np.ones(predictions.count)
    assert value(name, predictions) == pytest.approx(expected(name, predictions, ones), abs=1e-9)


@settings(max_examples=25)
@given(case=classed())
def test_weights_act_like_repeated_rows(case: tuple[Predictions, Floats]) -> None:
    predictions, weights = case
    repeated = predictions.take(np.repeat(np.arange(predictions.count), weights.astype(int)))
    for metric in METRICS:
        if metric.problem == "classification":
            assert value(metric.name, predictions, weights) == pytest.approx(
                value(metric.name, repeated), abs=1e-9
            )


@settings(max_examples=25)
@given(case=classed())
def test_calibration_error_matches_its_definition(case: tuple[Predictions, Floats]) -> None:
    predictions, weights = case
    sure, right = predictions.outputs.max(axis=1), predictions.labels == predictions.truth
    total = 0.0
    for index in range(15):
        inside = (sure > index / 15) & (sure <= (index + 1) / 15)
        if weights[inside].sum():
            gap = np.average(sure[inside], weights=weights[inside]) - np.average(
                right[inside], weights=weights[inside]
            )
            total += abs(gap) * weights[inside].sum() / weights.sum()
    assert value("ece", predictions, weights) == pytest.approx(total, abs=1e-6)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(3, 50))
def test_regression_metrics_match_scikit_learn(seed: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    y, out, w = rng.normal(3, 5, rows), rng.normal(3, 5, rows), 1.0 + rng.poisson(1.0, rows)
    p = Predictions(problem="regression", outputs=out, truth=y)
    assert value("mae", p, w) == pytest.approx(known.mean_absolute_error(y, out, sample_weight=w))
    assert value("rmse", p, w) == pytest.approx(
        known.root_mean_squared_error(y, out, sample_weight=w)
    )
    assert value("r2", p, w) == pytest.approx(known.r2_score(y, out, sample_weight=w))
    assert value("mape", p, w) == pytest.approx(
        known.mean_absolute_percentage_error(y, out, sample_weight=w)
    )
    for name, share in (("pinball", 0.5), ("pinball_10", 0.1), ("pinball_90", 0.9)):
        assert value(name, p, w) == pytest.approx(
            known.mean_pinball_loss(y, out, alpha=share, sample_weight=w)
        )


def test_r2_of_constant_labels_is_nan() -> None:
    p = Predictions(problem="regression", outputs=np.arange(4.0), truth=np.full(4, 0.1))
    assert math.isnan(value("r2", p))


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1), lists=st.integers(1, 6), steps=st.sampled_from([2, 5, 10_000])
)
def test_ranking_metrics_match_scikit_learn(seed: int, lists: int, steps: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 15, lists)
    groups = np.repeat(rng.permutation(100)[:lists], sizes)
    truth, scores = rng.integers(0, 4, len(groups)), rng.integers(0, steps, len(groups)) / steps
    mixed = rng.permutation(len(groups))  # rows of a query need not stand together
    p = Predictions(
        problem="ranking", outputs=scores[mixed], truth=truth[mixed], groups=groups[mixed]
    )
    own = {"ndcg": [], "ndcg_10": [], "map": [], "mrr": []}  # type: dict[str, list[float]]
    for query in np.unique(groups):
        rows = groups == query
        y, s = truth[rows], scores[rows]
        own["ndcg"].append(known.ndcg_score([y], [s]) if y.any() else 0.0)
        own["ndcg_10"].append(known.ndcg_score([y], [s], k=10) if y.any() else 0.0)
        if y.any():
            own["map"].append(known.average_precision_score(y > 0, s))
        places = [
            int((s >= score).sum()) for score, relevant in zip(s, y > 0, strict=True) if relevant
        ]
        own["mrr"].append(1.0 / min(places) if places else 0.0)
    for name, values in own.items():
        if values:
            assert value(name, p) == pytest.approx(float(np.mean(values)), abs=1e-9), name


def test_language_metrics_of_uniform_predictions() -> None:
    nats = np.array([[1.0, 2.0, 3.0], [0.5, 0.5, 0.5]])
    p = Predictions(
        problem="language",
        outputs=nats,
        hits=np.array([[True, False, False], [True, True, True]]),
        text_bytes=np.array([12.0, 6.0]),
    )
    assert value("perplexity", p) == pytest.approx(math.exp(7.5 / 6))
    assert value("bits_per_byte", p) == pytest.approx(7.5 / math.log(2) / 18)
    assert value("token_accuracy", p) == pytest.approx(4 / 6)
    assert value("perplexity", p, np.array([0.0, 2.0])) == pytest.approx(math.exp(0.5))


def test_unknown_metric_raises_input_error_with_a_suggestion() -> None:
    with pytest.raises(InputError) as caught:
        metrics_named(("roc_acu", "rmse", "accuracy"), "classification")
    text = str(caught.value)
    assert 'did you mean "roc_auc"' in text
    assert "rmse is a regression metric" in text
    assert len(caught.value.problems) == 2
    assert usual("regression") == ("mae", "rmse", "r2")


@pytest.mark.parametrize(
    ("outputs", "truth", "message"),
    [
        (np.zeros((0, 2)), np.zeros(0), "no rows"),
        (np.array([[0.5, np.nan]]), np.zeros(1), "not finite"),
        (np.array([[0.5, 0.5]]), np.zeros(2), "differ in length"),
        (np.array([0.5]), np.zeros(1), "rows, classes"),
    ],
)
def test_invalid_predictions_raise_input_error(
    outputs: Floats, truth: Floats, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Predictions(problem="classification", outputs=outputs, truth=truth)
