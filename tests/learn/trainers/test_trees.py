"""Trees: missing values, thresholds, ranking, histogram additions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.errors import InputError
from gpuyard.learn.fit import fit_data
from gpuyard.learn.metrics_log import StepMetrics
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import TabularData
from gpuyard.learn.trainers.trees.trees_settings import TreesSpec

pytestmark = pytest.mark.usefixtures("lightgbm")


@pytest.fixture(scope="session")
def lightgbm(need: Callable[[str], None]) -> None:
    need("lightgbm")
    need("onnxruntime")


def small(**more: object) -> TrainSpec:
    return TrainSpec(trees=TreesSpec(rounds=20, leaves=7, min_rows=5, threads=1, **more))  # type: ignore[arg-type]


def through_onnx(
    table: TabularData, spec: TrainSpec, folder: Path, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    import onnxruntime

    fitted = fit_data(spec, table)
    fitted.export(folder)
    session = onnxruntime.InferenceSession(
        str(folder / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    return fitted.predict(rows), session.run(None, {"x": rows})[0]


@settings(max_examples=200)
@given(st.floats(allow_nan=False), st.floats(width=32, allow_nan=False))
def test_float32_thresholds_split_like_float64_thresholds(threshold: float, x: float) -> None:
    from gpuyard.learn.trainers.trees.onnx_trees import ZERO, threshold32

    seen = 0.0 if abs(x) <= ZERO else x  # as LightGBM takes it
    assert (x <= threshold32(threshold)) == (seen <= threshold)


@pytest.mark.parametrize("gaps", [False, True])
def test_onnx_sends_threshold_and_missing_values_to_the_same_leaves(
    binary: TabularData, gaps: bool, tmp_path: Path
) -> None:
    from gpuyard.learn.trainers.trees.structure import nodes_of

    x = binary.x.copy()
    x[::9, 1] = 0.0
    if gaps:  # columns with missing values in training treat them differently
        x[::7, 0] = np.nan
        x[::5, 2] = np.nan
    table = dataclasses.replace(binary, x=x)
    fitted = fit_data(small(), table)
    splits = [node for node in nodes_of(fitted.booster.dump_model()) if node.feature >= 0]  # type: ignore[attr-defined]
    assert len(splits) > 50
    on = np.repeat(x[1:2], len(splits), axis=0)
    for row, node in enumerate(splits):
        on[row, node.feature] = np.clip(node.value, -1e30, 1e30)
    rows = np.concatenate(
        [x, on, np.full((1, 4), np.nan, dtype=np.float32), np.zeros((1, 4), dtype=np.float32)]
    )
    here, there = through_onnx(table, small(), tmp_path, rows)
    np.testing.assert_allclose(there, here, atol=1e-6)


def test_ranking_orders_rows_by_relevance(three: TabularData, tmp_path: Path) -> None:
    groups = np.random.default_rng(1).permutation(np.repeat(np.arange(16), 10))
    table = dataclasses.replace(three, groups=groups, classes=(), problem="regression")
    here, there = through_onnx(table, small(ranking=True), tmp_path, table.x)
    np.testing.assert_allclose(there, here, atol=1e-5)
    assert table.y is not None
    inside = [
        (here[a] > here[b])
        for group in range(16)
        for a in np.flatnonzero(groups == group)
        for b in np.flatnonzero(groups == group)
        if table.y[a] > table.y[b]
    ]
    assert np.mean(inside) > 0.9
    with pytest.raises(InputError, match="no groups"):
        fit_data(small(ranking=True), three)


def test_histogram_additions_of_a_stump(binary: TabularData) -> None:
    table = dataclasses.replace(binary, x=np.sign(binary.x))
    fitted = fit_data(TrainSpec(trees=TreesSpec(rounds=1, leaves=2, min_rows=1, threads=1)), table)
    counts = [leaf["leaf_count"] for leaf in _leaves(fitted.booster.dump_model())]  # type: ignore[attr-defined]
    assert sum(counts) == 160
    assert fitted.summary.model_flop_per_step == 2 * 4 * (160 + min(counts))
    assert fitted.summary.parameters_count == 2


def _leaves(dump: dict) -> list[dict]:  # type: ignore[type-arg]
    tree = dump["tree_info"][0]["tree_structure"]
    return [tree["left_child"], tree["right_child"]]


def test_early_stopping_without_validation_rows_raises_input_error(binary: TabularData) -> None:
    with pytest.raises(InputError, match="no validation rows"):
        fit_data(small(early_stopping=3), binary)


def test_sampled_trees_end_where_no_leaf_can_be_split_any_more() -> None:
    x = np.concatenate([np.zeros(30), np.ones(30)]).astype(np.float32)[:, None]
    table = TabularData(
        x=x,
        y=x[:, 0].astype(np.int64),
        names=("a",),
        problem="classification",
        classes=("no", "yes"),
    )
    spec = TreesSpec(rounds=2000, learning_rate=0.5, min_rows=5, rows_ratio=0.6, threads=1)
    steps: list[int] = []

    def watch(metrics: StepMetrics) -> bool:
        steps.append(metrics.step)
        return len(steps) > 1000  # it would go on for ever

    fitted = fit_data(TrainSpec(trees=spec), table, watch=watch)
    assert len(steps) < 1000
    assert fitted.summary.steps < 2000
    assert (fitted.predict(x).argmax(axis=1) == table.y).all()
