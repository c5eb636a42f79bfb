"""Predict local training and serving, and compare with measurements."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuyard.app.serving_cost import work_of
from gpuyard.datasets.manifest import DatasetManifest
from gpuyard.datasets.prepared import load_prepared
from gpuyard.learn.spec import TrainSpec, trainer_of
from gpuyard.learn.task import TrainResult
from gpuyard.learn.trainers.network_settings import MlpSpec, TransformerSpec
from gpuyard.perf.local.comparison import PredictedVsMeasured, TrainingPrediction
from gpuyard.perf.local.predict import StepPrediction, predict_step
from gpuyard.perf.local.profile import MachineProfile
from gpuyard.perf.local.step_work import (
    LocalStepWork,
    mlp_step_work,
    transformer_step_work,
    trees_step_work,
)


def training_work(
    spec: TrainSpec, manifest: DatasetManifest
) -> tuple[LocalStepWork, int, int] | None:
    """Work per step, number of steps and rows per step; None for a trainer without a model."""
    rows = next((split.rows for split in manifest.splits if split.name == "train"), 0)
    rows -= round(rows * spec.validation_ratio)
    classes = len(manifest.classes)
    if spec.trees is not None:
        trees = spec.trees
        leaves = trees.leaves if trees.depth is None else min(trees.leaves, 2**trees.depth)
        work = trees_step_work(
            rows, len(manifest.features), leaves, classes if classes > 2 else 1, trees.min_rows
        )
        return work, trees.rounds, rows
    network = spec.jax_transformer or spec.torch_transformer
    if network is not None:
        work = transformer_step_work(network.shape, network.batch, manifest.sequence_tokens or 0)
        return work, _steps(network, rows), network.batch
    mlp = spec.jax_mlp or spec.torch_mlp
    if mlp is None:
        return None
    widths = (len(manifest.features), *(mlp.hidden for _ in range(mlp.layers)), classes or 1)
    return mlp_step_work(widths, mlp.batch), _steps(mlp, rows), mlp.batch


def predict_training(
    spec: TrainSpec, data: Path, profile: MachineProfile
) -> TrainingPrediction | None:
    """Predict the training of prepared data on the measured machine."""
    trainer = trainer_of(spec)
    if profile.fit(trainer) is None:
        return None
    modelled = training_work(spec, load_prepared(data).manifest)
    assert modelled is not None, f"{trainer} was measured but is not modelled"
    work, steps, samples = modelled
    return _prediction(trainer, steps, samples, predict_step(work, profile, trainer))


def _steps(spec: MlpSpec | TransformerSpec, rows: int) -> int:
    return spec.steps or spec.epochs * max(1, rows // spec.batch)


def _prediction(trainer: str, steps: int, samples: int, step: StepPrediction) -> TrainingPrediction:
    return TrainingPrediction(
        trainer=trainer,
        steps=steps,
        step_s=step.step_s,
        total_s=step.step_s * steps,
        samples_per_s=samples / step.step_s,
        memory_bytes=step.memory_bytes,
        error_ratio=step.error_ratio,
        parts=(
            ("overhead", step.overhead_s),
            ("matmul", step.matmul_s),
            ("activation memory passes", step.activation_s),
            ("optimizer", step.optimizer_s),
        ),
    )


def predict_serving(
    spec: TrainSpec, features: int, classes: int, profile: MachineProfile
) -> float | None:
    """CPU seconds per one-row request; None where serving was not measured."""
    flop, visits = work_of(spec, features, classes)
    if profile.serving is None or not flop + visits:
        return None
    return profile.serving.cost_s(features, flop, visits)


def compare_training(
    foreseen: TrainingPrediction, result: TrainResult
) -> Sequence[PredictedVsMeasured]:
    """Compare predicted with measured step time and memory."""
    return (
        PredictedVsMeasured(
            name="step time",
            unit="s",
            predicted=foreseen.step_s,
            measured=result.step_s,
            stated_ratio=foreseen.error_ratio,
        ),
        PredictedVsMeasured(
            name="rows per second",
            unit="/s",
            predicted=foreseen.samples_per_s,
            measured=result.samples_per_s,
            stated_ratio=foreseen.error_ratio,
        ),
        PredictedVsMeasured(
            name="memory", unit="B", predicted=foreseen.memory_bytes, measured=result.memory_bytes
        ),
    )
