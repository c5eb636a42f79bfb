"""One contract for every trainer of tables: fit, predict, export, metrics, checkpoint, resume."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gpuyard.errors import InputError
from gpuyard.learn import StepMetrics, Table, Tokens, Training, TrainSpec, fit_data, trainer_for
from gpuyard.learn.checkpoints import Checkpoints
from gpuyard.learn.metrics_log import MetricsLog, read_events, read_metrics
from gpuyard.learn.spec import Mlp, TorchMlp, Trees
from gpuyard.learn.trainer import Fitted, Run, StoppedError
from gpuyard.learn.training_data import with_validation

PACKAGES = {"trees": "lightgbm", "jax_mlp": "jax", "torch_mlp": "torch"}
NETWORK = {"hidden": 16, "layers": 1, "epochs": 12, "batch": 32, "learning_rate": 0.02}
SPECS = {
    "trees": TrainSpec(trees=Trees(rounds=30, leaves=7, min_rows=5, threads=1), checkpoint_every=10),
    "jax_mlp": TrainSpec(jax_mlp=Mlp(**NETWORK), checkpoint_every=10),  # type: ignore[arg-type]
    "torch_mlp": TrainSpec(torch_mlp=TorchMlp(**NETWORK), checkpoint_every=10),  # type: ignore[arg-type]
}
NAMES = tuple(SPECS)


@pytest.fixture(params=NAMES)
def spec(request: pytest.FixtureRequest, need: Callable[[str], None]) -> TrainSpec:
    need(PACKAGES[request.param])
    return SPECS[request.param]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    log = MetricsLog(path=tmp_path / "metrics.jsonl")
    return Run(log=log, checkpoints=Checkpoints(folder=tmp_path / "checkpoints", log=log), folder=tmp_path)


def exported(fitted: Fitted, folder: Path, rows: np.ndarray) -> dict[str, np.ndarray]:
    """What the exported model gives for some rows."""
    onnxruntime = pytest.importorskip("onnxruntime")
    assert fitted.export(folder) is not None
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"x": rows}), strict=True))


@pytest.mark.parametrize("kind", ["binary", "three"])
def test_classes(spec: TrainSpec, kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    table: Table = request.getfixturevalue(kind)
    assert table.y is not None
    fitted = fit_data(spec, table)
    probabilities = fitted.predict(table.x)
    assert probabilities.shape == (len(table.x), len(table.classes))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-5)
    assert (probabilities.argmax(axis=1) == table.y).mean() > 0.85
    outputs = exported(fitted, tmp_path, table.x)
    np.testing.assert_allclose(outputs["probabilities"], probabilities, atol=1e-5)
    assert np.array_equal(outputs["label"], outputs["probabilities"].argmax(axis=1))


def test_values(spec: TrainSpec, numbers: Table, tmp_path: Path) -> None:
    assert numbers.y is not None
    fitted = fit_data(spec, numbers)
    values = fitted.predict(numbers.x)
    assert values.shape == (len(numbers.x),)
    error = np.square(values - numbers.y).mean()
    assert error < 0.35 * numbers.y.var()
    assert fitted.summary.loss == pytest.approx(error, rel=0.9)  # in the label's own units
    np.testing.assert_allclose(exported(fitted, tmp_path, numbers.x)["value"], values, rtol=1e-5)


def test_metrics_and_summary(spec: TrainSpec, binary: Table, run: Run) -> None:
    fitted = trainer_for(spec).fit(Training(train=binary), run)
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
    assert min(summary.step_s, summary.samples_per_s, summary.memory_bytes, summary.model_flop_per_step) > 0
    assert summary.parameters_count > 0
    assert summary.flop_per_s == pytest.approx(summary.model_flop_per_step / summary.step_s)


def test_the_same_seed_gives_the_same_model(spec: TrainSpec, binary: Table) -> None:
    first, second = (fit_data(spec, binary).predict(binary.x) for _ in range(2))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("name", ["trees", "trees drawn", "jax_mlp", "torch_mlp"])
@pytest.mark.parametrize("patience", [None, 4])
def test_a_stopped_training_goes_on_to_the_same_model(
    name: str, patience: int | None, binary: Table, run: Run, need: Callable[[str], None]
) -> None:
    key = name.split()[0]
    need(PACKAGES[key])
    settings = dataclasses.replace(getattr(SPECS[key], key), early_stopping=patience)
    if name == "trees drawn":  # rows and columns are drawn anew in every round
        settings = dataclasses.replace(
            settings, rounds=70, rows_ratio=0.7, columns_ratio=0.6, early_stopping=patience and 50
        )
    spec = dataclasses.replace(SPECS[key], validation_ratio=0.25 if patience else 0.0, log_every=7, **{key: settings})
    whole = fit_data(spec, binary)
    data = with_validation(Training(train=binary), spec)
    asked = iter([False] * (58 if name == "trees drawn" else 14) + [True])
    with pytest.raises(StoppedError):
        trainer_for(spec).fit(data, dataclasses.replace(run, stop=lambda: next(asked, False)))
    resumed = trainer_for(spec).fit(data, run)
    assert resumed.summary.resumed_step
    assert np.array_equal(resumed.predict(binary.x), whole.predict(binary.x))
    assert resumed.summary.validation_loss == whole.summary.validation_loss
    assert resumed.summary.steps == whole.summary.steps


def test_a_corrupt_checkpoint_falls_back_to_the_one_before(spec: TrainSpec, binary: Table, run: Run) -> None:
    whole = trainer_for(spec).fit(Training(train=binary), run)
    assert run.checkpoints is not None
    assert run.log is not None
    newest = max(run.checkpoints.steps())
    victim = max(
        (run.checkpoints.folder / str(newest)).rglob("*"), key=lambda path: path.stat().st_size * path.is_file()
    )
    victim.write_bytes(victim.read_bytes()[:-9] + b"corrupted")
    again = trainer_for(spec).fit(Training(train=binary), run)
    assert again.summary.resumed_step == run.checkpoints.steps()[-2]
    assert ("corrupt checkpoint", newest) in [event[:2] for event in read_events(run.log.path)]
    assert np.array_equal(again.predict(binary.x), whole.predict(binary.x))


def test_a_finished_training_is_not_done_again(spec: TrainSpec, binary: Table, run: Run) -> None:
    first = trainer_for(spec).fit(Training(train=binary), run)
    second = trainer_for(spec).fit(Training(train=binary), dataclasses.replace(run, log=None))
    assert second.summary.resumed_step == second.summary.steps == first.summary.steps
    assert second.summary.step_s > 0
    assert np.array_equal(first.predict(binary.x), second.predict(binary.x))


def test_early_stopping_gives_the_best_model(spec: TrainSpec, binary: Table) -> None:
    key = next(name for name in NAMES if getattr(spec, name) is not None)
    longer = {"rounds": 400} if key == "trees" else {"epochs": 200}
    settings = dataclasses.replace(getattr(spec, key), early_stopping=5, **longer)
    seen: list[StepMetrics] = []
    patient = dataclasses.replace(spec, validation_ratio=0.3, log_every=1, **{key: settings})
    fitted = fit_data(patient, binary, watch=lambda metrics: bool(seen.append(metrics)))
    losses = [metrics.validation_loss for metrics in seen if metrics.validation_loss is not None]
    assert len(losses) < 200
    assert fitted.summary.validation_loss == min(losses)
    kept = with_validation(Training(train=binary), patient).validation
    assert isinstance(kept, Table)
    assert kept.y is not None
    found = -np.log(fitted.predict(kept.x)[np.arange(len(kept.y)), kept.y]).mean()
    assert found == pytest.approx(min(losses), rel=1e-4)


def test_the_one_who_watches_can_end_it(spec: TrainSpec, binary: Table) -> None:
    fitted = fit_data(spec, binary, watch=lambda metrics: metrics.step >= 20)
    assert fitted.summary.steps == 20
    assert fitted.predict(binary.x).shape == (len(binary.x), 2)


def test_wrong_data_is_named(spec: TrainSpec, binary: Table, tokens: Tokens) -> None:
    with pytest.raises(InputError, match="tokens"):
        fit_data(spec, tokens)
    with pytest.raises(InputError, match="no label"):
        fit_data(spec, dataclasses.replace(binary, y=None))


@pytest.mark.parametrize("name", ["jax_mlp", "torch_mlp"])
def test_gaps_are_named_by_their_column(name: str, binary: Table, need: Callable[[str], None]) -> None:
    need(PACKAGES[name])
    x = binary.x.copy()
    x[3, 2] = np.nan
    with pytest.raises(InputError, match='column "c"'):
        fit_data(SPECS[name], dataclasses.replace(binary, x=x))


def test_both_frameworks_take_the_same_steps(numbers: Table, need: Callable[[str], None]) -> None:
    need("jax")
    need("torch")
    seen: dict[str, list[tuple[float, float]]] = {"jax_mlp": [], "torch_mlp": []}
    settings = {"batch": 40, "accumulate": 2, "weight_decay": 0.1, "clip": 0.5, "warmup": 3, "schedule": "cosine"}
    for name, record in (("jax_mlp", Mlp), ("torch_mlp", TorchMlp)):
        spec = TrainSpec(log_every=1, **{name: record(hidden=8, epochs=4, **settings)})  # type: ignore[arg-type]
        fit_data(spec, numbers, watch=lambda m, name=name: bool(seen[name].append((m.loss, m.gradient_norm))))  # type: ignore[misc]
    first, second = (np.asarray(lines) for lines in seen.values())
    assert first.shape == (16, 2)
    np.testing.assert_allclose(first, second, rtol=2e-4)
