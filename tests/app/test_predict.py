"""Predicted training time, memory and serving cost, compared with a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.app.calibrate import add_run_to_profile
from gpuyard.app.measure import PROFILE, read_profile
from gpuyard.app.predict import compare_training, predict_serving, predict_training
from gpuyard.app.serving_cost import work_of
from gpuyard.app.stage_worker import DataResult, load_result, open_run
from gpuyard.errors import ExternalError, InputError
from gpuyard.home import Home
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.task import TrainResult
from gpuyard.learn.trainers.command.command_settings import CommandSpec
from gpuyard.learn.trainers.network_settings import MlpSpec
from gpuyard.learn.trainers.trees.trees_settings import TreesSpec
from gpuyard.perf.local.predict import fit_probes, predict_step
from gpuyard.perf.local.profile import MachineProfile
from gpuyard.perf.local.step_work import trees_step_work

from .pipelines import FinishedRun

TREES = TrainSpec(trees=TreesSpec(rounds=20, leaves=4))


@pytest.mark.slow
def test_parts_of_a_step_add_up(iris: FinishedRun, machine: MachineProfile) -> None:
    data = Path(load_result(open_run(Path(iris.run.folder)), "data", DataResult).folder)
    prediction = predict_training(TREES, data, machine)
    assert prediction is not None
    assert (prediction.trainer, prediction.steps) == ("trees", 20)
    assert sum(part for _, part in prediction.parts) == pytest.approx(prediction.step_s)
    assert prediction.total_s == pytest.approx(20 * prediction.step_s)
    assert prediction.samples_per_s == pytest.approx(120 / prediction.step_s)
    # Three classes: three trees per round, four leaves each, on 120 rows of four features;
    # 40 histogram bins of 16 bytes.
    read = 3 * 120 * ((1 + 2 / 2) * (4 + 12) + 36)
    assert prediction.step_s == pytest.approx(
        2e-5 + 3e-6 * 12 + (2.0 * read + 1.5 * 3 * 4 * 4 * 40 * 16) / 1e10
    )
    assert (
        predict_training(TrainSpec(jax_mlp=MlpSpec(hidden=8, layers=1)), data, machine) is None
    )  # no fit for this trainer


@settings(max_examples=40)
@given(rows=st.integers(10, 10**6), features=st.integers(1, 500), leaves=st.integers(2, 255))
def test_step_time_grows_with_work(
    machine: MachineProfile, rows: int, features: int, leaves: int
) -> None:
    one = predict_step(trees_step_work(rows, features, leaves), machine, "trees")
    assert one.step_s == pytest.approx(
        one.overhead_s + one.matmul_s + one.activation_s + one.optimizer_s
    )
    for more in ((rows * 2, features, leaves), (rows, features + 1, leaves)):
        assert predict_step(trees_step_work(*more), machine, "trees").step_s > one.step_s
    # Leaves without rows are not grown.
    assert (
        predict_step(trees_step_work(rows, features, leaves + 1), machine, "trees").step_s
        >= one.step_s
    )


def test_fit_recovers_constants(machine: MachineProfile) -> None:
    fit = fit_probes(machine, "trees", machine.probes)
    for probe in machine.probes:
        assert predict_step(
            probe.work, replace(machine, fits=(fit,)), "trees"
        ).step_s == pytest.approx(probe.step_s)
    assert fit.error_ratio == 0.05  # the floor: the spread of repeated runs


@pytest.mark.slow
def test_comparison_has_predicted_and_measured_values(
    iris: FinishedRun, machine: MachineProfile
) -> None:
    run = open_run(Path(iris.run.folder))
    prediction = predict_training(TREES, Path(load_result(run, "data", DataResult).folder), machine)
    result = load_result(run, "train", TrainResult)
    assert prediction is not None
    step, rate, memory = compare_training(prediction, result)
    assert (step.name, step.predicted, step.measured) == (
        "step time",
        prediction.step_s,
        result.step_s,
    )
    assert step.error_ratio == pytest.approx(prediction.step_s / result.step_s - 1)
    assert (rate.measured, memory.measured) == (result.samples_per_s, result.memory_bytes)


def test_work_of_request_follows_model() -> None:
    assert work_of(TrainSpec(trees=TreesSpec(rounds=10, leaves=8)), 4, 2) == (0.0, 30.0)
    assert work_of(TrainSpec(trees=TreesSpec(rounds=10, leaves=8)), 4, 3) == (
        0.0,
        90.0,
    )  # a tree for each class
    assert work_of(TrainSpec(jax_mlp=MlpSpec(hidden=8, layers=2)), 4, 3) == (
        2.0 * (4 * 8 + 8 * 8 + 8 * 3),
        0.0,
    )
    assert work_of(TrainSpec(command=CommandSpec(run=("true",))), 4, 2) == (0.0, 0.0)


def test_serving_cost_follows_work(machine: MachineProfile) -> None:
    cost_s = predict_serving(TREES, 4, 3, machine)
    assert cost_s == pytest.approx(1e-4 + 4e-7 + 20 * 3 * np.log2(4) * 1e-8)
    assert predict_serving(TREES, 4, 3, replace(machine, serving=None)) is None
    assert predict_serving(TrainSpec(command=CommandSpec(run=("true",))), 4, 3, machine) is None


@pytest.mark.slow
def test_run_is_added_to_profile_once(
    iris: FinishedRun, measured: Callable[[Home], Home], machine: MachineProfile
) -> None:
    with pytest.raises(ExternalError, match="this machine was not measured"):
        add_run_to_profile(iris.home, "last")
    measured(iris.home)
    try:
        update = add_run_to_profile(iris.home, iris.run.id)
        result = load_result(open_run(Path(iris.run.folder)), "train", TrainResult)
        assert (update.run, update.trainer, update.before.measured) == (
            iris.run.id,
            "trees",
            result.step_s,
        )
        # a point that joins a least-squares fit is never further from it than before
        assert abs(update.after.error_ratio) <= abs(update.before.error_ratio) + 1e-9
        profile = read_profile(iris.home)
        assert len(profile.probes) == len(machine.probes) + 1
        again = add_run_to_profile(iris.home, iris.run.id)
        assert read_profile(iris.home) == profile
        assert again.before == update.after
    finally:
        (iris.home.path / PROFILE).unlink()
    with pytest.raises(InputError, match="not in"):
        add_run_to_profile(iris.home, "zzzzzz")
