"""What a training will take, what it took, and what the next prediction learns from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.app.calibrate import fold_run
from gpuyard.app.capacity import work_of
from gpuyard.app.measure import PROFILE, read_profile
from gpuyard.app.predict import compare_training, foresee_serving, foresee_training
from gpuyard.app.stage import Prepared, load_result, open_run
from gpuyard.errors import InputError, RefusedError
from gpuyard.home import Home
from gpuyard.learn import TrainResult, TrainSpec
from gpuyard.learn.spec import Command, Mlp, Trees
from gpuyard.perf.local import LocalProfile, fit_probes, predict_step, trees_work

from .small import Done

TREES = TrainSpec(trees=Trees(rounds=20, leaves=4))


def test_the_parts_of_a_step_add_up(iris: Done, machine: LocalProfile) -> None:
    data = Path(load_result(open_run(Path(iris.run.folder)), "data", Prepared).folder)
    found = foresee_training(TREES, data, machine)
    assert found is not None
    assert (found.trainer, found.steps) == ("trees", 20)
    assert sum(part for _, part in found.parts) == pytest.approx(found.step_s)
    assert found.total_s == pytest.approx(20 * found.step_s)
    assert found.samples_per_s == pytest.approx(120 / found.step_s)
    # three classes: three trees a round, each of four leaves on 120 rows of four features, 40 bins of 16 bytes each
    read = 3 * 120 * ((1 + 2 / 2) * (4 + 12) + 36)
    assert found.step_s == pytest.approx(2e-5 + 3e-6 * 12 + (2.0 * read + 1.5 * 3 * 4 * 4 * 40 * 16) / 1e10)
    assert foresee_training(TrainSpec(jax_mlp=Mlp(hidden=8, layers=1)), data, machine) is None  # not tried here


@settings(max_examples=40)
@given(rows=st.integers(10, 10**6), features=st.integers(1, 500), leaves=st.integers(2, 255))
def test_more_work_is_never_faster(machine: LocalProfile, rows: int, features: int, leaves: int) -> None:
    one = predict_step(trees_work(rows, features, leaves), machine, "trees")
    assert one.step_s == pytest.approx(one.overhead_s + one.product_s + one.activation_s + one.optimizer_s)
    for more in ((rows * 2, features, leaves), (rows, features + 1, leaves)):
        assert predict_step(trees_work(*more), machine, "trees").step_s > one.step_s
    # more leaves are not grown where the rows do not fill them
    assert predict_step(trees_work(rows, features, leaves + 1), machine, "trees").step_s >= one.step_s


def test_the_constants_are_found_again(machine: LocalProfile) -> None:
    found = fit_probes(machine, "trees", machine.probes)
    for probe in machine.probes:
        assert predict_step(probe.work, replace(machine, fits=(found,)), "trees").step_s == pytest.approx(probe.step_s)
    assert found.error_ratio == 0.05  # the floor: repeated runs differ by as much


def test_predicted_beside_measured(iris: Done, machine: LocalProfile) -> None:
    run = open_run(Path(iris.run.folder))
    found = foresee_training(TREES, Path(load_result(run, "data", Prepared).folder), machine)
    result = load_result(run, "train", TrainResult)
    assert found is not None
    step, rate, memory = compare_training(found, result)
    assert (step.name, step.predicted, step.measured) == ("step time", found.step_s, result.step_s)
    assert step.error_ratio == pytest.approx(found.step_s / result.step_s - 1)
    assert (rate.measured, memory.measured) == (result.samples_per_s, result.memory_bytes)


def test_work_of_a_request() -> None:
    assert work_of(TrainSpec(trees=Trees(rounds=10, leaves=8)), 4, 2) == (0.0, 30.0)
    assert work_of(TrainSpec(trees=Trees(rounds=10, leaves=8)), 4, 3) == (0.0, 90.0)  # a tree for each class
    assert work_of(TrainSpec(jax_mlp=Mlp(hidden=8, layers=2)), 4, 3) == (2.0 * (4 * 8 + 8 * 8 + 8 * 3), 0.0)
    assert work_of(TrainSpec(command=Command(run=("true",))), 4, 2) == (0.0, 0.0)


def test_the_cost_of_a_request_follows_its_work(machine: LocalProfile) -> None:
    cost_s = foresee_serving(TREES, 4, 3, machine)
    assert cost_s == pytest.approx(1e-4 + 4e-7 + 20 * 3 * np.log2(4) * 1e-8)
    assert foresee_serving(TREES, 4, 3, replace(machine, serving=None)) is None
    assert foresee_serving(TrainSpec(command=Command(run=("true",))), 4, 3, machine) is None


def test_a_run_is_folded_back_once(iris: Done, measured: Callable[[Home], Home], machine: LocalProfile) -> None:
    with pytest.raises(RefusedError, match="this machine was not measured"):
        fold_run(iris.home, "last")
    measured(iris.home)
    try:
        found = fold_run(iris.home, iris.run.id)
        result = load_result(open_run(Path(iris.run.folder)), "train", TrainResult)
        assert (found.run, found.trainer, found.before.measured) == (iris.run.id, "trees", result.step_s)
        # a point that joins a least-squares fit is never further from it than before
        assert abs(found.after.error_ratio) <= abs(found.before.error_ratio) + 1e-9
        learned = read_profile(iris.home)
        assert len(learned.probes) == len(machine.probes) + 1
        again = fold_run(iris.home, iris.run.id)
        assert read_profile(iris.home) == learned
        assert again.before == found.after
    finally:
        (iris.home.path / PROFILE).unlink()
    with pytest.raises(InputError, match="not in"):
        fold_run(iris.home, "zzzzzz")
