"""Trials of a search in an Optuna study, stored in SQLite so that a search can resume."""

from __future__ import annotations

import contextlib
import typing
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpuyard.errors import ExternalError
from gpuyard.learn.select.space import SearchRange, TrainerCandidate, Value, grid_of
from gpuyard.learn.select.spec import SelectSpec

# Random trials before TPE takes over: one in three, at most ten (Optuna's default).
STARTUP_SHARE = 3
MAX_STARTUP = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTrial:
    """A trial's setting, and the scores an interrupted search has saved for it."""

    number: int
    candidate: int
    values: tuple[tuple[str, Value], ...]
    folds: tuple[tuple[int, float], ...] = ()
    done: bool = False
    reason: str = ""

    @property
    def setting(self) -> tuple[int, tuple[tuple[str, Value], ...]]:
        """Candidate and values; trials with the same setting have the same scores."""
        return self.candidate, self.values


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """The trials of one search."""

    optuna: typing.Any
    study: typing.Any
    spec: SelectSpec
    candidates: tuple[TrainerCandidate, ...]
    starts: tuple[tuple[tuple[str, Value], ...], ...]  # first values of each candidate
    grid: tuple[tuple[int, tuple[tuple[str, Value], ...]], ...] = ()

    @property
    def total(self) -> int:
        return len(self.grid) if self.spec.search == "grid" else self.spec.trials

    def open(self, number: int) -> OpenTrial:
        """Return trial `number`: a new one, or as an interrupted search left it."""
        trials = self.study.get_trials(deepcopy=False)
        if number >= len(trials):
            first = self._first(number)
            if first is not None:
                self.study.enqueue_trial(first)
            trials = self.study.get_trials(deepcopy=False)
        waiting = number < len(trials) and trials[number].state.name == "WAITING"
        if number >= len(trials) or waiting:
            self.study.sampler = self._sampler(number)
            trial = self.study.ask()
            assert trial.number == number
            chosen, values = self._suggest(trial)
            return OpenTrial(number=number, candidate=chosen, values=values)
        return self._reopen(trials[number])

    def _reopen(self, frozen: typing.Any) -> OpenTrial:
        # Parameters that a kill left unsuggested are suggested now, from the same seed.
        if frozen.state.name == "RUNNING":
            self.study.sampler = self._sampler(frozen.number)
            chosen, values = self._suggest(self.optuna.trial.Trial(self.study, frozen._trial_id))
        else:
            chosen = (
                0 if len(self.candidates) == 1 else int(str(frozen.params["trainer"]).split()[0])
            )
            values = tuple(
                (span.name, frozen.params[f"{chosen}.{span.name}"])
                for span in self.candidates[chosen].spans
            )
        return OpenTrial(
            number=frozen.number,
            candidate=chosen,
            values=values,
            folds=tuple(sorted(frozen.intermediate_values.items())),
            done=frozen.state.is_finished(),
            reason=str(frozen.user_attrs.get("reason", "")),
        )

    def report(self, number: int, fold: int, value: float) -> None:
        self._trial(number).report(value, step=fold)

    def finish(
        self,
        number: int,
        state: typing.Literal["complete", "pruned", "failed"],
        value: float | None,
        reason: str,
    ) -> None:
        states = self.optuna.trial.TrialState
        if reason:
            self._trial(number).set_user_attr("reason", reason)
        by_name = {"complete": states.COMPLETE, "pruned": states.PRUNED, "failed": states.FAIL}
        self.study.tell(number, value if state == "complete" else None, state=by_name[state])

    def _trial(self, number: int) -> typing.Any:
        return self.optuna.trial.Trial(
            self.study, self.study.get_trials(deepcopy=False)[number]._trial_id
        )

    def _first(self, number: int) -> dict[str, Value] | None:
        # What a trial must try: its grid point, or the first values of its candidate.
        if self.spec.search == "grid":
            chosen, values = self.grid[number]
        elif number < len(self.candidates):
            chosen, values = number, self.starts[number]
        else:
            return None
        return dict(self._named(chosen, values))

    def _named(
        self, chosen: int, values: Sequence[tuple[str, Value]]
    ) -> Iterator[tuple[str, Value]]:
        if len(self.candidates) > 1:
            yield "trainer", self._label(chosen)
        yield from ((f"{chosen}.{name}", value) for name, value in values)

    def _label(self, index: int) -> str:
        return f"{index} {self.candidates[index].trainer}"

    def _suggest(self, trial: typing.Any) -> tuple[int, tuple[tuple[str, Value], ...]]:
        chosen = 0
        if len(self.candidates) > 1:
            labels = [self._label(index) for index in range(len(self.candidates))]
            chosen = labels.index(trial.suggest_categorical("trainer", labels))
        spans = self.candidates[chosen].spans
        return chosen, tuple(
            (span.name, _suggest_one(trial, f"{chosen}.{span.name}", span)) for span in spans
        )

    def _sampler(self, number: int) -> typing.Any:
        # One sampler per trial, so that neither a resume nor the number of workers matters.
        seed = int(np.random.SeedSequence([self.spec.seed, number]).generate_state(1)[0])
        if self.spec.search != "tpe":
            return self.optuna.samplers.RandomSampler(seed=seed)
        startup = min(MAX_STARTUP, max(1, self.spec.trials // STARTUP_SHARE))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self.optuna.exceptions.ExperimentalWarning)
            return self.optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=startup, constant_liar=True
            )


def _suggest_one(trial: typing.Any, name: str, span: SearchRange) -> Value:
    if span.options:
        value: Value = trial.suggest_categorical(name, list(span.options))
    elif span.integer:
        value = int(
            trial.suggest_int(
                name, int(span.low), int(span.high), step=int(span.step or 1), log=span.log
            )
        )
    else:
        value = float(trial.suggest_float(name, span.low, span.high, step=span.step, log=span.log))
    return value


def _opened(optuna: typing.Any, storage: Path) -> typing.Any:
    """Open the database of searches; raise ExternalError if the file is not one."""
    import sqlalchemy

    try:
        return optuna.storages.RDBStorage(
            f"sqlite:///{storage}", engine_kwargs={"connect_args": {"timeout": 30}}
        )
    except (sqlalchemy.exc.SQLAlchemyError, RuntimeError) as error:
        raise ExternalError(
            str(storage),
            f"is not a database of searches: {str(error).splitlines()[0]}",
            "restore it from a backup, or delete it to search again",
        ) from error


@contextlib.contextmanager
def open_study(
    spec: SelectSpec,
    candidates: tuple[TrainerCandidate, ...],
    *,
    higher: bool,
    storage: Path | None,
    name: str,
    starts: tuple[tuple[tuple[str, Value], ...], ...],
) -> Iterator[Study]:
    """Open the search of that name, resumed if the file contains it; in memory without a file."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    grid = []
    if spec.search == "grid":
        for index, candidate in enumerate(candidates):
            grid += [(index, tuple(values.items())) for values in grid_of(candidate)]
    database = None
    if storage is not None:
        storage.parent.mkdir(parents=True, exist_ok=True)
        database = _opened(optuna, storage)
    direction = "maximize" if higher else "minimize"
    try:
        study = optuna.create_study(
            study_name=name, storage=database, direction=direction, load_if_exists=True
        )
        yield Study(
            optuna=optuna,
            study=study,
            spec=spec,
            candidates=candidates,
            starts=starts,
            grid=tuple(grid),
        )
    finally:
        if database is not None:
            database.remove_session()
            database.engine.dispose()
