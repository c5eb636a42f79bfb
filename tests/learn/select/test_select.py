"""Selection on real trees: the same whatever the workers and interruptions; limits bind; reasons are given."""

from __future__ import annotations

import dataclasses
import functools
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.model_selection import StratifiedKFold

from gpuyard.document import Settings, dump_json, load_json
from gpuyard.errors import Infeasible, InputError
from gpuyard.learn import Table, TrainSpec, fit_data
from gpuyard.learn.evaluate import ArrayParts, measures_of
from gpuyard.learn.evaluate.pool import open_pool
from gpuyard.learn.select import (
    Footprint,
    Limits,
    Selection,
    SelectSpec,
    Trial,
    choose,
    footprint_of,
    read_candidates,
    search,
    select,
)
from gpuyard.learn.select.choose import broken
from gpuyard.learn.select.search import Found
from gpuyard.learn.select.space import train_spec
from gpuyard.registry import Bundle, write_bundle

CANDIDATES = (
    Settings.of({"trees": {"rounds": {"from": 5, "to": 40}, "leaves": {"from": 2, "to": 31}}}),
    Settings.of({"trees": {"rounds": 2, "learning_rate": {"from": 0.001, "to": 0.3, "scale": "log"}}}),
)
SPEC = SelectSpec(metric="roc_auc", candidates=CANDIDATES, trials=10, seed=1)


def table() -> Table:
    """Two classes."""
    x, y = make_classification(300, 8, n_informative=5, random_state=3)
    return Table(x=x.astype(np.float32), y=y, names=tuple("abcdefgh"), problem="classification", classes=("no", "yes"))


def parts() -> ArrayParts:
    """Three folds with a name, so that a search on them can be resumed."""
    own = table()
    return ArrayParts(
        table=own, cuts=tuple(StratifiedKFold(3, shuffle=True, random_state=0).split(own.x, own.y)), key="k"
    )


def export(spec: TrainSpec, folder: Path) -> Path:
    """Trains on all rows."""
    made = fit_data(spec, table()).export(folder)
    write_bundle(
        folder, Bundle(kind=made.kind, trainer="trees", inputs=made.inputs, outputs=made.outputs, classes=made.classes)
    )
    return folder


def found(
    spec: SelectSpec = SPEC, storage: Path | None = None, workers: int = 1, train: TrainSpec | None = None
) -> Found:
    """A search; more than one worker means processes from the first job on."""
    measure = measures_of((spec.metric,), "classification")[0]
    with open_pool(workers, ("numpy",), patience_s=0.0) as pool:
        return search(parts(), spec, read_candidates(spec.candidates), measure, pool, storage=storage, train=train)


@functools.cache
def whole() -> Found:
    """The search as it is when nothing interrupts it."""
    return found()


def test_the_same_seed_gives_the_same_trials_whatever_the_workers(tmp_path: Path) -> None:
    alone = whole()
    assert found(storage=tmp_path / "a.db", workers=2) == alone
    assert found(dataclasses.replace(SPEC, seed=2)).trials != alone.trials
    assert [trial.number for trial in alone.trials] == list(range(10))
    assert {trial.state for trial in alone.trials} >= {"complete", "pruned"}
    assert alone.fits_count + alone.fits_saved_count == 30
    assert alone.fits_saved_count > 0
    assert [trial.parameters[0].value for trial in alone.trials[:1]] == ["16"]  # the middle comes first


def test_a_search_that_is_done_is_not_done_again(tmp_path: Path) -> None:
    first = found(storage=tmp_path / "a.db")
    again = found(storage=tmp_path / "a.db")
    assert again.trials == first.trials
    assert (again.fits_run_count, first.fits_run_count) == (0, first.fits_count)
    assert (again.fits_count, again.fits_saved_count) == (first.fits_count, first.fits_saved_count)


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_select as own
import importlib
room = importlib.import_module("gpuyard.learn.select.search")
fits, real = 0, room.trial_value
def counted(job):
    global fits
    fits += 1
    if fits > int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(job)
room.trial_value = counted
own.found(storage=Path(sys.argv[2]))
"""


@pytest.mark.parametrize("fits", [2, 9])
def test_a_killed_search_goes_on_to_the_same_end(tmp_path: Path, fits: int) -> None:
    script = [sys.executable, "-c", KILLED, str(Path(__file__).parent), str(tmp_path / "a.db"), str(fits)]
    done = subprocess.run(script, check=False, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == -signal.SIGKILL
    resumed = found(storage=tmp_path / "a.db")
    assert [trial.parameters for trial in resumed.trials] == [trial.parameters for trial in whole().trials]
    assert [trial.score and trial.score.parts for trial in resumed.trials] == [
        trial.score and trial.score.parts for trial in whole().trials
    ]
    assert [trial.reason for trial in resumed.trials] == [trial.reason for trial in whole().trials]
    assert resumed.fits_run_count == whole().fits_count - fits


def test_a_grid_tries_every_point_once() -> None:
    grid = (Settings.of({"trees": {"rounds": {"of": [5, 20]}, "leaves": {"of": [3, 7, 15]}}}),)
    spec = SelectSpec(metric="log_loss", candidates=grid, search="grid", prune="none")
    trials = found(spec).trials
    assert len({trial.label for trial in trials}) == 6
    assert {trial.state for trial in trials} == {"complete"}
    pruned = found(dataclasses.replace(spec, prune="halving")).trials
    assert sum(trial.state == "complete" for trial in pruned) == 2  # the better third of six
    best = min((trial for trial in trials if trial.score), key=lambda trial: trial.score.value if trial.score else 0)
    assert best.label in {trial.label for trial in pruned if trial.state == "complete"}
    assert "stopped after fold 1 of 3" in next(trial.reason for trial in pruned if trial.state == "pruned")


def test_a_selection_says_what_it_rejected_and_why() -> None:
    chosen = select(parts(), SPEC, "classification", export=export, workers=1)
    assert isinstance(chosen, Selection)
    assert chosen.winner == chosen.ranking[0]
    assert chosen.train.trees is not None
    assert chosen.winner.score is not None
    assert all(trial.score is not None and trial.score.value <= chosen.winner.score.value for trial in chosen.ranking)
    assert len(chosen.rejected) == 9
    assert all(item.reason for item in chosen.rejected)
    assert load_json(dump_json(chosen), Selection) == chosen


def test_limits_are_measured_on_the_exported_model() -> None:
    spec = dataclasses.replace(
        SPEC, trials=4, limits=Limits(latency_s=1.0, memory_bytes=2e9, size_bytes=1e8, cost_usd=5.0)
    )
    chosen = select(
        parts(), spec, "classification", export=export, price=lambda taken: 1e6 / taken.rows_per_s, workers=1
    )
    assert isinstance(chosen, Selection)
    taken = chosen.winner.footprint
    assert taken is not None
    assert 0 < taken.latency_s <= taken.latency_p99_s < 1.0
    assert 1e7 < taken.memory_bytes < 2e9
    assert taken.cost_usd == 1e6 / taken.rows_per_s
    refused = select(
        parts(), dataclasses.replace(spec, limits=Limits(size_bytes=10)), "classification", export=export, workers=1
    )
    assert isinstance(refused, Infeasible)
    assert refused.binding == "limits.size"
    assert "above the limit of 10B" in refused.what


def trial(number: int, value: float | None, reason: str = "") -> Trial:
    """A trial with that score in both folds."""
    from gpuyard.learn.evaluate import Score

    return Trial(
        number=number, trainer="trees", parameters=(), train=TrainSpec(), reason=reason,
        state="complete" if value is not None else "failed",
        score=None if value is None else Score(metric="rmse", value=value, parts=(value - 0.01, value + 0.01)),
    )  # fmt: skip


def taken(latency_s: float) -> Footprint:
    """A footprint with that latency."""
    return Footprint(
        latency_s=latency_s,
        latency_p99_s=latency_s,
        batch_latency_s=latency_s,
        batch_rows=32,
        memory_bytes=1e8,
        size_bytes=1e6,
    )


def test_the_best_within_the_limits_wins() -> None:
    measure = measures_of(("rmse",), "regression")[0]
    spec = SelectSpec(metric="rmse", candidates=(), limits=Limits(latency_s=0.004))
    slow = {0: 0.001, 1: 0.009, 2: 0.003}
    trials = [trial(0, 0.9), trial(1, 0.5), trial(2, 0.7), trial(3, None, "failed in fold 1: train: no")]
    chosen = choose(trials, spec, measure, 0.5, lambda one: taken(slow[one.number]))
    assert not isinstance(chosen, Infeasible)
    assert chosen.winner.number == 2
    assert [(item.number, item.reason) for item in chosen.rejected] == [
        (1, "latency 9ms is above the limit of 4ms"), (0, "rmse 0.9, the winner has 0.7"), (3, "failed in fold 1: train: no"),
    ]  # fmt: skip
    assert chosen.against_second is not None
    none = choose(trials[-1:], spec, measure, 0.5, lambda _: taken(1.0))
    assert isinstance(none, Infeasible)
    assert "failed in fold 1" in none.what
    assert [name for name, _ in broken(Limits(latency_s=1.0, memory_bytes=1.0), taken(2.0))] == ["latency", "memory"]


def test_a_setting_that_cannot_be_trained_is_rejected_and_the_search_goes_on() -> None:
    wrong = Settings.of({"trees": {"early_stopping": 3, "rounds": {"of": [5]}}})  # there are no validation rows
    spec = SelectSpec(metric="roc_auc", candidates=(CANDIDATES[0], wrong), trials=3)
    trials = found(spec).trials
    assert trials[1].state == "failed"
    assert "there are no validation rows" in trials[1].reason
    assert trials[0].state == "complete"


def test_a_setting_is_fitted_once(tmp_path: Path) -> None:
    few = (Settings.of({"trees": {"rounds": 5, "leaves": {"of": [3, 7]}}}),)
    spec = SelectSpec(metric="roc_auc", candidates=few, trials=9, prune="none")
    first = found(spec, storage=tmp_path / "a.db")
    assert [trial.state for trial in first.trials].count("complete") == 2
    repeated = [trial for trial in first.trials if trial.state == "repeated"]
    assert len(repeated) == 7
    assert all(trial.reason.startswith("the same setting as trial ") for trial in repeated)
    assert (first.fits_count, first.fits_saved_count) == (6, 21)
    assert found(spec, storage=tmp_path / "a.db").trials == first.trials


def test_what_is_trained_anyway_is_judged_to_the_end() -> None:
    candidates = read_candidates(SPEC.candidates)
    poor = train_spec(candidates[1], {"learning_rate": 0.001}, seed=SPEC.seed)
    assert found().trials[1].state == "pruned"
    trial = found(train=poor).trials[1]
    assert [(pair.name, float(pair.value)) for pair in trial.parameters] == [("learning_rate", 0.001)]
    assert trial.state == "complete"


def test_a_metric_of_another_problem_is_refused() -> None:
    with pytest.raises(InputError, match="rmse is a metric of regression"):
        select(parts(), dataclasses.replace(SPEC, metric="rmse"), "classification", export=export)


def test_a_folder_that_is_no_model_is_not_timed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a model"):
        footprint_of(tmp_path)
