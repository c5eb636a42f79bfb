"""The search: batches of trials, fold by fold, in parallel, with pruning.

Idea: the trials of a batch run one fold at a time, and after each fold all of them are pruned
together against the trials so far. Invariant: trials and scores depend on the seed and the batch
size only, not on workers, arrival order or interruptions: every trial has its own sampler seed,
and an interrupted batch replays its saved scores through the same decisions.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpuyard.document.encode import dump_json
from gpuyard.errors import ExternalError, InputError
from gpuyard.learn.evaluate.fold import FoldJob, predict_fold
from gpuyard.learn.evaluate.intervals import MetricScore, fold_score, unweighted
from gpuyard.learn.evaluate.metric_table import MetricDefinition
from gpuyard.learn.evaluate.pool import WorkerPool
from gpuyard.learn.evaluate.splits import EvaluationSplits
from gpuyard.learn.select.prune import is_clearly_worse, surviving_trials
from gpuyard.learn.select.selection import State, Trial
from gpuyard.learn.select.space import TrainerCandidate, Value, train_spec, trained_values
from gpuyard.learn.select.spec import SelectSpec
from gpuyard.learn.select.study import OpenTrial, Study, open_study
from gpuyard.learn.spec import TrainSpec
from gpuyard.registry.bundle import Tag

NEVER = 1_000_000_000
# How the reasons of failed and repeated trials begin; failed ones are read back from the study.
FAILED = "failed"
REPEATED = "the same setting as trial"
MAX_GRID_BATCH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """Settings of a search that do not change which trials are better.

    `train` is the setting of the `train` section; a candidate that contains it starts there.
    """

    storage: Path | None = None  # SQLite file with saved trials, for resuming
    data: str = ""  # version of the prepared data
    on_progress: Callable[[int, int], None] | None = None  # trials done, trials in total
    train: TrainSpec | None = None


NO_OPTIONS = SearchOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialJob:
    """One fold of one trial."""

    number: int
    job: FoldJob
    metric: MetricDefinition


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldValue:
    """The score of one fold of a trial, or why there is none."""

    number: int
    value: float | None
    ratio: float = 0.0  # test rows over training rows
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """All trials of a search, and the number of fits."""

    trials: tuple[Trial, ...]
    fits_count: int  # fits behind the scores
    fits_saved_count: int  # avoided by pruning and by not repeating a setting
    fits_run_count: int  # run now; the others were saved by an interrupted search
    test_over_train: float


def trial_value(job: TrialJob) -> FoldValue:
    """Fit and score one fold; an error rejects the setting and does not stop the search."""
    try:
        fold = predict_fold(job.job)
        value = unweighted(job.metric, fold.predictions)
    except (InputError, ExternalError) as error:
        problem = error.problem if isinstance(error, ExternalError) else error.problems[0]
        return FoldValue(
            number=job.number, value=None, reason=f"{problem.where}: {problem.what}; {problem.fix}"
        )
    ratio = fold.test_rows / fold.train_rows
    if not math.isfinite(value):
        return FoldValue(
            number=job.number,
            value=None,
            ratio=ratio,
            reason=f"{job.metric.name} is not a finite number",
        )
    return FoldValue(number=job.number, value=value, ratio=ratio)


def search_name(spec: SelectSpec, splits: EvaluationSplits, data: str, starts: object) -> str:
    """Return a name that identifies the search and its data, and so what may be resumed."""
    # Finalists and limits only matter after the search.
    searched = dataclasses.replace(spec, finalists=1, limits=type(spec.limits)())
    text = dump_json(searched) + data + f"{splits.key} {splits.count} {starts}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    splits: EvaluationSplits
    spec: SelectSpec
    metric: MetricDefinition
    study: Study
    pool: WorkerPool
    candidates: tuple[TrainerCandidate, ...]
    never_pruned: frozenset[int] = frozenset()  # trials of the `train` section's own setting

    def save(self, result: FoldValue, fold: int) -> None:
        # As soon as a fold is scored, so that a kill loses no completed fit.
        if result.value is None:
            self.study.finish(result.number, "failed", None, _failure(result, fold))
        else:
            self.study.report(result.number, fold, result.value)

    def train_spec(self, trial: OpenTrial) -> TrainSpec:
        # Losses along the way are not logged: a search does not use them.
        spec = train_spec(self.candidates[trial.candidate], dict(trial.values), seed=self.spec.seed)
        return dataclasses.replace(spec, log_every=NEVER)

    def jobs(self, live: Sequence[OpenTrial], fold: int) -> list[TrialJob]:
        return [
            TrialJob(
                number=trial.number,
                job=FoldJob(parts=self.splits, number=fold, train=self.train_spec(trial)),
                metric=self.metric,
            )
            for trial in live
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    values: Mapping[int, dict[int, float]]
    reasons: Mapping[int, str]
    count: int
    metric: MetricDefinition
    ratio: float
    seed: int


def _failure(result: FoldValue, fold: int) -> str:
    return f"{FAILED} in fold {fold + 1}: {result.reason}"


def search(
    splits: EvaluationSplits,
    spec: SelectSpec,
    candidates: tuple[TrainerCandidate, ...],
    metric: MetricDefinition,
    pool: WorkerPool,
    options: SearchOptions = NO_OPTIONS,
) -> SearchResult:
    """Run every trial; the same seed gives the same trials with any workers or interruptions."""
    values: dict[int, dict[int, float]] = {}
    reasons: dict[int, str] = {}
    opened: list[OpenTrial] = []
    first: dict[tuple[int, tuple[tuple[str, Value], ...]], int] = {}  # first trial of a setting
    ratios: list[float] = []
    fits = 0
    trained = [trained_values(candidate, options.train) for candidate in candidates]
    starts = tuple(
        tuple((span.name, span.middle) for span in candidate.spans) if own is None else own
        for candidate, own in zip(candidates, trained, strict=True)
    )
    name = search_name(spec, splits, options.data, starts)
    with open_study(
        spec, candidates, higher=metric.higher, storage=options.storage, name=name, starts=starts
    ) as study:
        begins_at_starts = spec.search != "grid"  # a grid begins at its own first point
        batch = _Batch(
            splits=splits,
            spec=spec,
            metric=metric,
            study=study,
            pool=pool,
            candidates=candidates,
            never_pruned=frozenset(
                number for number, own in enumerate(trained) if own is not None and begins_at_starts
            ),
        )
        size = min(study.total, MAX_GRID_BATCH) if spec.search == "grid" else spec.batch
        for start in range(0, study.total, size):
            trials = [study.open(number) for number in range(start, min(start + size, study.total))]
            fresh = [
                item
                for item in trials
                if first.setdefault(item.setting, item.number) == item.number
            ]
            done, more = _run_batch(batch, fresh, values, reasons)
            for item in trials:
                if first[item.setting] != item.number:
                    _repeat(batch, item, first[item.setting], values, reasons)
            opened += trials
            fits += done
            ratios += more
            if options.on_progress is not None:
                options.on_progress(len(opened), study.total)
        all_fits = study.total * splits.count
    ratio = float(np.mean(ratios)) if ratios else 1.0 / max(1, splits.count - 1)
    outcome = _Outcome(
        values=values,
        reasons=reasons,
        count=splits.count,
        metric=metric,
        ratio=ratio,
        seed=spec.seed,
    )
    used = sum(len(folds) for folds in values.values())
    return SearchResult(
        trials=tuple(_trial(item, candidates, outcome) for item in opened),
        fits_count=used,
        fits_saved_count=all_fits - used,
        fits_run_count=fits,
        test_over_train=ratio,
    )


def _repeat(
    batch: _Batch,
    trial: OpenTrial,
    first: int,
    values: Mapping[int, dict[int, float]],
    reasons: dict[int, str],
) -> None:
    # A repeated setting has the outcome of its first trial.
    folds, reason = values[first], reasons.get(first, "")
    if not trial.done:
        if len(folds) == batch.splits.count:
            batch.study.finish(trial.number, "complete", float(np.mean(list(folds.values()))), "")
        else:
            batch.study.finish(
                trial.number, "failed" if reason.startswith(FAILED) else "pruned", None, reason
            )
    reasons[trial.number] = f"{REPEATED} {first}"


def _run_batch(
    batch: _Batch,
    trials: Sequence[OpenTrial],
    values: dict[int, dict[int, float]],
    reasons: dict[int, str],
) -> tuple[int, list[float]]:
    # Runs the batch fold by fold, with pruning in between; returns the number of fits and their
    # ratios of test to training rows.
    earlier = {number: dict(folds) for number, folds in values.items()}
    live = list(trials)
    fits = 0
    ratios: list[float] = []
    saved = {trial.number: dict(trial.folds) for trial in trials}
    finished = {trial.number for trial in trials if trial.done}
    for trial in trials:
        values[trial.number] = {}
        if trial.done and trial.reason.startswith(FAILED):
            reasons[trial.number] = trial.reason
            live.remove(trial)
    for fold in range(batch.splits.count):
        for trial in [trial for trial in live if fold in saved[trial.number]]:
            values[trial.number][fold] = saved[trial.number][fold]
        jobs = batch.jobs([trial for trial in live if fold not in saved[trial.number]], fold)
        for result in batch.pool.run(trial_value, jobs, functools.partial(batch.save, fold=fold)):
            fits += 1
            if result.value is None:
                reasons[result.number] = _failure(result, fold)
                live = [trial for trial in live if trial.number != result.number]
            else:
                ratios.append(result.ratio)
                values[result.number][fold] = result.value
        if fold + 1 < batch.splits.count:
            live = _prune(batch, live, fold, values, earlier, reasons, finished)
    for trial in live:
        mean = float(np.mean(list(values[trial.number].values())))
        if trial.number not in finished:
            batch.study.finish(trial.number, "complete", mean, "")
    return fits, ratios


def _prune(
    batch: _Batch,
    live: list[OpenTrial],
    fold: int,
    values: Mapping[int, dict[int, float]],
    earlier: Mapping[int, dict[int, float]],
    reasons: dict[int, str],
    finished: set[int],
) -> list[OpenTrial]:
    running = {trial.number: _mean(values[trial.number], fold) for trial in live}
    past = [_mean(folds, fold) for folds in earlier.values() if len(folds) > fold]
    survivors = batch.never_pruned | surviving_trials(
        running, past, rule=batch.spec.prune, higher=batch.metric.higher
    )
    scores = [*running.values(), *past]
    if batch.spec.prune == "median":
        survivors |= _spared(running, values, earlier, fold, higher=batch.metric.higher)
    rule = "median" if batch.spec.prune == "median" else "better third"
    for trial in live:
        if trial.number in survivors:
            continue
        reason = (
            f"pruned after fold {fold + 1} of {batch.splits.count}:"
            f" {batch.metric.name} {running[trial.number]:.6g},"
            f" outside the {rule} of {len(scores)} trials (median {float(np.median(scores)):.6g})"
        )
        reasons[trial.number] = reason
        if trial.number not in finished:
            batch.study.finish(trial.number, "pruned", None, reason)
    return [trial for trial in live if trial.number in survivors]


def _spared(
    running: Mapping[int, float],
    values: Mapping[int, dict[int, float]],
    earlier: Mapping[int, dict[int, float]],
    last: int,
    *,
    higher: bool,
) -> frozenset[int]:
    """Return the trials that are no worse than the best one beyond the noise of the folds."""
    known = [folds for folds in earlier.values() if len(folds) > last]
    known += [values[number] for number in running]
    rows = [[folds[fold] for fold in range(last + 1)] for folds in known]
    best = (max if higher else min)(rows, key=lambda row: float(np.mean(row)))
    return frozenset(
        number
        for number in running
        if not is_clearly_worse(
            [values[number][fold] for fold in range(last + 1)], best, higher=higher
        )
    )


def _mean(folds: Mapping[int, float], last: int) -> float:
    return float(np.mean([folds[fold] for fold in range(last + 1)]))


def _trial(trial: OpenTrial, candidates: Sequence[TrainerCandidate], outcome: _Outcome) -> Trial:
    folds = list(outcome.values.get(trial.number, {}).values())
    reason = outcome.reasons.get(trial.number, "")
    state: State = "complete" if len(folds) == outcome.count else "pruned"
    if reason.startswith((FAILED, REPEATED)):
        state = "failed" if reason.startswith(FAILED) else "repeated"
    score: MetricScore | None = fold_score(outcome.metric, folds, outcome.ratio) if folds else None
    candidate = candidates[trial.candidate]
    return Trial(
        number=trial.number,
        trainer=candidate.trainer,
        state=state,
        score=score,
        reason=reason,
        parameters=tuple(Tag(name=name, value=_text(value)) for name, value in trial.values),
        train=train_spec(candidate, dict(trial.values), seed=outcome.seed),
    )


def _text(value: object) -> str:
    # Reads back as the same value.
    return str(value).lower() if isinstance(value, bool) else str(value)
