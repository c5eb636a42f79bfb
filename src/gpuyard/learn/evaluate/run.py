"""The evaluation itself: parts spread over processes, answers gathered, scored and drawn."""

from __future__ import annotations

import dataclasses
import itertools
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError, one_of
from gpuyard.learn.evaluate.fold import Answer, FoldJob, answer
from gpuyard.learn.evaluate.measures import Measure, available, measures_of, usual
from gpuyard.learn.evaluate.parts import Parts
from gpuyard.learn.evaluate.pictures import pictures
from gpuyard.learn.evaluate.pool import cores, open_pool
from gpuyard.learn.evaluate.predictions import Predictions, joined
from gpuyard.learn.evaluate.scorecard import LearningPoint, Sampling, Scorecard, scores_of, slices_of
from gpuyard.learn.evaluate.spec import EvaluateSpec, check_evaluate
from gpuyard.learn.spec import TrainSpec, trainer_of

__all__ = ["PRELOAD", "Evaluation", "evaluate", "judge"]

PRELOAD = {"trees": ("numpy", "lightgbm"), "jax_mlp": ("numpy",), "torch_mlp": ("numpy",)}
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation:
    """The scorecard, and the answers that it was computed from, for comparisons."""

    card: Scorecard
    predictions: Predictions


def evaluate(
    parts: Parts, train: TrainSpec, spec: EvaluateSpec, *, method: str, data: str = "", workers: int = 0,
    progress: Progress | None = None,
) -> Evaluation:  # fmt: skip
    """Trains on every part and judges on its test rows; `workers` 0 uses all cores. Same seed, same scores."""
    check_evaluate(spec)
    trainer = trainer_of(train)
    shares = sorted({share for share in spec.learning_curve if share < 1})
    jobs = [
        FoldJob(
            parts=parts, number=number, train=train, share=share, seed=spec.seed, on_train=bool(spec.learning_curve)
        )
        for share in (1.0, *shares)
        for number in range(parts.count)
    ]
    with open_pool(min(workers or cores(), len(jobs)), PRELOAD.get(trainer, ())) as pool:
        done = itertools.count(1)
        found = pool.run(answer, jobs, lambda _: progress(next(done), len(jobs)) if progress else None)
    whole = found[: parts.count]
    card = judge(whole, spec, trainer=trainer, method=method, data=data)
    if spec.learning_curve:
        measures = _measures(spec, whole[0].predictions)
        steps = [found[start : start + parts.count] for start in range(parts.count, len(found), parts.count)]
        card = dataclasses.replace(card, learning=tuple(_point(measures, step, spec) for step in (*steps, whole)))
    return Evaluation(card=card, predictions=joined([item.predictions for item in whole]))


def judge(answers: Sequence[Answer], spec: EvaluateSpec, *, trainer: str, method: str, data: str = "") -> Scorecard:
    """The scorecard of answers that are there already, one for every part."""
    pooled, columns = joined([item.predictions for item in answers]), _columns(answers)
    measures = _measures(spec, answers[0].predictions)
    missing = [name for name in spec.slices if name not in {column for column, _ in columns}]
    if missing:
        raise InputError.one("evaluate.slices", f"no column {one_of(missing)}", "name columns of the prepared data")
    settings = _settings(spec)
    scores, folds = scores_of(measures, answers, settings)
    asked = spec.metrics or usual(pooled.problem)
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
        folds=folds,
        slices=slices_of(measures, pooled, columns, settings),
        losses=tuple(curve for item in answers for curve in item.losses),
        pictures=pictures(pooled),
        not_computed=tuple(name for name in asked if name not in {item.metric for item in scores}),
    )


def _settings(spec: EvaluateSpec) -> Sampling:
    """How intervals are drawn."""
    return Sampling(resamples=spec.resamples, confidence=spec.confidence_ratio, seed=spec.seed)


def _measures(spec: EvaluateSpec, given: Predictions) -> tuple[Measure, ...]:
    """The wanted metrics that the predictions can give."""
    return available(measures_of(spec.metrics or usual(given.problem), given.problem, "evaluate.metrics"), given)


def _columns(answers: Sequence[Answer]) -> tuple[tuple[str, npt.NDArray[typing.Any]], ...]:
    """The sliced columns of all parts, joined."""
    names = [name for name, _ in answers[0].columns]
    return tuple((name, np.concatenate([dict(item.columns)[name] for item in answers])) for name in names)


def _point(measures: Sequence[Measure], step: Sequence[Answer], spec: EvaluateSpec) -> LearningPoint:
    """One point of the learning curve: the mean over the parts."""
    scores, _ = scores_of(measures, step, _settings(spec))
    seen = [dataclasses.replace(item, predictions=item.on_train) for item in step if item.on_train is not None]
    train_scores, _ = scores_of(measures, seen, dataclasses.replace(_settings(spec), resamples=0))
    return LearningPoint(
        train_rows=round(float(np.mean([item.train_rows for item in step]))), scores=scores, train_scores=train_scores
    )
