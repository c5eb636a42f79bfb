"""Evaluate a trainer: fit folds in parallel, score the predictions, build the scorecard."""

from __future__ import annotations

import dataclasses
import itertools
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError, choices_text
from gpuyard.learn.evaluate.fold import FoldJob, FoldPrediction, predict_fold
from gpuyard.learn.evaluate.metric_table import MetricDefinition, available, metrics_named, usual
from gpuyard.learn.evaluate.plots import evaluation_plots
from gpuyard.learn.evaluate.pool import cores, open_pool
from gpuyard.learn.evaluate.predictions import Predictions, concatenate
from gpuyard.learn.evaluate.scorecard import (
    LearningPoint,
    Sampling,
    Scorecard,
    scores_of,
    slices_of,
)
from gpuyard.learn.evaluate.spec import EvaluateSpec, check_evaluate
from gpuyard.learn.evaluate.splits import EvaluationSplits
from gpuyard.learn.spec import TrainSpec, trainer_of
from gpuyard.learn.trainer_list import trainer_entry

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation:
    """A scorecard and the predictions behind it, for comparisons."""

    card: Scorecard
    predictions: Predictions


def evaluate(
    splits: EvaluationSplits,
    train: TrainSpec,
    spec: EvaluateSpec,
    *,
    method: str,
    data: str = "",
    workers: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Train and test on every split; `workers` 0 uses all cores and does not change the scores."""
    check_evaluate(spec)
    trainer = trainer_of(train)
    shares = sorted({share for share in spec.learning_curve if share < 1})
    jobs = [
        FoldJob(
            parts=splits,
            number=number,
            train=train,
            share=share,
            seed=spec.seed,
            on_train=bool(spec.learning_curve),
        )
        for share in (1.0, *shares)
        for number in range(splits.count)
    ]
    done = itertools.count(1)

    def on_result(_: FoldPrediction) -> None:
        if progress is not None:
            progress(next(done), len(jobs))

    workers = min(workers or cores(), len(jobs))
    with open_pool(workers, trainer_entry(trainer).preload) as pool:
        folds = pool.run(predict_fold, jobs, on_result)
    full = folds[: splits.count]
    card = score_predictions(full, spec, trainer=trainer, method=method, data=data)
    if spec.learning_curve:
        metrics = _metrics(spec, full[0].predictions)
        steps = [
            folds[start : start + splits.count]
            for start in range(splits.count, len(folds), splits.count)
        ]
        card = dataclasses.replace(
            card, learning=tuple(_point(metrics, step, spec) for step in (*steps, full))
        )
    return Evaluation(card=card, predictions=concatenate([fold.predictions for fold in full]))


def score_predictions(
    folds: Sequence[FoldPrediction],
    spec: EvaluateSpec,
    *,
    trainer: str,
    method: str,
    data: str = "",
) -> Scorecard:
    """Build the scorecard of existing predictions, one per fold."""
    pooled, columns = concatenate([fold.predictions for fold in folds]), _columns(folds)
    metrics = _metrics(spec, folds[0].predictions)
    missing = [name for name in spec.slices if name not in {column for column, _ in columns}]
    if missing:
        raise InputError.one(
            "evaluate.slices",
            f"no column {choices_text(missing)}",
            "use columns of the prepared data",
        )
    settings = _settings(spec)
    scores, outcomes = scores_of(metrics, folds, settings)
    requested = spec.metrics or usual(pooled.problem)
    computed = {score.metric for score in scores}
    return Scorecard(
        trainer=trainer,
        problem=pooled.problem,
        method=method,
        rows=pooled.count,
        classes=pooled.classes,
        confidence_ratio=spec.confidence_ratio,
        seed=spec.seed,
        data=data,
        scores=scores,
        folds=outcomes,
        slices=slices_of(metrics, pooled, columns, settings),
        losses=tuple(curve for fold in folds for curve in fold.losses),
        pictures=evaluation_plots(pooled),
        not_computed=tuple(name for name in requested if name not in computed),
    )


def _settings(spec: EvaluateSpec) -> Sampling:
    return Sampling(resamples=spec.resamples, confidence=spec.confidence_ratio, seed=spec.seed)


def _metrics(spec: EvaluateSpec, predictions: Predictions) -> tuple[MetricDefinition, ...]:
    problem = predictions.problem
    names = spec.metrics or usual(problem)
    return available(metrics_named(names, problem, "evaluate.metrics"), predictions)


def _columns(folds: Sequence[FoldPrediction]) -> tuple[tuple[str, npt.NDArray[typing.Any]], ...]:
    names = [name for name, _ in folds[0].columns]
    return tuple(
        (name, np.concatenate([dict(fold.columns)[name] for fold in folds])) for name in names
    )


def _point(
    metrics: Sequence[MetricDefinition], folds: Sequence[FoldPrediction], spec: EvaluateSpec
) -> LearningPoint:
    scores, _ = scores_of(metrics, folds, _settings(spec))
    on_train = [
        dataclasses.replace(fold, predictions=fold.on_train)
        for fold in folds
        if fold.on_train is not None
    ]
    train_scores, _ = scores_of(
        metrics, on_train, dataclasses.replace(_settings(spec), resamples=0)
    )
    return LearningPoint(
        train_rows=round(float(np.mean([fold.train_rows for fold in folds]))),
        scores=scores,
        train_scores=train_scores,
    )
