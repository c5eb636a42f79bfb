"""Promotion: whether a new version becomes the champion, by scores on the same test rows.

1. Clients of the champion must be able to use the version: same inputs, outputs and classes.
2. Both must predict the same label.
3. Scores compare if they were measured on the same data, rows and folds. The better one wins, and
   a tie goes to the newer version.
4. Otherwise the champion predicts the new test rows, and a paired test must find the new version
   significantly better: the champion may have been trained on some of these rows, so that a small
   difference says nothing.
Whatever cannot be compared becomes the challenger, with the reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

from gpuyard.datasets.prepared import PreparedDataset
from gpuyard.errors import GpuyardError
from gpuyard.learn.evaluate.bundled import bundle_predictions, rejudged_predictions
from gpuyard.learn.evaluate.compare import compare
from gpuyard.learn.evaluate.metric_table import MetricDefinition, metrics_named
from gpuyard.learn.evaluate.prepared import TEST
from gpuyard.learn.evaluate.scorecard import Scorecard
from gpuyard.learn.trainer import ProblemType
from gpuyard.registry.interface import interface_difference
from gpuyard.registry.names import CHALLENGER, CHAMPION
from gpuyard.registry.registry import ModelVersion, Registry

PROMOTE = "promote it with `gpuyard models promote`"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewScores:
    """What a run knows about its new version: its scorecard, metric and prepared data."""

    card: Scorecard | None
    metric: str = ""  # the one that decides
    data: PreparedDataset | None = None


def choose_alias(registry: Registry, version: ModelVersion, scores: NewScores) -> tuple[str, str]:
    """Return the alias of a new version, champion or challenger, and the reason."""
    champion = next(
        (item for item in registry.versions(version.name) if CHAMPION in item.aliases), None
    )
    if champion is None:
        return CHAMPION, "it is the first"
    if champion.version == version.version:
        return CHAMPION, "it is the champion already"
    is_better, why = _judged(champion, version, scores)
    return (CHAMPION, why) if is_better else (CHALLENGER, f"{why}: {PROMOTE}")


def _judged(champion: ModelVersion, version: ModelVersion, scores: NewScores) -> tuple[bool, str]:
    against = f"version {champion.version}"
    difference = interface_difference(champion.bundle, version.bundle)
    if difference:
        return False, f"clients of {against} cannot use it: {difference}"
    same_data = bool(version.lineage.data) and champion.lineage.data == version.lineage.data
    labels = champion.lineage.label, version.lineage.label
    if not same_data and labels[0] != labels[1]:
        return (
            False,
            f'it predicts "{labels[1]}", and {against} "{labels[0] or "an unknown label"}"',
        )
    if scores.card is None:
        if champion.lineage.evaluated:
            return False, f"it was not evaluated, and {against} was"
        return True, f"neither it nor {against} was evaluated"
    (measure,) = metrics_named((scores.metric,), cast(ProblemType, scores.card.problem))
    now = _recorded(version, scores.metric)
    if now is None:
        return False, f"it has no {scores.metric} to compare with {against}"
    before = _recorded(champion, scores.metric)
    same_rows = same_data and champion.lineage.evaluated == version.lineage.evaluated
    if same_rows and before is not None:
        return _is_better(measure, now, before), _scores(scores.metric, now, before, against)
    return _rejudged(champion, version, scores, measure)


def _rejudged(
    champion: ModelVersion, version: ModelVersion, scores: NewScores, measure: MetricDefinition
) -> tuple[bool, str]:
    """Compare both on the new test rows."""
    against = f"version {champion.version}"
    data = scores.data
    split = data.manifest.split(TEST) if data is not None else None
    if data is None or split is None or not split.rows:
        return False, f"{against} was evaluated on other rows, and there is no test split"
    try:
        first = rejudged_predictions(champion.path, data, TEST)
        second = bundle_predictions(version.path, data, TEST)
        result = compare(measure, first, second)
    except GpuyardError as error:
        reason = str(error).splitlines()[0].removeprefix("error: ")
        return False, f"{against} cannot be evaluated on the new test rows ({reason})"
    words = _scores(measure.name, result.second, result.first, against)
    words = f"{words} on the same {split.rows} test rows"
    if not math.isfinite(result.difference):
        return False, f"{measure.name} is not defined on the new test rows"
    if not _is_better(measure, result.second, result.first):
        return False, words
    words = f"{words}, p = {result.p_value:.2g} ({result.test})"
    return result.significant, words if result.significant else f"{words}: not significant"


def _recorded(version: ModelVersion, metric: str) -> float | None:
    return next((item.value for item in version.metrics if item.name == metric), None)


def _is_better(measure: MetricDefinition, now: float, before: float) -> bool:
    return now >= before if measure.higher else now <= before


def _scores(metric: str, now: float, before: float, against: str) -> str:
    return f"{metric} {now:.4g} against {before:.4g} of {against}"
