"""Run a training task: data in, checkpoints and metrics on the way, result and bundle out."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from gpuyard.document.encode import dump_json
from gpuyard.home import write_atomic
from gpuyard.learn.bundle import write_model
from gpuyard.learn.checkpoints import Checkpoints
from gpuyard.learn.metrics_log import MetricsLog, StepMetrics
from gpuyard.learn.ranks import Ranks
from gpuyard.learn.spec import TrainSpec, trainer_of
from gpuyard.learn.task import TrainResult, TrainTask
from gpuyard.learn.trainer import (
    FittedModel,
    LearningData,
    TrainingContext,
    TrainingInputs,
    TrainingSummary,
)
from gpuyard.learn.trainer_list import trainer_for
from gpuyard.learn.training_data import load_training, with_validation

NEVER: Callable[[], bool] = bool


def fit(
    task: TrainTask, ranks: Ranks | None = None, stop: Callable[[], bool] = NEVER
) -> TrainResult:
    """Train in this process; raise StoppedError after a checkpoint when `stop` returns True."""
    began = time.monotonic()
    ranks = ranks or Ranks()
    out = Path(task.out)
    log = MetricsLog(path=out / "metrics.jsonl") if ranks.first else None
    loaded = load_training(task)
    run = TrainingContext(
        ranks=ranks,
        log=log,
        checkpoints=Checkpoints(folder=out / "checkpoints", log=log),
        stop=stop,
        folder=out,
    )
    fitted = trainer_for(task.train).fit(loaded.training, run)
    bundle = write_model(fitted, task, loaded) if task.export and ranks.first else None
    result = _result(task, fitted.summary, ranks, time.monotonic() - began, loaded.version, bundle)
    if ranks.first:
        write_atomic(out / "result.json", dump_json(result))
    return result


def fit_data(
    spec: TrainSpec,
    train: LearningData,
    *,
    validation: LearningData | None = None,
    watch: Callable[[StepMetrics], bool] | None = None,
) -> FittedModel:
    """Train on these rows in this process, without a task folder; cross-validation uses it."""
    training = with_validation(TrainingInputs(train=train, validation=validation), spec)
    return trainer_for(spec).fit(training, TrainingContext(watch=watch))


def _result(
    task: TrainTask,
    summary: TrainingSummary,
    ranks: Ranks,
    wall_s: float,
    version: str,
    bundle: Path | None,
) -> TrainResult:
    return TrainResult(
        name=task.name,
        trainer=trainer_of(task.train),
        steps=summary.steps,
        step_s=summary.step_s,
        samples_per_s=summary.samples_per_s,
        tokens_per_s=summary.tokens_per_s,
        memory_bytes=summary.memory_bytes,
        model_flop_per_step=summary.model_flop_per_step,
        flop_per_s=summary.flop_per_s,
        parameters_count=summary.parameters_count,
        device=summary.device,
        world=ranks.world,
        seed=task.train.seed,
        wall_s=wall_s,
        loss=summary.loss,
        validation_loss=summary.validation_loss,
        resumed_step=summary.resumed_step,
        data_version=version,
        bundle=None if bundle is None else str(bundle),
    )
