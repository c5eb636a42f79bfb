"""The contract of tabular trainers: fit, predict, export, metrics, checkpoint, resume."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gpuyard.errors import InputError
from gpuyard.learn.checkpoints import Checkpoints
from gpuyard.learn.fit import fit_data
from gpuyard.learn.metrics_log import MetricsLog, StepMetrics, read_events, read_metrics
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import (
    FittedModel,
    StoppedError,
    TabularData,
    TokenData,
    TrainingContext,
    TrainingInputs,
)
from gpuyard.learn.trainer_list import trainer_for
from gpuyard.learn.trainers.network_settings import MlpSpec
from gpuyard.learn.trainers.torch_nets.torch_settings import TorchMlpSpec
from gpuyard.learn.trainers.trees.trees_settings import TreesSpec
from gpuyard.learn.training_data import with_validation

PACKAGES = {"trees": "lightgbm", "jax_mlp": "jax", "torch_mlp": "torch"}
NETWORK = {"hidden": 16, "layers": 1, "epochs": 12, "batch": 32, "learning_rate": 0.02}
SPECS = {
    "trees": TrainSpec(
        trees=TreesSpec(rounds=30, leaves=7, min_rows=5, threads=1), checkpoint_every=10
    ),
    "jax_mlp": TrainSpec(jax_mlp=MlpSpec(**NETWORK), checkpoint_every=10),  # type: ignore[arg-type]
    "torch_mlp": TrainSpec(torch_mlp=TorchMlpSpec(**NETWORK), checkpoint_every=10),  # type: ignore[arg-type]
}
NAMES = tuple(SPECS)


@pytest.fixture(params=NAMES)
def spec(request: pytest.FixtureRequest, need: Callable[[str], None]) -> TrainSpec:
    need(PACKAGES[request.param])
    return SPECS[request.param]


@pytest.fixture
def run(tmp_path: Path) -> TrainingContext:
    log = MetricsLog(path=tmp_path / "metrics.jsonl")
    return TrainingContext(
        log=log, checkpoints=Checkpoints(folder=tmp_path / "checkpoints", log=log), folder=tmp_path
    )


def exported(fitted: FittedModel, folder: Path, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Outputs of the exported model for some rows."""
    onnxruntime = pytest.importorskip("onnxruntime")
    assert fitted.export(folder) is not None
    session = onnxruntime.InferenceSession(
        str(folder / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"x": rows}), strict=True))


@pytest.mark.parametrize("kind", ["binary", "three"])
def test_classifier_learns_and_its_export_predicts_the_same(
    spec: TrainSpec, kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    table: TabularData = request.getfixturevalue(kind)
    assert table.y is not None
    fitted = fit_data(spec, table)
    probabilities = fitted.predict(table.x)
    assert probabilities.shape == (len(table.x), len(table.classes))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-5)
    assert (probabilities.argmax(axis=1) == table.y).mean() > 0.85
    outputs = exported(fitted, tmp_path, table.x)
    np.testing.assert_allclose(outputs["probabilities"], probabilities, atol=1e-5)
    assert np.array_equal(outputs["label"], outputs["probabilities"].argmax(axis=1))


def test_regressor_learns_and_its_export_predicts_the_same(
    spec: TrainSpec, numbers: TabularData, tmp_path: Path
) -> None:
    assert numbers.y is not None
    fitted = fit_data(spec, numbers)
    values = fitted.predict(numbers.x)
    assert values.shape == (len(numbers.x),)
    error = np.square(values - numbers.y).mean()
    assert error < 0.35 * numbers.y.var()
    assert fitted.summary.loss == pytest.approx(error, rel=0.9)  # in the label's own units
    np.testing.assert_allclose(exported(fitted, tmp_path, numbers.x)["value"], values, rtol=1e-5)


def test_metrics_and_summary_are_reported(
    spec: TrainSpec, binary: TabularData, run: TrainingContext
) -> None:
    fitted = trainer_for(spec).fit(TrainingInputs(train=binary), run)
    assert run.log is not None
    lines = read_metrics(run.log.path)
    assert [line.step for line in lines] == sorted({1, *range(10, fitted.summary.steps + 1, 10)})
    for line in lines:
        assert line.loss is not None
        assert line.step_s
        assert line.samples_per_s
        assert line.memory_bytes
        assert line.steps == fitted.summary.steps
    losses = [line.loss for line in lines if line.loss is not None]
    assert losses[-1] < losses[0]
    summary = fitted.summary
    assert (
        min(
            summary.step_s, summary.samples_per_s, summary.memory_bytes, summary.model_flop_per_step
        )
        > 0
    )
    assert summary.parameters_count > 0
    assert summary.flop_per_s == pytest.approx(summary.model_flop_per_step / summary.step_s)


def test_same_seed_gives_same_model(spec: TrainSpec, binary: TabularData) -> None:
    first, second = (fit_data(spec, binary).predict(binary.x) for _ in range(2))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("name", ["trees", "trees sampled", "jax_mlp", "torch_mlp"])
@pytest.mark.parametrize("patience", [None, 4])
def test_stopped_training_resumes_to_the_same_model(
    name: str,
    patience: int | None,
    binary: TabularData,
    run: TrainingContext,
    need: Callable[[str], None],
) -> None:
    key = name.split()[0]
    need(PACKAGES[key])
    settings = dataclasses.replace(getattr(SPECS[key], key), early_stopping=patience)
    if name == "trees sampled":  # rows and columns are sampled in every round
        settings = dataclasses.replace(
            settings, rounds=70, rows_ratio=0.7, columns_ratio=0.6, early_stopping=patience and 50
        )
    spec = dataclasses.replace(
        SPECS[key], validation_ratio=0.25 if patience else 0.0, log_every=7, **{key: settings}
    )
    uninterrupted = fit_data(spec, binary)
    data = with_validation(TrainingInputs(train=binary), spec)
    stop_requests = iter([False] * (58 if name == "trees sampled" else 14) + [True])
    with pytest.raises(StoppedError):
        trainer_for(spec).fit(
            data, dataclasses.replace(run, stop=lambda: next(stop_requests, False))
        )
    resumed = trainer_for(spec).fit(data, run)
    assert resumed.summary.resumed_step
    assert np.array_equal(resumed.predict(binary.x), uninterrupted.predict(binary.x))
    assert resumed.summary.validation_loss == uninterrupted.summary.validation_loss
    assert resumed.summary.steps == uninterrupted.summary.steps


def test_corrupt_checkpoint_falls_back_to_the_previous_one(
    spec: TrainSpec, binary: TabularData, run: TrainingContext
) -> None:
    uninterrupted = trainer_for(spec).fit(TrainingInputs(train=binary), run)
    assert run.checkpoints is not None
    assert run.log is not None
    newest = max(run.checkpoints.steps())
    victim = max(
        (run.checkpoints.folder / str(newest)).rglob("*"),
        key=lambda path: path.stat().st_size * path.is_file(),
    )
    victim.write_bytes(victim.read_bytes()[:-9] + b"corrupted")
    again = trainer_for(spec).fit(TrainingInputs(train=binary), run)
    assert again.summary.resumed_step == run.checkpoints.steps()[-2]
    assert ("corrupt checkpoint", newest) in [event[:2] for event in read_events(run.log.path)]
    assert np.array_equal(again.predict(binary.x), uninterrupted.predict(binary.x))


def test_finished_training_is_not_repeated(
    spec: TrainSpec, binary: TabularData, run: TrainingContext
) -> None:
    first = trainer_for(spec).fit(TrainingInputs(train=binary), run)
    second = trainer_for(spec).fit(TrainingInputs(train=binary), dataclasses.replace(run, log=None))
    assert second.summary.resumed_step == second.summary.steps == first.summary.steps
    assert second.summary.step_s > 0
    assert np.array_equal(first.predict(binary.x), second.predict(binary.x))


def test_early_stopping_returns_the_best_model(spec: TrainSpec, binary: TabularData) -> None:
    key = next(name for name in NAMES if getattr(spec, name) is not None)
    longer = {"rounds": 400} if key == "trees" else {"epochs": 200}
    settings = dataclasses.replace(getattr(spec, key), early_stopping=5, **longer)
    history: list[StepMetrics] = []
    patient = dataclasses.replace(spec, validation_ratio=0.3, log_every=1, **{key: settings})
    fitted = fit_data(patient, binary, watch=lambda metrics: bool(history.append(metrics)))
    losses = [metrics.validation_loss for metrics in history if metrics.validation_loss is not None]
    assert len(losses) < 200
    assert fitted.summary.validation_loss == min(losses)
    held_out = with_validation(TrainingInputs(train=binary), patient).validation
    assert isinstance(held_out, TabularData)
    assert held_out.y is not None
    loss = -np.log(fitted.predict(held_out.x)[np.arange(len(held_out.y)), held_out.y]).mean()
    assert loss == pytest.approx(min(losses), rel=1e-4)


def test_watch_can_end_training(spec: TrainSpec, binary: TabularData) -> None:
    fitted = fit_data(spec, binary, watch=lambda metrics: metrics.step >= 20)
    assert fitted.summary.steps == 20
    assert fitted.predict(binary.x).shape == (len(binary.x), 2)


def test_unsuitable_data_raises_input_error(
    spec: TrainSpec, binary: TabularData, tokens: TokenData
) -> None:
    with pytest.raises(InputError, match="tokens"):
        fit_data(spec, tokens)
    with pytest.raises(InputError, match="no label"):
        fit_data(spec, dataclasses.replace(binary, y=None))


@pytest.mark.parametrize("name", ["jax_mlp", "torch_mlp"])
def test_missing_values_raise_input_error_with_the_column(
    name: str, binary: TabularData, need: Callable[[str], None]
) -> None:
    need(PACKAGES[name])
    x = binary.x.copy()
    x[3, 2] = np.nan
    with pytest.raises(InputError, match='column "c"'):
        fit_data(SPECS[name], dataclasses.replace(binary, x=x))


def test_jax_and_torch_take_the_same_steps(
    numbers: TabularData, need: Callable[[str], None]
) -> None:
    need("jax")
    need("torch")
    seen: dict[str, list[tuple[float, float]]] = {"jax_mlp": [], "torch_mlp": []}
    settings = {
        "batch": 40,
        "accumulate": 2,
        "weight_decay": 0.1,
        "clip": 0.5,
        "warmup": 3,
        "schedule": "cosine",
    }
    for name, record in (("jax_mlp", MlpSpec), ("torch_mlp", TorchMlpSpec)):
        spec = TrainSpec(log_every=1, **{name: record(hidden=8, epochs=4, **settings)})  # type: ignore[arg-type]
        fit_data(
            spec,
            numbers,
            watch=lambda m, name=name: bool(seen[name].append((m.loss, m.gradient_norm))),
        )  # type: ignore[misc]
    first, second = (np.asarray(lines) for lines in seen.values())
    assert first.shape == (16, 2)
    np.testing.assert_allclose(first, second, rtol=2e-4)
