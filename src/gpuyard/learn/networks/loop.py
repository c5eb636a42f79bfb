"""The loop of every network's training: batches by step, metrics, checkpoints, early stopping, leaving when asked."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
import time
import typing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuyard.learn.metrics_log import StepMetrics
from gpuyard.learn.networks.order import Order, learning_rate
from gpuyard.learn.spec import Gradient, TrainSpec
from gpuyard.learn.trainer import Run, StoppedError, Summary

__all__ = ["Stepper", "Task", "run_steps"]


class Stepper(typing.Protocol):
    """A framework's side of the loop; every method but `step` may wait for the device."""

    def step(self, rows: npt.NDArray[np.intp], learning_rate: float) -> None:
        """Takes one optimiser step on these rows, [accumulate, rows of a micro-batch]."""
        ...

    def loss(self) -> tuple[float, float]:
        """Loss and norm of the gradient of the last step, over all processes."""
        ...

    def validation_loss(self) -> float:
        """Loss on the validation rows."""
        ...

    def agree(self, asked: bool) -> bool:
        """True in every process when any of them was asked."""
        ...

    def save(self, run: Run, step: int, notes: str) -> None:
        """Makes the checkpoint of a step, all processes together."""
        ...

    def restore(self, folder: Path) -> str:
        """Takes weights and optimiser from a checkpoint; gives the notes."""
        ...

    def keep_best(self) -> None:
        """Remembers these weights as the best."""
        ...

    def memory_bytes(self) -> float:
        """The most memory that was in use."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What the loop is told."""

    train: TrainSpec
    gradient: Gradient
    order: Order
    flop_per_step: float  # over all processes
    parameters_count: float
    device: str
    sequence_tokens: int | None = None  # that a language model guesses in one sequence
    patience: int | None = None  # epochs without gain
    has_validation: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Where the loop is: saved as the notes of every checkpoint."""

    step: int = 0
    loss: float = math.nan
    validation_loss: float = math.nan
    best_loss: float = math.inf
    best_epoch: int = 0
    step_s: float = 0.0  # median so far
    over: bool = False  # early stopping, or the one who watches, wants no more


class _Clock:
    """Seconds of a step between two looks at the device; saving and validating do not count."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.began, self.since = time.perf_counter(), 0

    def restart(self, step: int) -> None:
        """Counts from here."""
        self.began, self.since = time.perf_counter(), step

    def lap(self, step: int) -> float:
        """Seconds of a step since the last look."""
        now = time.perf_counter()
        step_s = (now - self.began) / max(1, step - self.since)
        self.seconds.append(step_s)
        self.restart(step)
        return step_s

    @property
    def median_s(self) -> float:
        """Of the laps but the first, which compiles."""
        return statistics.median(self.seconds[1:] or self.seconds or [0.0])


def run_steps(stepper: Stepper, task: Task, run: Run) -> Summary:
    """Trains to the end, from the newest good checkpoint; StoppedError after a checkpoint when asked to leave."""
    state, resumed, clock = Ended(), None, _Clock()
    folder = run.checkpoints.newest() if run.checkpoints else None
    if folder is not None:
        resumed = int(folder.name)
        state = Ended(**json.loads(stepper.restore(folder)))
        if run.log is not None:
            run.log.event("resumed", resumed)
    clock.restart(state.step)
    steps, every = task.order.steps, task.train.checkpoint_every
    while state.step < steps and not state.over:
        step = state.step + 1
        stepper.step(task.order.of(step), learning_rate(task.gradient, step, steps))
        state = dataclasses.replace(state, step=step)
        epoch_ends = task.has_validation and (step % task.order.steps_per_epoch == 0 or step == steps)
        looks = step in (1, steps) or step % task.train.log_every == 0 or epoch_ends
        if looks:
            state = _look(stepper, task, run, state, clock, epoch_ends)
        leaves = _leaves(stepper, run, looks)
        if leaves or step % every == 0 or step == steps or state.over:
            _save(stepper, run, state)
            clock.restart(step)
        if leaves:
            raise StoppedError(f"stopped after step {step} of {steps}; its checkpoint is made")
    return _summary(stepper, task, state, resumed)


def _leaves(stepper: Stepper, run: Run, looks: bool) -> bool:
    """Whether to leave here: one process may whenever it likes, several only when all look."""
    if run.ranks.world == 1:
        return run.stop()
    return looks and stepper.agree(run.stop())


def _look(stepper: Stepper, task: Task, run: Run, state: Ended, clock: _Clock, epoch_ends: bool) -> Ended:
    """Waits for the device, validates at the end of an epoch, and writes a line of metrics."""
    loss, norm = stepper.loss()
    step_s = clock.lap(state.step)
    state = dataclasses.replace(state, loss=loss, step_s=clock.median_s)
    if epoch_ends:
        state = _validate(stepper, task, state)
    samples = task.order.batch / step_s
    tokens = task.sequence_tokens
    metrics = StepMetrics(
        step=state.step,
        steps=task.order.steps,
        epoch=state.step / task.order.steps_per_epoch,
        loss=loss,
        validation_loss=state.validation_loss if epoch_ends else None,
        learning_rate=learning_rate(task.gradient, state.step, task.order.steps),
        gradient_norm=norm,
        step_s=step_s,
        samples_per_s=samples,
        tokens_per_s=None if tokens is None else samples * tokens,
        memory_bytes=stepper.memory_bytes(),
        flop_per_s=task.flop_per_step / step_s,
    )
    if run.ranks.first and run.record(metrics):
        state = dataclasses.replace(state, over=True)
    clock.restart(state.step)
    return state


def _validate(stepper: Stepper, task: Task, state: Ended) -> Ended:
    """The loss on the validation rows, the best weights so far, and whether patience is at its end."""
    loss = stepper.validation_loss()
    epoch = round(state.step / task.order.steps_per_epoch)
    state = dataclasses.replace(state, validation_loss=loss)
    if task.patience is None:
        return state
    if loss < state.best_loss:
        stepper.keep_best()
        return dataclasses.replace(state, best_loss=loss, best_epoch=epoch)
    return dataclasses.replace(state, over=epoch - state.best_epoch >= task.patience)


def _save(stepper: Stepper, run: Run, state: Ended) -> None:
    """Makes the checkpoint of the step, where the run has any."""
    if run.checkpoints is not None:
        stepper.save(run, state.step, json.dumps(dataclasses.asdict(state)))


def _summary(stepper: Stepper, task: Task, state: Ended, resumed: int | None) -> Summary:
    """What it came to."""
    step_s = state.step_s
    samples = task.order.batch / step_s if step_s > 0 else 0.0
    best = state.best_loss if math.isfinite(state.best_loss) else state.validation_loss
    return Summary(
        steps=state.step,
        step_s=step_s,
        samples_per_s=samples,
        tokens_per_s=None if task.sequence_tokens is None else samples * task.sequence_tokens,
        memory_bytes=stepper.memory_bytes(),
        model_flop_per_step=task.flop_per_step,
        parameters_count=task.parameters_count,
        device=task.device,
        loss=state.loss if math.isfinite(state.loss) else None,
        validation_loss=best if math.isfinite(best) else None,
        resumed_step=resumed,
    )
