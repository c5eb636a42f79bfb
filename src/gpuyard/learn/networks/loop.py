"""The training loop of every network: steps, metrics, checkpoints, early stopping, stop requests.

Invariant: the loop's position is LoopState, saved in every checkpoint, and batches are a function
of seed and step (order.py), so that a resumed run continues exactly where it stopped.
"""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
import time
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuyard.learn.metrics_log import StepMetrics
from gpuyard.learn.networks.order import Order, learning_rate
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import StoppedError, TrainingContext, TrainingSummary
from gpuyard.learn.trainers.network_settings import GradientTrainingSpec


class Stepper(typing.Protocol):
    """A framework's side of the loop; every method but `step` may wait for the device."""

    def step(self, rows: npt.NDArray[np.intp], learning_rate: float) -> None:
        """Run one optimizer step on these rows, [accumulate, rows of a micro-batch]."""
        ...

    def loss(self) -> tuple[float, float]:
        """Return loss and gradient norm of the last step, over all processes."""
        ...

    def validation_loss(self) -> float: ...

    def any_process(self, flag: bool) -> bool:
        """Return True in every process if the flag is set in any of them."""
        ...

    def save(self, run: TrainingContext, step: int, notes: str) -> None:
        """Save the checkpoint of a step; all processes call it together."""
        ...

    def restore(self, folder: Path) -> str:
        """Load weights and optimizer state from a checkpoint; return the saved loop state."""
        ...

    def keep_best(self) -> None:
        """Remember the current weights as the best."""
        ...

    def memory_bytes(self) -> float:
        """Return the peak memory in use."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """Settings of the loop."""

    train: TrainSpec
    gradient: GradientTrainingSpec
    order: Order
    flop_per_step: float  # over all processes
    parameters_count: float
    device: str
    sequence_tokens: int | None = None  # predicted tokens per sequence of a language model
    patience: int | None = None  # epochs without improvement
    has_validation: bool = False
    others: Callable[[], tuple[tuple[str, float], ...]] = tuple  # further metrics of the last step


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopState:
    """Position of the loop, saved in every checkpoint."""

    step: int = 0
    loss: float = math.nan
    validation_loss: float = math.nan
    best_loss: float = math.inf
    best_epoch: int = 0
    step_s: float = 0.0  # median so far
    over: bool = False  # ended by early stopping or by `watch`


class _Clock:
    # Time per step between two synchronisations with the device, without saving and validating.
    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.began, self.since = time.perf_counter(), 0

    def restart(self, step: int) -> None:
        self.began, self.since = time.perf_counter(), step

    def lap(self, step: int) -> float:
        now = time.perf_counter()
        step_s = (now - self.began) / max(1, step - self.since)
        self.seconds.append(step_s)
        self.restart(step)
        return step_s

    @property
    def median_s(self) -> float:
        # Without the first lap, which compiles.
        return statistics.median(self.seconds[1:] or self.seconds or [0.0])


def run_steps(stepper: Stepper, config: LoopConfig, run: TrainingContext) -> TrainingSummary:
    """Train from the newest valid checkpoint; raise StoppedError if stopped, after a checkpoint."""
    state = LoopState()
    resumed = None
    clock = _Clock()
    folder = run.checkpoints.newest() if run.checkpoints else None
    if folder is not None:
        resumed = int(folder.name)
        state = LoopState(**json.loads(stepper.restore(folder)))
        if run.log is not None:
            run.log.event("resumed", resumed)
    clock.restart(state.step)
    steps, checkpoint_every = config.order.steps, config.train.checkpoint_every
    while state.step < steps and not state.over:
        step = state.step + 1
        stepper.step(config.order.of(step), learning_rate(config.gradient, step, steps))
        state = dataclasses.replace(state, step=step)
        epoch_ends = config.has_validation and (
            step % config.order.steps_per_epoch == 0 or step == steps
        )
        synchronizes = step in (1, steps) or step % config.train.log_every == 0 or epoch_ends
        if synchronizes:
            state = _synchronize(stepper, config, run, state, clock, epoch_ends)
        stops = _stop_requested(stepper, run, synchronizes)
        if stops or step % checkpoint_every == 0 or step == steps or state.over:
            _save(stepper, run, state)
            clock.restart(step)
        if stops:
            raise StoppedError(f"stopped after step {step} of {steps}; checkpoint saved")
    return _summary(stepper, config, state, resumed)


def _stop_requested(stepper: Stepper, run: TrainingContext, synchronizes: bool) -> bool:
    # A single process may stop after any step, several only where all of them synchronize.
    if run.ranks.world == 1:
        return run.stop()
    return synchronizes and stepper.any_process(run.stop())


def _synchronize(
    stepper: Stepper,
    config: LoopConfig,
    run: TrainingContext,
    state: LoopState,
    clock: _Clock,
    epoch_ends: bool,
) -> LoopState:
    loss, norm = stepper.loss()
    step_s = clock.lap(state.step)
    state = dataclasses.replace(state, loss=loss, step_s=clock.median_s)
    if epoch_ends:
        state = _validate(stepper, config, state)
    samples = config.order.batch / step_s
    tokens = config.sequence_tokens
    metrics = StepMetrics(
        step=state.step,
        steps=config.order.steps,
        epoch=state.step / config.order.steps_per_epoch,
        loss=loss,
        validation_loss=state.validation_loss if epoch_ends else None,
        learning_rate=learning_rate(config.gradient, state.step, config.order.steps),
        gradient_norm=norm,
        step_s=step_s,
        samples_per_s=samples,
        tokens_per_s=None if tokens is None else samples * tokens,
        memory_bytes=stepper.memory_bytes(),
        flop_per_s=config.flop_per_step / step_s,
        others=config.others(),
    )
    if run.ranks.first and run.record(metrics):
        state = dataclasses.replace(state, over=True)
    clock.restart(state.step)
    return state


def _validate(stepper: Stepper, config: LoopConfig, state: LoopState) -> LoopState:
    loss = stepper.validation_loss()
    epoch = round(state.step / config.order.steps_per_epoch)
    state = dataclasses.replace(state, validation_loss=loss)
    if config.patience is None:
        return state
    if loss < state.best_loss:
        stepper.keep_best()
        return dataclasses.replace(state, best_loss=loss, best_epoch=epoch)
    return dataclasses.replace(state, over=epoch - state.best_epoch >= config.patience)


def _save(stepper: Stepper, run: TrainingContext, state: LoopState) -> None:
    if run.checkpoints is not None:
        stepper.save(run, state.step, json.dumps(dataclasses.asdict(state)))


def _summary(
    stepper: Stepper, config: LoopConfig, state: LoopState, resumed: int | None
) -> TrainingSummary:
    step_s = state.step_s
    samples = config.order.batch / step_s if step_s > 0 else 0.0
    best = state.best_loss if math.isfinite(state.best_loss) else state.validation_loss
    return TrainingSummary(
        steps=state.step,
        step_s=step_s,
        samples_per_s=samples,
        tokens_per_s=None if config.sequence_tokens is None else samples * config.sequence_tokens,
        memory_bytes=stepper.memory_bytes(),
        model_flop_per_step=config.flop_per_step,
        parameters_count=config.parameters_count,
        device=config.device,
        loss=state.loss if math.isfinite(state.loss) else None,
        validation_loss=best if math.isfinite(best) else None,
        resumed_step=resumed,
    )
