"""CPU seconds of one search, three ways: `python bench/selection.py`.

The same rows, the same five folds, the same twelve settings of gradient-boosted trees, accuracy decides. gpuyard
stops settings after a fold that falls behind; scikit-learn's GridSearchCV and Ray Tune run every fold of every
setting. Counted are the CPU seconds of whole process trees, daemons too (control groups, cpuacct), in one run of this
program. All must find the same best score.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np

ROWS, COLUMNS, FOLDS = 6000, 20, 5
GRID = {"leaves": [7, 15, 31, 63], "learning_rate": [0.02, 0.05, 0.1]}
ROUNDS = 200
CPUACCT = Path("/sys/fs/cgroup/cpuacct")


def data() -> tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Rows, answers and folds."""
    from sklearn.datasets import make_classification
    from sklearn.model_selection import StratifiedKFold

    x, y = make_classification(ROWS, COLUMNS, n_informative=10, flip_y=0.1, random_state=0)
    return (
        x.astype(np.float32),
        y,
        list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(x, y)),
    )


def estimator(**settings: object) -> object:
    """scikit-learn's face of the same trees, with the parameters that gpuyard's trainer gives."""
    import lightgbm

    return lightgbm.LGBMClassifier(
        n_estimators=ROUNDS,
        min_child_samples=20,
        min_child_weight=1e-3,
        random_state=0,
        n_jobs=1,
        verbose=-1,
        deterministic=True,
        force_col_wise=True,
        **settings,
    )


def never(spec: object, folder: Path) -> Path:
    """There are no limits, so nothing is exported."""
    raise AssertionError(spec, folder)


def with_gpuyard(prune: Literal["median", "halving"]) -> tuple[float, str]:
    """The search of this project, kept in SQLite as it always is."""
    from gpuyard.document.frozen_json import FrozenJson
    from gpuyard.learn.evaluate.splits import ArraySplits
    from gpuyard.learn.select.search import SearchOptions
    from gpuyard.learn.select.select_model import select
    from gpuyard.learn.select.selection import Selection
    from gpuyard.learn.select.spec import SelectSpec
    from gpuyard.learn.trainer import TabularData

    x, y, cuts = data()
    table = TabularData(
        x=x,
        y=y,
        names=tuple(map(str, range(COLUMNS))),
        problem="classification",
        classes=("0", "1"),
    )
    spans = {name: {"of": values} for name, values in GRID.items()}
    spec = SelectSpec(
        metric="accuracy",
        search="grid",
        prune=prune,
        candidates=(FrozenJson.of({"trees": {"rounds": ROUNDS, **spans}}),),
    )
    with tempfile.TemporaryDirectory() as folder:
        found = select(
            ArraySplits(table=table, cuts=tuple(cuts)),
            spec,
            "classification",
            export=never,
            options=SearchOptions(storage=Path(folder) / "selection.db"),
        )
    assert isinstance(found, Selection)
    assert found.winner.score is not None
    return found.winner.score.value, f"{found.fits_count} fits, {found.winner.label}"


def with_grid_search(jobs: int) -> tuple[float, str]:
    """scikit-learn."""
    from sklearn.model_selection import GridSearchCV

    x, y, cuts = data()
    names = {"leaves": "num_leaves", "learning_rate": "learning_rate"}
    grid = {names[name]: values for name, values in GRID.items()}
    search = GridSearchCV(estimator(), grid, scoring="accuracy", cv=cuts, refit=False, n_jobs=jobs)
    search.fit(x, y)
    return float(
        search.best_score_
    ), f"{len(search.cv_results_['params']) * FOLDS} fits, {search.best_params_}"


def with_tune() -> tuple[float, str]:
    """Ray Tune."""
    import ray
    from ray import tune
    from sklearn.metrics import accuracy_score

    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
    )
    rows = ray.put(data())

    def trial(config: dict[str, object]) -> None:
        """One setting, all folds."""
        x, y, cuts = ray.get(rows)
        scores = []
        for train, test in cuts:
            model = estimator(num_leaves=config["leaves"], learning_rate=config["learning_rate"])
            scores.append(accuracy_score(y[test], model.fit(x[train], y[train]).predict(x[test])))  # type: ignore[attr-defined]
        tune.report({"score": float(np.mean(scores))})

    with tempfile.TemporaryDirectory() as folder:
        tuner = tune.Tuner(
            tune.with_resources(trial, {"cpu": 1}),
            param_space={name: tune.grid_search(values) for name, values in GRID.items()},
            tune_config=tune.TuneConfig(metric="score", mode="max"),
            run_config=tune.RunConfig(storage_path=folder, verbose=0),
        )
        best = tuner.fit().get_best_result()
        ray.shutdown()
    assert best.metrics is not None
    return float(best.metrics["score"]), f"{FOLDS * 12} fits, {best.config}"


WAYS: dict[str, Callable[[], tuple[float, str]]] = {
    "gpuyard, halving": lambda: with_gpuyard("halving"),
    "GridSearchCV, 1 job": lambda: with_grid_search(1),
    "Ray Tune": with_tune,
    "gpuyard, median": lambda: with_gpuyard("median"),
    "GridSearchCV, 2 jobs": lambda: with_grid_search(2),
}


@contextlib.contextmanager
def counted() -> Iterator[tuple[Callable[[], None], Callable[[], float]]]:
    """What puts a new process into a control group of its own, and the CPU seconds of all that ran in it."""
    folder = CPUACCT / f"gpuyard-bench-{os.getpid()}"
    folder.mkdir()
    try:
        yield (
            lambda: (folder / "cgroup.procs").write_text(str(os.getpid())) and None,
            lambda: int((folder / "cpuacct.usage").read_text()) / 1e9,
        )
    finally:
        until = time.monotonic() + 30.0
        while (folder / "cgroup.procs").read_text() and time.monotonic() < until:
            time.sleep(0.1)  # daemons that a way has left take a while to go
        folder.rmdir()


def measured(way: str) -> tuple[float, float, float, str]:
    """CPU seconds, wall seconds, best score and words of one way, in a process of its own."""
    began = time.perf_counter()
    with tempfile.NamedTemporaryFile("r") as out, counted() as (enter, cpu_s):
        subprocess.run(
            [sys.executable, __file__, "--way", way, "--out", out.name],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=enter,
        )
        wall_s = time.perf_counter() - began
        score, words = json.load(out)
        return cpu_s(), wall_s, score, words


def main() -> None:
    """Prints the table; fails where another way is cheaper or finds a better setting."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--way", choices=WAYS)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.way:
        arguments.out.write_text(json.dumps(WAYS[arguments.way]()))
        return
    if not os.access(CPUACCT, os.W_OK):
        sys.exit(
            f"{CPUACCT} is not there or not yours: the CPU time of daemons cannot be counted; run it as root"
        )
    found = {}
    for way in WAYS:
        found[way] = measured(way)
        cpu_s, wall_s, score, words = found[way]
        print(
            f"{way:22s} {cpu_s:7.1f} s CPU {wall_s:7.1f} s wall  best {score:.6f}  {words}",
            flush=True,
        )
    own = found["gpuyard, halving"]
    for way, (cpu_s, _, score, _) in found.items():
        assert abs(score - own[2]) < 1e-9, f"{way} found another best score"
        assert way.startswith("gpuyard") or cpu_s > own[0], f"{way} took less CPU"


if __name__ == "__main__":
    main()
