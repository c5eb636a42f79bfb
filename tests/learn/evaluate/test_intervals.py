"""Intervals cover the true value at their confidence; tests reject at their significance level."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.errors import InputError
from gpuyard.learn.evaluate.compare import compare, corrected_t, delong, mcnemar, paired_bootstrap
from gpuyard.learn.evaluate.intervals import fold_score, resampled, score, units_of
from gpuyard.learn.evaluate.metric_table import METRICS
from gpuyard.learn.evaluate.predictions import Predictions, concatenate

BY_NAME = {metric.name: metric for metric in METRICS}


def two_classes(
    rng: np.random.Generator, rows: int, skill: float = 1.0, truth: np.ndarray | None = None
) -> Predictions:
    """Answers of a model that is better than chance by `skill`."""
    truth = rng.integers(0, 2, rows) if truth is None else truth
    positive = 1.0 / (1.0 + np.exp(-(skill * (2 * truth - 1) + rng.normal(size=rows))))
    return Predictions(
        problem="classification", outputs=np.column_stack([1 - positive, positive]), truth=truth
    )


@pytest.mark.parametrize("name", ["accuracy", "roc_auc"])
def test_interval_covers_the_true_value_at_its_confidence(name: str) -> None:
    rng, inside = np.random.default_rng(5), 0
    true = {"accuracy": scipy.stats.norm.cdf(1.0), "roc_auc": scipy.stats.norm.cdf(math.sqrt(2.0))}[
        name
    ]
    for number in range(200):
        interval = score(
            BY_NAME[name], two_classes(rng, 300), resamples=400, confidence=0.9, seed=number
        )
        assert interval.low is not None
        assert interval.high is not None
        inside += interval.low <= true <= interval.high
    assert 165 <= inside <= 195  # 180 expected, four standard deviations are 17


def test_same_seed_gives_same_interval() -> None:
    predictions = two_classes(np.random.default_rng(0), 100)
    metric = BY_NAME["log_loss"]
    assert score(metric, predictions, seed=3) == score(metric, predictions, seed=3)
    assert score(metric, predictions, seed=3) != score(metric, predictions, seed=4)


def test_resampling_groups_widens_the_interval() -> None:
    rng = np.random.default_rng(1)
    base = two_classes(rng, 40)
    repeated = base.take(np.repeat(np.arange(40), 10))
    assert repeated.truth is not None
    grouped = Predictions(
        problem="classification",
        outputs=repeated.outputs,
        truth=repeated.truth,
        groups=np.repeat(np.arange(40), 10),
    )
    for weights in resampled(units_of(grouped), 5, 0):
        assert (weights.reshape(len(weights), 40, 10).std(axis=2) == 0).all()
    alone, together = score(BY_NAME["accuracy"], repeated), score(BY_NAME["accuracy"], grouped)
    assert together.low is not None
    assert together.high is not None
    assert alone.low is not None
    assert alone.high is not None
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_resamples_without_a_positive_row_are_ignored() -> None:
    p = Predictions(
        problem="classification",
        outputs=np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]]),
        truth=np.array([0, 1, 0]),
    )
    interval = score(BY_NAME["roc_auc"], p)
    assert (interval.value, interval.low, interval.high) == (1.0, 1.0, 1.0)
    assert score(BY_NAME["accuracy"], p.take(np.array([0]))).low is None


def test_fold_interval_is_corrected_for_shared_training_rows() -> None:
    values = (0.8, 0.82, 0.79, 0.83, 0.81)
    interval = fold_score(BY_NAME["accuracy"], values, test_over_train=0.25)
    plain = scipy.stats.t.interval(0.95, 4, loc=np.mean(values), scale=scipy.stats.sem(values))
    assert interval.value == pytest.approx(0.81)
    assert interval.low is not None
    assert (interval.value - interval.low) / (interval.value - plain[0]) == pytest.approx(
        math.sqrt((0.2 + 0.25) / 0.2)
    )
    assert fold_score(BY_NAME["accuracy"], (0.8,), 0.25).low is None


def test_significance_tests_reject_at_their_level() -> None:
    rng = np.random.default_rng(7)
    rejected = {"delong": 0, "mcnemar": 0, "bootstrap": 0}
    for number in range(150):
        first = two_classes(rng, 200)
        second = two_classes(rng, 200, truth=first.truth)
        rejected["delong"] += delong(first, second).p_value < 0.1
        rejected["mcnemar"] += mcnemar(first, second) < 0.1
        comparison = paired_bootstrap(
            BY_NAME["log_loss"], first, second, resamples=300, seed=number
        )
        rejected["bootstrap"] += comparison.p_value < 0.1
    assert all(
        count <= 30 for count in rejected.values()
    )  # 15 expected, four standard deviations are 15
    assert rejected["delong"] > 2


def test_better_model_is_significantly_better() -> None:
    rng = np.random.default_rng(2)
    weak = two_classes(rng, 800, skill=0.3)
    strong = two_classes(rng, 800, skill=2.0, truth=weak.truth)
    for name, test in (
        ("roc_auc", "delong"),
        ("accuracy", "mcnemar"),
        ("log_loss", "paired bootstrap"),
    ):
        comparison = compare(BY_NAME[name], weak, strong)
        assert comparison.test == test
        assert comparison.significant
        assert BY_NAME[name].better(comparison.second, comparison.first)
        assert comparison.low is not None
        assert comparison.high is not None
        assert comparison.low <= comparison.difference <= comparison.high
        assert comparison.low * comparison.high > 0


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), steps=st.sampled_from([4, 10_000]))
def test_delong_matches_its_definition(seed: int, steps: int) -> None:
    rng = np.random.default_rng(seed)
    truth = np.concatenate([[0, 0, 1, 1], rng.integers(0, 2, 20)])
    first, second = rng.integers(0, steps, (2, len(truth))) / steps
    models = [
        Predictions(problem="classification", outputs=np.column_stack([1 - s, s]), truth=truth)
        for s in (first, second)
    ]
    comparison = delong(models[0], models[1])
    yes, no = truth == 1, truth == 0
    wins = [
        (s[yes][:, None] > s[no][None, :]) + 0.5 * (s[yes][:, None] == s[no][None, :])
        for s in (first, second)
    ]
    areas = [float(win.mean()) for win in wins]
    spread = np.cov(np.vstack([win.mean(axis=1) for win in wins])) / yes.sum()
    spread = spread + np.cov(np.vstack([win.mean(axis=0) for win in wins])) / no.sum()
    variance = spread[0, 0] + spread[1, 1] - 2 * spread[0, 1]
    assert (comparison.first, comparison.second) == pytest.approx(tuple(areas))
    if variance > 1e-12:
        p_value = 2 * scipy.stats.norm.sf(abs(areas[1] - areas[0]) / math.sqrt(variance))
        assert comparison.p_value == pytest.approx(p_value, abs=1e-9)


def test_mcnemar_is_exact_for_few_discordant_rows() -> None:
    truth = np.ones(30, dtype=int)
    right, wrong = np.array([0.1, 0.9]), np.array([0.9, 0.1])
    first = Predictions(
        problem="classification", outputs=np.array([right] * 28 + [wrong] * 2), truth=truth
    )
    second = Predictions(
        problem="classification", outputs=np.array([wrong] * 8 + [right] * 22), truth=truth
    )
    assert mcnemar(first, second) == pytest.approx(scipy.stats.binomtest(8, 10).pvalue)
    assert mcnemar(first, first) == 1.0


def test_corrected_t_matches_its_definition() -> None:
    first, second = (0.80, 0.81, 0.79, 0.80, 0.82), (0.84, 0.86, 0.85, 0.83, 0.87)
    comparison = corrected_t(BY_NAME["accuracy"], first, second, 0.25)
    differences = np.subtract(second, first)
    statistic = differences.mean() / math.sqrt((1 / 5 + 0.25) * differences.var(ddof=1))
    assert comparison.p_value == pytest.approx(2 * scipy.stats.t.sf(statistic, 4))
    assert comparison.significant
    assert corrected_t(BY_NAME["accuracy"], first, first, 0.25).p_value == 1.0
    with pytest.raises(InputError):
        corrected_t(BY_NAME["accuracy"], first, (0.5,), 0.25)


def test_comparing_predictions_of_different_rows_raises_input_error() -> None:
    rng = np.random.default_rng(3)
    with pytest.raises(InputError, match="different rows"):
        compare(BY_NAME["roc_auc"], two_classes(rng, 50), two_classes(rng, 50))


def test_predictions_are_concatenated_in_order() -> None:
    rng = np.random.default_rng(4)
    whole = two_classes(rng, 10)
    again = concatenate([whole.take(np.arange(4)), whole.take(np.arange(4, 10))])
    assert np.array_equal(again.outputs, whole.outputs)
    assert again.groups is None
