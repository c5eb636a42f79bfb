"""The table of metrics: what each is called, what it is for, which way is better, and how it is computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuyard.errors import InputError, Problem, nearest, one_of
from gpuyard.learn.evaluate import classification, language, ranking, regression
from gpuyard.learn.evaluate.predictions import Array, Predictions
from gpuyard.learn.trainer import Problem as Kind

__all__ = ["MEASURES", "Measure", "available", "measures_of", "usual"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One metric; `compute` takes weights [b, units] and gives [b] values."""

    name: str
    problem: Kind
    higher: bool  # is better
    words: str
    compute: Callable[[Predictions, Array], Array]
    usual: bool = False  # shown when the user names none

    @property
    def least(self) -> float:
        """No value is below it."""
        return {"mcc": -1.0, "r2": -math.inf, "perplexity": 1.0}.get(self.name, 0.0)

    @property
    def most(self) -> float:
        """No value is above it."""
        return 1.0 if self.higher or self.name == "ece" else math.inf

    def better(self, one: float, other: float) -> bool:
        """True when the first value is the better."""
        return one > other if self.higher else one < other


def _classes(name: str, compute: Callable[[Predictions, Array], Array], words: str, higher: bool = True,
             usual: bool = False) -> Measure:  # fmt: skip
    """A metric of classes."""
    return Measure(name=name, problem="classification", higher=higher, words=words, compute=compute, usual=usual)


def _values(name: str, compute: Callable[[Predictions, Array], Array], words: str, higher: bool = False,
            usual: bool = False) -> Measure:  # fmt: skip
    """A metric of values."""
    return Measure(name=name, problem="regression", higher=higher, words=words, compute=compute, usual=usual)


MEASURES: tuple[Measure, ...] = (
    _classes("roc_auc", classification.roc_auc, "area under the ROC curve", usual=True),
    _classes("pr_auc", classification.pr_auc, "average precision", usual=True),
    _classes("log_loss", classification.log_loss, "mean negative log probability", higher=False, usual=True),
    _classes("accuracy", classification.accuracy, "share of right answers", usual=True),
    _classes("balanced_accuracy", classification.balanced_accuracy, "mean recall of the classes"),
    _classes("f1", classification.f1, "harmonic mean of precision and recall"),
    _classes("f1_macro", classification.f1_macro, "mean F1 of the classes", usual=True),
    _classes("f1_micro", classification.f1_micro, "F1 over all answers"),
    _classes("precision", classification.precision, "positive answers that are right"),
    _classes("recall", classification.recall, "positive rows that were found"),
    _classes("brier", classification.brier, "mean squared distance of probabilities from the truth", higher=False),
    _classes("ece", classification.ece, "expected calibration error", higher=False, usual=True),
    _classes("mcc", classification.mcc, "Matthews correlation", usual=True),
    _values("mae", regression.mae, "mean absolute error", usual=True),
    _values("rmse", regression.rmse, "root of the mean squared error", usual=True),
    _values("r2", regression.r2, "explained share of the variance", higher=True, usual=True),
    _values("mape", regression.mape, "mean error as a share of the true value"),
    _values("pinball", regression.pinball(0.5), "pinball loss of the median"),
    _values("pinball_10", regression.pinball(0.1), "pinball loss of the 10 % quantile"),
    _values("pinball_90", regression.pinball(0.9), "pinball loss of the 90 % quantile"),
    Measure(name="ndcg", problem="ranking", higher=True, words="discounted gain of whole lists",
            compute=ranking.ndcg, usual=True),
    Measure(name="ndcg_10", problem="ranking", higher=True, words="discounted gain of the first ten",
            compute=ranking.ndcg_10, usual=True),
    Measure(name="mrr", problem="ranking", higher=True, words="one over the place of the first relevant row",
            compute=ranking.mrr, usual=True),
    Measure(name="map", problem="ranking", higher=True, words="mean average precision", compute=ranking.map_score,
            usual=True),
    Measure(name="perplexity", problem="language", higher=False, words="exponential of the mean nats of a token",
            compute=language.perplexity, usual=True),
    Measure(name="bits_per_byte", problem="language", higher=False, words="bits needed for a byte of text",
            compute=language.bits_per_byte, usual=True),
    Measure(name="token_accuracy", problem="language", higher=True, words="tokens held for the likeliest",
            compute=language.token_accuracy, usual=True),
)  # fmt: skip


def measures_of(names: Sequence[str], problem: Kind, where: str = "metrics") -> tuple[Measure, ...]:
    """The metrics of those names; InputError names every one that is unknown or made for another problem."""
    known = {measure.name: measure for measure in MEASURES}
    fitting = [measure.name for measure in MEASURES if measure.problem == problem]
    problems = []
    for name in names:
        if name not in known:
            meant = nearest(name, fitting)
            fix = f'did you mean "{meant}"?' if meant else f"use {one_of(fitting, 30)}"
            problems.append(Problem(where=where, what=f'no metric named "{name}"', fix=fix))
        elif known[name].problem != problem:
            what = f"{name} is a metric of {known[name].problem}; the data's problem is {problem}"
            problems.append(Problem(where=where, what=what, fix=f"use {one_of(fitting, 30)}"))
    if problems:
        raise InputError(problems)
    return tuple(known[name] for name in names)


def usual(problem: Kind) -> tuple[str, ...]:
    """The metrics shown when the user names none."""
    return tuple(measure.name for measure in MEASURES if measure.problem == problem and measure.usual)


def available(measures: Sequence[Measure], given: Predictions) -> tuple[Measure, ...]:
    """Those that can be computed: bits per byte needs the text's size, token accuracy the likeliest tokens."""
    lacking = {"bits_per_byte": given.text_bytes is None, "token_accuracy": given.hits is None}
    return tuple(measure for measure in measures if not lacking.get(measure.name, False))
