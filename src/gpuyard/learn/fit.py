"""A training from its task: data in, checkpoints and metrics on the way, result and bundle out."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from gpuyard.document import dump_json
from gpuyard.home import write_whole
from gpuyard.learn.bundle import write_model
from gpuyard.learn.checkpoints import Checkpoints
from gpuyard.learn.metrics_log import MetricsLog, StepMetrics
from gpuyard.learn.ranks import Ranks
from gpuyard.learn.spec import TrainSpec, trainer_of
from gpuyard.learn.task import TrainResult, TrainTask
from gpuyard.learn.trainer import Fitted, Run, Summary, Table, Tokens, Training, trainer_for
from gpuyard.learn.training_data import load_training, with_validation

__all__ = ["fit", "fit_data"]

NEVER: Callable[[], bool] = bool


def fit(task: TrainTask, ranks: Ranks | None = None, stop: Callable[[], bool] = NEVER) -> TrainResult:
    """Trains as the task says, in this process; StoppedError when `stop` said so, after a checkpoint."""
    ranks, began, out = ranks or Ranks(), time.monotonic(), Path(task.out)
    log = MetricsLog(path=out / "metrics.jsonl") if ranks.first else None
    loaded = load_training(task)
    run = Run(
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
        write_whole(out / "result.json", dump_json(result))
    return result


def fit_data(spec: TrainSpec, train: Table | Tokens, *, watch: Callable[[StepMetrics], bool] | None = None) -> Fitted:
    """The model trained on these rows in this process, with no folder: what cross-validation calls for each fold."""
    training = with_validation(Training(train=train), spec)
    return trainer_for(spec).fit(training, Run(watch=watch))


def _result(
    task: TrainTask, summary: Summary, ranks: Ranks, wall_s: float, version: str, bundle: Path | None
) -> TrainResult:
    """The summary with what the task adds to it."""
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
