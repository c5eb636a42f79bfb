"""Selection on real trees: reproducible with any workers and interruptions, within limits."""

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

from gpuyard.document.encode import dump_json, load_json
from gpuyard.document.frozen_json import FrozenJson
from gpuyard.errors import ExternalError, Infeasible, InputError
from gpuyard.learn.evaluate.metric_table import metrics_named
from gpuyard.learn.evaluate.pool import open_pool
from gpuyard.learn.evaluate.splits import ArraySplits
from gpuyard.learn.fit import fit_data
from gpuyard.learn.select.choose import choose, violated_limits
from gpuyard.learn.select.footprint import footprint_of
from gpuyard.learn.select.search import SearchOptions, SearchResult, search
from gpuyard.learn.select.select_model import select
from gpuyard.learn.select.selection import Footprint, Selection, Trial
from gpuyard.learn.select.space import read_candidates, train_spec
from gpuyard.learn.select.spec import SelectLimits, SelectSpec
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import TabularData
from gpuyard.registry.bundle import ModelBundle, write_bundle

CANDIDATES = (
    FrozenJson.of({"trees": {"rounds": {"from": 5, "to": 40}, "leaves": {"from": 2, "to": 31}}}),
    FrozenJson.of(
        {"trees": {"rounds": 2, "learning_rate": {"from": 0.001, "to": 0.3, "scale": "log"}}}
    ),
)
SPEC = SelectSpec(metric="roc_auc", candidates=CANDIDATES, trials=10, seed=1)


def tabular_data() -> TabularData:
    x, y = make_classification(300, 8, n_informative=5, random_state=3)
    return TabularData(
        x=x.astype(np.float32),
        y=y,
        names=tuple("abcdefgh"),
        problem="classification",
        classes=("no", "yes"),
    )


def splits() -> ArraySplits:
    """Three folds with a key, so that a search on them can be resumed."""
    own = tabular_data()
    return ArraySplits(
        table=own,
        cuts=tuple(StratifiedKFold(3, shuffle=True, random_state=0).split(own.x, own.y)),
        key="k",
    )


def export(spec: TrainSpec, folder: Path) -> Path:
    """Train on all rows and write a bundle."""
    exported = fit_data(spec, tabular_data()).export(folder)
    write_bundle(
        folder,
        ModelBundle(
            kind=exported.kind,
            trainer="trees",
            inputs=exported.inputs,
            outputs=exported.outputs,
            classes=exported.classes,
        ),
    )
    return folder


def run_search(
    spec: SelectSpec = SPEC,
    storage: Path | None = None,
    workers: int = 1,
    train: TrainSpec | None = None,
) -> SearchResult:
    """Run a search; with more than one worker, all jobs run in processes."""
    metric = metrics_named((spec.metric,), "classification")[0]
    with open_pool(workers, ("numpy",), patience_s=0.0) as pool:
        return search(
            splits(),
            spec,
            read_candidates(spec.candidates),
            metric,
            pool,
            SearchOptions(storage=storage, train=train),
        )


@functools.cache
def uninterrupted() -> SearchResult:
    return run_search()


def test_same_seed_gives_same_trials_with_any_workers(tmp_path: Path) -> None:
    alone = uninterrupted()
    assert run_search(storage=tmp_path / "a.db", workers=2) == alone
    assert run_search(dataclasses.replace(SPEC, seed=2)).trials != alone.trials
    assert [trial.number for trial in alone.trials] == list(range(10))
    assert {trial.state for trial in alone.trials} >= {"complete", "pruned"}
    assert alone.fits_count + alone.fits_saved_count == 30
    assert alone.fits_saved_count > 0
    assert alone.trials[0].parameters[0].value == "16"  # the middle of the range comes first


def test_finished_search_is_not_repeated(tmp_path: Path) -> None:
    first = run_search(storage=tmp_path / "a.db")
    again = run_search(storage=tmp_path / "a.db")
    assert again.trials == first.trials
    assert (again.fits_run_count, first.fits_run_count) == (0, first.fits_count)
    assert (again.fits_count, again.fits_saved_count) == (first.fits_count, first.fits_saved_count)


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_select as own
import importlib
search_module = importlib.import_module("gpuyard.learn.select.search")
fits, real = 0, search_module.trial_value
def counted(job):
    global fits
    fits += 1
    if fits > int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(job)
search_module.trial_value = counted
own.run_search(storage=Path(sys.argv[2]))
"""


@pytest.mark.parametrize("fits", [2, 9])
def test_killed_search_resumes_to_the_same_result(tmp_path: Path, fits: int) -> None:
    script = [
        sys.executable,
        "-c",
        KILLED,
        str(Path(__file__).parent),
        str(tmp_path / "a.db"),
        str(fits),
    ]
    done = subprocess.run(script, check=False, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == -signal.SIGKILL
    resumed = run_search(storage=tmp_path / "a.db")
    assert [trial.parameters for trial in resumed.trials] == [
        trial.parameters for trial in uninterrupted().trials
    ]
    assert [trial.score and trial.score.parts for trial in resumed.trials] == [
        trial.score and trial.score.parts for trial in uninterrupted().trials
    ]
    assert [trial.reason for trial in resumed.trials] == [
        trial.reason for trial in uninterrupted().trials
    ]
    assert resumed.fits_run_count == uninterrupted().fits_count - fits


def test_grid_tries_every_point_once() -> None:
    grid = (FrozenJson.of({"trees": {"rounds": {"of": [5, 20]}, "leaves": {"of": [3, 7, 15]}}}),)
    spec = SelectSpec(metric="log_loss", candidates=grid, search="grid", prune="none")
    trials = run_search(spec).trials
    assert len({trial.label for trial in trials}) == 6
    assert {trial.state for trial in trials} == {"complete"}
    pruned = run_search(dataclasses.replace(spec, prune="halving")).trials
    assert sum(trial.state == "complete" for trial in pruned) == 2  # the better third of six
    best = min(
        (trial for trial in trials if trial.score),
        key=lambda trial: trial.score.value if trial.score else 0,
    )
    assert best.label in {trial.label for trial in pruned if trial.state == "complete"}
    assert "pruned after fold 1 of 3" in next(
        trial.reason for trial in pruned if trial.state == "pruned"
    )


def test_selection_lists_rejected_trials_with_reasons() -> None:
    chosen = select(splits(), SPEC, "classification", export=export, workers=1)
    assert isinstance(chosen, Selection)
    assert chosen.winner == chosen.ranking[0]
    assert chosen.train.trees is not None
    assert chosen.winner.score is not None
    assert all(
        trial.score is not None and trial.score.value <= chosen.winner.score.value
        for trial in chosen.ranking
    )
    assert len(chosen.rejected) == 9
    assert all(rejection.reason for rejection in chosen.rejected)
    assert load_json(dump_json(chosen), Selection) == chosen


def test_limits_are_measured_on_the_exported_bundle() -> None:
    spec = dataclasses.replace(
        SPEC,
        trials=4,
        limits=SelectLimits(latency_s=1.0, memory_bytes=2e9, size_bytes=1e8, cost_usd=5.0),
    )
    chosen = select(
        splits(),
        spec,
        "classification",
        export=export,
        price=lambda measured: 1e6 / measured.rows_per_s,
        workers=1,
    )
    assert isinstance(chosen, Selection)
    measured = chosen.winner.footprint
    assert measured is not None
    assert 0 < measured.latency_s <= measured.latency_p99_s < 1.0
    assert 1e7 < measured.memory_bytes < 2e9
    assert measured.cost_usd == 1e6 / measured.rows_per_s
    infeasible = select(
        splits(),
        dataclasses.replace(spec, limits=SelectLimits(size_bytes=10)),
        "classification",
        export=export,
        workers=1,
    )
    assert isinstance(infeasible, Infeasible)
    assert infeasible.binding == "limits.size"
    assert "above the limit of 10B" in infeasible.what


def trial(number: int, value: float | None, reason: str = "") -> Trial:
    from gpuyard.learn.evaluate.intervals import MetricScore

    return Trial(
        number=number,
        trainer="trees",
        parameters=(),
        train=TrainSpec(),
        reason=reason,
        state="complete" if value is not None else "failed",
        score=None
        if value is None
        else MetricScore(metric="rmse", value=value, parts=(value - 0.01, value + 0.01)),
    )


def footprint(latency_s: float) -> Footprint:
    return Footprint(
        latency_s=latency_s,
        latency_p99_s=latency_s,
        batch_latency_s=latency_s,
        batch_rows=32,
        memory_bytes=1e8,
        size_bytes=1e6,
    )


def test_best_trial_within_the_limits_wins() -> None:
    metric = metrics_named(("rmse",), "regression")[0]
    spec = SelectSpec(metric="rmse", candidates=(), limits=SelectLimits(latency_s=0.004))
    latencies_s = {0: 0.001, 1: 0.009, 2: 0.003}
    trials = [
        trial(0, 0.9),
        trial(1, 0.5),
        trial(2, 0.7),
        trial(3, None, "failed in fold 1: train: no"),
    ]
    chosen = choose(trials, spec, metric, 0.5, lambda one: footprint(latencies_s[one.number]))
    assert not isinstance(chosen, Infeasible)
    assert chosen.winner.number == 2
    assert [(item.number, item.reason) for item in chosen.rejected] == [
        (1, "latency 9ms is above the limit of 4ms"),
        (0, "rmse 0.9, the winner has 0.7"),
        (3, "failed in fold 1: train: no"),
    ]
    assert chosen.against_second is not None
    none = choose(trials[-1:], spec, metric, 0.5, lambda _: footprint(1.0))
    assert isinstance(none, Infeasible)
    assert "failed in fold 1" in none.what
    assert [
        name
        for name, _ in violated_limits(
            SelectLimits(latency_s=1.0, memory_bytes=1.0), footprint(2.0)
        )
    ] == [
        "latency",
        "memory",
    ]


def test_failing_setting_is_rejected_and_the_search_continues() -> None:
    # Early stopping without validation rows.
    wrong = FrozenJson.of({"trees": {"early_stopping": 3, "rounds": {"of": [5]}}})
    spec = SelectSpec(metric="roc_auc", candidates=(CANDIDATES[0], wrong), trials=3)
    trials = run_search(spec).trials
    assert trials[1].state == "failed"
    assert "there are no validation rows" in trials[1].reason
    assert trials[0].state == "complete"


def test_repeated_setting_is_fitted_once(tmp_path: Path) -> None:
    few = (FrozenJson.of({"trees": {"rounds": 5, "leaves": {"of": [3, 7]}}}),)
    spec = SelectSpec(metric="roc_auc", candidates=few, trials=9, prune="none")
    first = run_search(spec, storage=tmp_path / "a.db")
    assert [trial.state for trial in first.trials].count("complete") == 2
    repeated = [trial for trial in first.trials if trial.state == "repeated"]
    assert len(repeated) == 7
    assert all(trial.reason.startswith("the same setting as trial ") for trial in repeated)
    assert (first.fits_count, first.fits_saved_count) == (6, 21)
    assert run_search(spec, storage=tmp_path / "a.db").trials == first.trials


def test_setting_of_the_train_section_is_never_pruned() -> None:
    candidates = read_candidates(SPEC.candidates)
    poor = train_spec(candidates[1], {"learning_rate": 0.001}, seed=SPEC.seed)
    assert run_search().trials[1].state == "pruned"
    trial = run_search(train=poor).trials[1]
    assert [(pair.name, float(pair.value)) for pair in trial.parameters] == [
        ("learning_rate", 0.001)
    ]
    assert trial.state == "complete"


def test_metric_of_another_problem_raises_input_error() -> None:
    with pytest.raises(InputError, match="rmse is a regression metric"):
        select(splits(), dataclasses.replace(SPEC, metric="rmse"), "classification", export=export)


def test_footprint_of_a_folder_without_a_model_raises_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a model"):
        footprint_of(tmp_path)


def test_garbage_in_place_of_the_database_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"no database" * 500)
    with pytest.raises(ExternalError, match=r"a\.db"):
        run_search(storage=tmp_path / "a.db")


@pytest.mark.slow
def test_default_candidates_survive_families_that_cannot_learn_the_data(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 3)).astype(np.float32)
    y = x[:, 0] + rng.normal(scale=0.3, size=150)
    x[::7, 1] = np.nan  # only trees take missing values
    table = TabularData(x=x, y=y, names=("a", "b", "c"), problem="regression")
    cuts = tuple(
        (np.flatnonzero(np.arange(150) % 3 != part), np.flatnonzero(np.arange(150) % 3 == part))
        for part in range(3)
    )

    def export(train: TrainSpec, folder: Path) -> Path:
        done = fit_data(train, table)
        folder.mkdir(parents=True, exist_ok=True)
        exported = done.export(folder)
        assert exported is not None
        write_bundle(
            folder,
            ModelBundle(
                kind="regression", trainer="t", inputs=exported.inputs, outputs=exported.outputs
            ),
        )
        return folder

    chosen = select(
        ArraySplits(table=table, cuts=cuts),
        SelectSpec(metric="rmse", trials=8, limits=SelectLimits()),
        "regression",
        export=export,
        workers=1,
    )
    assert isinstance(chosen, Selection)
    assert chosen.winner.trainer == "trees"
    assert any("values are missing" in rejected.reason for rejected in chosen.rejected)
