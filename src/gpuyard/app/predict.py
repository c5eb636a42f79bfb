"""What this machine will take for a training, said before it, and how far off that was, said after it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuyard.app.capacity import work_of
from gpuyard.datasets import Manifest, load_prepared
from gpuyard.learn import TrainResult, TrainSpec, trainer_of
from gpuyard.learn.spec import Mlp, Network
from gpuyard.perf.local import (
    Compared,
    Foreseen,
    LocalProfile,
    Prediction,
    Work,
    mlp_work,
    predict_step,
    transformer_work,
    trees_work,
)

__all__ = ["compare_training", "foresee_serving", "foresee_training", "training_work"]


def training_work(spec: TrainSpec, manifest: Manifest) -> tuple[Work, int, int] | None:
    """What a step of the training does, how many steps there are, and rows of each; None for one not modelled."""
    rows = next((split.rows for split in manifest.splits if split.name == "train"), 0)
    rows -= round(rows * spec.validation_ratio)
    classes = len(manifest.classes)
    if spec.trees is not None:
        trees = spec.trees
        leaves = trees.leaves if trees.depth is None else min(trees.leaves, 2**trees.depth)
        work = trees_work(rows, len(manifest.features), leaves, classes if classes > 2 else 1, trees.min_rows)
        return work, trees.rounds, rows
    network = spec.jax_transformer or spec.torch_transformer
    if network is not None:
        work = transformer_work(network.shape, network.batch, manifest.sequence_tokens or 0)
        return work, _steps(network, rows), network.batch
    mlp = spec.jax_mlp or spec.torch_mlp
    if mlp is None:
        return None
    widths = (len(manifest.features), *(mlp.hidden for _ in range(mlp.layers)), classes or 1)
    return mlp_work(widths, mlp.batch), _steps(mlp, rows), mlp.batch


def foresee_training(spec: TrainSpec, data: Path, profile: LocalProfile) -> Foreseen | None:
    """The training of prepared data on the measured machine; None for a trainer that is not modelled."""
    trainer = trainer_of(spec)
    if profile.fit(trainer) is None:
        return None
    found = training_work(spec, load_prepared(data).manifest)
    assert found is not None, f"{trainer} was measured but is not modelled"
    work, steps, samples = found
    return _told(trainer, steps, samples, predict_step(work, profile, trainer))


def _steps(spec: Mlp | Network, rows: int) -> int:
    """Optimiser steps of one batch."""
    return spec.steps or spec.epochs * max(1, rows // spec.batch)


def _told(trainer: str, steps: int, samples: int, step: Prediction) -> Foreseen:
    """A step's prediction for a whole training."""
    return Foreseen(
        trainer=trainer, steps=steps, step_s=step.step_s, total_s=step.step_s * steps,
        samples_per_s=samples / step.step_s, memory_bytes=step.memory_bytes, error_ratio=step.error_ratio,
        parts=(("overhead", step.overhead_s), ("products", step.product_s), ("activations", step.activation_s),
               ("optimizer", step.optimizer_s)),
    )  # fmt: skip


def foresee_serving(spec: TrainSpec, features: int, classes: int, profile: LocalProfile) -> float | None:
    """CPU seconds of one core for a request of one row; None where serving was not measured or is not modelled."""
    flop, visits = work_of(spec, features, classes)
    if profile.serving is None or not flop + visits:
        return None
    return profile.serving.cost_s(features, flop, visits)


def compare_training(foreseen: Foreseen, result: TrainResult) -> Sequence[Compared]:
    """Predicted and measured, side by side."""
    return (
        Compared(name="step time", unit="s", predicted=foreseen.step_s, measured=result.step_s),
        Compared(name="rows a second", unit="/s", predicted=foreseen.samples_per_s, measured=result.samples_per_s),
        Compared(name="memory", unit="B", predicted=foreseen.memory_bytes, measured=result.memory_bytes),
    )
