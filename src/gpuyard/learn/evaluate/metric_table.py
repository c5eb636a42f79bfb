"""The table of metrics: name, problem type, direction and computation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuyard.errors import InputError, Problem, choices_text, closest_match
from gpuyard.learn.evaluate import classification, language, ranking, regression
from gpuyard.learn.evaluate.predictions import Array, Predictions
from gpuyard.learn.trainer import ProblemType as Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDefinition:
    """A metric; `compute` takes weights [b, units] and returns [b] values."""

    name: str
    problem: Kind
    higher: bool  # True: higher is better
    compute: Callable[[Predictions, Array], Array]
    usual: bool = False  # reported by default

    @property
    def min_value(self) -> float:
        return {"mcc": -1.0, "r2": -math.inf, "perplexity": 1.0}.get(self.name, 0.0)

    @property
    def max_value(self) -> float:
        return 1.0 if self.higher or self.name == "ece" else math.inf

    def better(self, one: float, other: float) -> bool:
        """Return whether the first value is better than the second."""
        return one > other if self.higher else one < other


def _metric(
    problem: Kind,
    name: str,
    compute: Callable[[Predictions, Array], Array],
    higher: bool = True,
    usual: bool = False,
) -> MetricDefinition:
    return MetricDefinition(name=name, problem=problem, higher=higher, compute=compute, usual=usual)


METRICS: tuple[MetricDefinition, ...] = (
    _metric("classification", "roc_auc", classification.roc_auc, usual=True),
    _metric("classification", "pr_auc", classification.pr_auc, usual=True),
    _metric("classification", "log_loss", classification.log_loss, higher=False, usual=True),
    _metric("classification", "accuracy", classification.accuracy, usual=True),
    _metric("classification", "balanced_accuracy", classification.balanced_accuracy),
    _metric("classification", "f1", classification.f1),
    _metric("classification", "f1_macro", classification.f1_macro, usual=True),
    _metric("classification", "f1_micro", classification.f1_micro),
    _metric("classification", "precision", classification.precision),
    _metric("classification", "recall", classification.recall),
    _metric("classification", "brier", classification.brier, higher=False),
    _metric("classification", "ece", classification.ece, higher=False, usual=True),
    _metric("classification", "mcc", classification.mcc, usual=True),
    _metric("regression", "mae", regression.mae, higher=False, usual=True),
    _metric("regression", "rmse", regression.rmse, higher=False, usual=True),
    _metric("regression", "r2", regression.r2, usual=True),
    _metric("regression", "mape", regression.mape, higher=False),
    _metric("regression", "pinball", regression.pinball(0.5), higher=False),
    _metric("regression", "pinball_10", regression.pinball(0.1), higher=False),
    _metric("regression", "pinball_90", regression.pinball(0.9), higher=False),
    _metric("ranking", "ndcg", ranking.ndcg, usual=True),
    _metric("ranking", "ndcg_10", ranking.ndcg_10, usual=True),
    _metric("ranking", "mrr", ranking.mrr, usual=True),
    _metric("ranking", "map", ranking.map_score, usual=True),
    _metric("language", "perplexity", language.perplexity, higher=False, usual=True),
    _metric("language", "bits_per_byte", language.bits_per_byte, higher=False, usual=True),
    _metric("language", "token_accuracy", language.token_accuracy, usual=True),
)


def metrics_named(
    names: Sequence[str], problem: Kind, where: str = "metrics"
) -> tuple[MetricDefinition, ...]:
    """Return the named metrics; raise InputError for every unknown or unsuitable name."""
    known = {metric.name: metric for metric in METRICS}
    suitable = [metric.name for metric in METRICS if metric.problem == problem]
    problems = []
    for name in names:
        if name not in known:
            meant = closest_match(name, suitable)
            fix = f'did you mean "{meant}"?' if meant else f"use {choices_text(suitable, 30)}"
            problems.append(Problem(where=where, what=f'no metric named "{name}"', fix=fix))
        elif known[name].problem != problem:
            what = f"{name} is a {known[name].problem} metric; the problem type is {problem}"
            problems.append(
                Problem(where=where, what=what, fix=f"use {choices_text(suitable, 30)}")
            )
    if problems:
        raise InputError(problems)
    return tuple(known[name] for name in names)


def usual(problem: Kind) -> tuple[str, ...]:
    """Return the names of the metrics reported by default."""
    return tuple(metric.name for metric in METRICS if metric.problem == problem and metric.usual)


def available(
    metrics: Sequence[MetricDefinition], predictions: Predictions
) -> tuple[MetricDefinition, ...]:
    """Return the computable metrics: bits per byte needs text sizes, token accuracy top tokens."""
    missing = {
        "bits_per_byte": predictions.text_bytes is None,
        "token_accuracy": predictions.hits is None,
    }
    return tuple(metric for metric in metrics if not missing.get(metric.name, False))
