"""The search: batches of trials, fold by fold, over processes; what falls behind is stopped."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpuyard.document import dump_json
from gpuyard.errors import InputError, RefusedError
from gpuyard.learn.evaluate.fold import FoldJob, answer
from gpuyard.learn.evaluate.intervals import Score, fold_score, units_of
from gpuyard.learn.evaluate.measures import Measure
from gpuyard.learn.evaluate.parts import Parts
from gpuyard.learn.evaluate.pool import Pool
from gpuyard.learn.select.prune import going_on
from gpuyard.learn.select.selection import State, Trial
from gpuyard.learn.select.space import Candidate, Value, train_spec, trained_values
from gpuyard.learn.select.spec import SelectSpec
from gpuyard.learn.select.study import OpenTrial, Study, open_study
from gpuyard.learn.spec import TrainSpec
from gpuyard.registry import Pair

__all__ = ["FoldValue", "Found", "TrialJob", "search", "search_name", "trial_value"]

NEVER = 1_000_000_000
FAILED, REPEATED = "failed", "the same setting as trial"  # how reasons begin
MOST_BATCH = 64  # trials of a grid side by side


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialJob:
    """One fold of one trial."""

    number: int
    job: FoldJob
    measure: Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldValue:
    """Its score, or why there is none."""

    number: int
    value: float | None
    ratio: float = 0.0  # test rows over training rows
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All trials of a search, and how many models were fitted for them."""

    trials: tuple[Trial, ...]
    fits_count: int  # that the scores rest on
    fits_saved_count: int  # by stopping early and by not fitting a setting twice
    fits_run_count: int  # now; the others were kept from an interrupted search
    test_over_train: float


def trial_value(job: TrialJob) -> FoldValue:
    """Fits and scores one fold; what goes wrong with a setting is a reason to reject it, not to stop."""
    try:
        found = answer(job.job)
        units = units_of(found.predictions)
        width = units.count if units.of_row is None else len(units.of_row)
        value = float(job.measure.compute(found.predictions, np.ones((1, width)))[0])
    except (InputError, RefusedError) as error:
        problem = error.problem if isinstance(error, RefusedError) else error.problems[0]
        return FoldValue(number=job.number, value=None, reason=f"{problem.where}: {problem.what}; {problem.fix}")
    ratio = found.test_rows / found.train_rows
    if not math.isfinite(value):
        return FoldValue(
            number=job.number, value=None, ratio=ratio, reason=f"{job.measure.name} is not a finite number"
        )
    return FoldValue(number=job.number, value=value, ratio=ratio)


def search_name(spec: SelectSpec, parts: Parts, data: str, starts: object) -> str:
    """A name that is the same only for the same search on the same data: what may be resumed."""
    asked = dataclasses.replace(spec, finalists=1, limits=type(spec.limits)())  # those decide afterwards
    text = dump_json(asked) + data + f"{parts.key} {parts.count} {starts}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """What a batch needs to be run."""

    parts: Parts
    spec: SelectSpec
    measure: Measure
    study: Study
    pool: Pool
    candidates: tuple[Candidate, ...]
    spared: frozenset[int] = frozenset()  # trials that are judged to the end: what is trained anyway

    def keep(self, found: FoldValue, fold: int) -> None:
        """Writes down a score as soon as it is there, so that a kill loses no fit that was done."""
        if found.value is None:
            self.study.finish(found.number, "failed", None, _failure(found, fold))
        else:
            self.study.report(found.number, fold, found.value)

    def quiet(self, trial: OpenTrial) -> TrainSpec:
        """What a trial trains, with no losses on the way: nobody looks at them."""
        spec = train_spec(self.candidates[trial.candidate], dict(trial.values), seed=self.spec.seed)
        return dataclasses.replace(spec, log_every=NEVER)

    def jobs(self, live: Sequence[OpenTrial], fold: int) -> list[TrialJob]:
        """One job for each trial that is still in the race."""
        return [
            TrialJob(
                number=trial.number,
                job=FoldJob(
                    parts=self.parts, number=fold,
                    train=self.quiet(trial),
                ),
                measure=self.measure,
            )
            for trial in live
        ]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What all trials came to."""

    values: Mapping[int, dict[int, float]]
    reasons: Mapping[int, str]
    count: int
    measure: Measure
    ratio: float
    seed: int


def _failure(found: FoldValue, fold: int) -> str:
    """Why a trial has no score."""
    return f"{FAILED} in fold {fold + 1}: {found.reason}"


def search(
    parts: Parts, spec: SelectSpec, candidates: tuple[Candidate, ...], measure: Measure, pool: Pool, *,
    storage: Path | None = None, data: str = "", progress: Callable[[int, int], None] | None = None,
    train: TrainSpec | None = None,
) -> Found:  # fmt: skip
    """Every trial with its folds; the same seed gives the same trials, whatever the workers and interruptions.

    `train` is the setting that is trained anyway: where a candidate holds it, the search begins there.
    """
    told = progress or (lambda _done, _total: None)
    values: dict[int, dict[int, float]] = {}
    reasons: dict[int, str] = {}
    opened: list[OpenTrial] = []
    first: dict[tuple[int, tuple[tuple[str, Value], ...]], int] = {}  # the trial that tried a setting first
    ratios: list[float] = []
    fits = 0
    trained = [trained_values(candidate, train) for candidate in candidates]
    starts = tuple(
        tuple((span.name, span.middle) for span in candidate.spans) if own is None else own
        for candidate, own in zip(candidates, trained, strict=True)
    )
    name = search_name(spec, parts, data, starts)
    with open_study(spec, candidates, higher=measure.higher, storage=storage, name=name, starts=starts) as study:
        first_tried = spec.search != "grid"  # a grid begins at its own first point
        spared = frozenset(number for number, own in enumerate(trained) if own is not None and first_tried)
        batch = _Batch(
            parts=parts, spec=spec, measure=measure, study=study, pool=pool, candidates=candidates, spared=spared
        )  # fmt: skip
        size = min(study.total, MOST_BATCH) if spec.search == "grid" else spec.batch
        for start in range(0, study.total, size):
            trials = [study.open(number) for number in range(start, min(start + size, study.total))]
            fresh = [item for item in trials if first.setdefault(item.setting, item.number) == item.number]
            done, more = _run_batch(batch, fresh, values, reasons)
            for item in trials:
                if first[item.setting] != item.number:
                    _repeat(batch, item, first[item.setting], values, reasons)
            opened, fits, ratios = opened + trials, fits + done, ratios + more
            told(len(opened), study.total)
        whole = study.total * parts.count
    ratio = float(np.mean(ratios)) if ratios else 1.0 / max(1, parts.count - 1)
    outcome = _Outcome(values=values, reasons=reasons, count=parts.count, measure=measure, ratio=ratio, seed=spec.seed)
    used = sum(len(folds) for folds in values.values())
    return Found(
        trials=tuple(_trial(item, candidates, outcome) for item in opened), fits_count=used,
        fits_saved_count=whole - used, fits_run_count=fits, test_over_train=ratio,
    )  # fmt: skip


def _repeat(
    batch: _Batch, trial: OpenTrial, first: int, values: Mapping[int, dict[int, float]], reasons: dict[int, str]
) -> None:
    """Gives a setting that was tried before the outcome that it had then."""
    folds, reason = values[first], reasons.get(first, "")
    if not trial.done:
        if len(folds) == batch.parts.count:
            batch.study.finish(trial.number, "complete", float(np.mean(list(folds.values()))), "")
        else:
            batch.study.finish(trial.number, "failed" if reason.startswith(FAILED) else "pruned", None, reason)
    reasons[trial.number] = f"{REPEATED} {first}"


def _run_batch(
    batch: _Batch, trials: Sequence[OpenTrial], values: dict[int, dict[int, float]], reasons: dict[int, str]
) -> tuple[int, list[float]]:
    """Runs the folds of a batch one by one, stopping trials in between; gives the number of fits and their ratios.

    A batch that was interrupted is played again from its kept scores: the same decisions come out.
    """
    earlier = {number: dict(folds) for number, folds in values.items()}
    live, fits, ratios = list(trials), 0, []
    kept = {trial.number: dict(trial.folds) for trial in trials}
    finished = {trial.number for trial in trials if trial.done}
    for trial in trials:
        values[trial.number] = {}
        if trial.done and trial.reason.startswith(FAILED):
            reasons[trial.number] = trial.reason
            live.remove(trial)
    for fold in range(batch.parts.count):
        for trial in [trial for trial in live if fold in kept[trial.number]]:
            values[trial.number][fold] = kept[trial.number][fold]
        jobs = batch.jobs([trial for trial in live if fold not in kept[trial.number]], fold)
        for found in batch.pool.run(trial_value, jobs, functools.partial(batch.keep, fold=fold)):
            fits += 1
            if found.value is None:
                reasons[found.number] = _failure(found, fold)
                live = [trial for trial in live if trial.number != found.number]
            else:
                ratios.append(found.ratio)
                values[found.number][fold] = found.value
        if fold + 1 < batch.parts.count:
            live = _stopped(batch, live, fold, values, earlier, reasons, finished)
    for trial in live:
        mean = float(np.mean(list(values[trial.number].values())))
        if trial.number not in finished:
            batch.study.finish(trial.number, "complete", mean, "")
    return fits, ratios


def _stopped(
    batch: _Batch, live: list[OpenTrial], fold: int, values: Mapping[int, dict[int, float]],
    earlier: Mapping[int, dict[int, float]], reasons: dict[int, str], finished: set[int],
) -> list[OpenTrial]:  # fmt: skip
    """Ends the trials that fall behind after a fold; gives the others."""
    running = {trial.number: _mean(values[trial.number], fold) for trial in live}
    past = [_mean(folds, fold) for folds in earlier.values() if len(folds) > fold]
    kept = going_on(running, past, rule=batch.spec.prune, higher=batch.measure.higher)
    field, word = [*running.values(), *past], "median" if batch.spec.prune == "median" else "better third"
    kept = kept | batch.spared
    for trial in live:
        if trial.number in kept:
            continue
        middle = float(np.median(field))
        reason = (
            f"stopped after fold {fold + 1} of {batch.parts.count}: {batch.measure.name} {running[trial.number]:.6g},"
            f" outside the {word} of {len(field)} trials (median {middle:.6g})"
        )
        reasons[trial.number] = reason
        if trial.number not in finished:
            batch.study.finish(trial.number, "pruned", None, reason)
    return [trial for trial in live if trial.number in kept]


def _mean(folds: Mapping[int, float], last: int) -> float:
    """The mean over the first folds."""
    return float(np.mean([folds[fold] for fold in range(last + 1)]))


def _trial(trial: OpenTrial, candidates: Sequence[Candidate], outcome: _Outcome) -> Trial:
    """The value of a trial that is over."""
    parts, reason = list(outcome.values.get(trial.number, {}).values()), outcome.reasons.get(trial.number, "")
    state: State = "complete" if len(parts) == outcome.count else "pruned"
    if reason.startswith((FAILED, REPEATED)):
        state = "failed" if reason.startswith(FAILED) else "repeated"
    score: Score | None = fold_score(outcome.measure, parts, outcome.ratio) if parts else None
    candidate = candidates[trial.candidate]
    return Trial(
        number=trial.number, trainer=candidate.trainer, state=state, score=score, reason=reason,
        parameters=tuple(Pair(name=name, value=_words(value)) for name, value in trial.values),
        train=train_spec(candidate, dict(trial.values), seed=outcome.seed),
    )  # fmt: skip


def _words(value: object) -> str:
    """A parameter as text that reads back to the same value."""
    return str(value).lower() if isinstance(value, bool) else str(value)
