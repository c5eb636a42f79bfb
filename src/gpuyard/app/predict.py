"""What this machine will take for a training, said before it, and how far off that was, said after it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuyard.app.capacity import work_of
from gpuyard.datasets import load_prepared
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

__all__ = ["compare_training", "foresee_serving", "foresee_training"]


def foresee_training(spec: TrainSpec, data: Path, profile: LocalProfile) -> Foreseen | None:
    """The training of prepared data on the measured machine; None for a trainer that is not modelled."""
    trainer = trainer_of(spec)
    if profile.fit(trainer) is None:
        return None
    prepared = load_prepared(data)
    rows = next((split.rows for split in prepared.manifest.splits if split.name == "train"), 0)
    rows -= round(rows * spec.validation_ratio)
    if spec.trees is not None:
        outputs = max(1, len(prepared.manifest.classes) if len(prepared.manifest.classes) > 2 else 1)
        work = trees_work(rows, len(prepared.manifest.features), spec.trees.leaves, outputs)
        return _told(trainer, spec.trees.rounds, rows, predict_step(work, profile, trainer))
    network = spec.jax_transformer or spec.torch_transformer
    if network is not None:
        sequence = prepared.manifest.sequence_tokens or 0
        return _gradient(trainer, network, rows, transformer_work(network.shape, network.batch, sequence), profile)
    mlp = spec.jax_mlp or spec.torch_mlp
    assert mlp is not None
    outputs = len(prepared.manifest.classes) or 1
    widths = (len(prepared.manifest.features), *(mlp.hidden for _ in range(mlp.layers)), outputs)
    return _gradient(trainer, mlp, rows, mlp_work(widths, mlp.batch), profile)


def _gradient(trainer: str, spec: Mlp | Network, rows: int, work: Work, profile: LocalProfile) -> Foreseen:
    """A network's training: so many optimiser steps of one batch."""
    steps = spec.steps or spec.epochs * max(1, rows // spec.batch)
    return _told(trainer, steps, spec.batch, predict_step(work, profile, trainer))


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
