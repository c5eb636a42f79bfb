"""The Trainer's callback: metrics, stop requests, and marks of complete checkpoints."""

from __future__ import annotations

import json
import shutil
import time
import typing
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist
import transformers

from gpuyard.learn.memory import peak_bytes
from gpuyard.learn.metrics_log import StepMetrics
from gpuyard.learn.networks.order import Order
from gpuyard.learn.trainer import TrainingContext

COMPLETE = "complete.json"  # in a checkpoint's folder; written last


class RunCallback(transformers.TrainerCallback):  # type: ignore[misc]
    """Connects the Trainer to the run."""

    def __init__(
        self,
        *,
        run: TrainingContext,
        order: Order,
        log_every: int,
        sequence_tokens: int,
        flop_per_step: float,
    ) -> None:
        self.run, self.order, self.log_every = run, order, log_every
        self.sequence_tokens, self.flop_per_step = sequence_tokens, flop_per_step
        self.step_s: list[float] = []
        self.loss: float | None = None
        self.validation_loss: float | None = None
        self.resumed_step: int | None = None
        self.stopped = False
        self._recorded = StepMetrics(step=0)
        self._last = (time.perf_counter(), 0)

    def resumed(self, checkpoint: Path) -> None:
        """Record the checkpoint that training resumes from."""
        self.resumed_step = step_of(checkpoint)
        if self.run.log is not None:
            self.run.log.event("resumed", self.resumed_step)

    def on_train_begin(self, _args: object, state: typing.Any, *_: object, **__: object) -> None:
        self._last = (time.perf_counter(), state.global_step)

    def on_step_end(
        self, _args: object, state: typing.Any, control: typing.Any, **_: object
    ) -> None:
        """Poll for a stop; several processes agree where all of them log."""
        step, world = state.global_step, self.run.ranks.world
        if world > 1 and step % self.log_every:
            return
        if _any_process(self.run.stop(), world) and step < self.order.steps:
            self.stopped = control.should_save = control.should_training_stop = True

    def on_log(
        self,
        _args: object,
        state: typing.Any,
        control: typing.Any,
        logs: dict[str, float] | None = None,
        **_: object,
    ) -> None:
        """Record a line of metrics."""
        step = state.global_step
        if not logs or ("loss" not in logs and "eval_loss" not in logs):
            return  # the summary at the end
        if "eval_loss" in logs:
            self.validation_loss = float(logs["eval_loss"])
            # A line replaces the one of the same step.
            before = self._recorded if self._recorded.step == step else StepMetrics(step=step)
            metrics = replace(before, time_s=0.0, validation_loss=self.validation_loss)
        else:
            began, since = self._last
            step_s = (time.perf_counter() - began) / max(1, step - since)
            self.step_s.append(step_s)
            self.loss = float(logs["loss"])
            samples = self.order.batch / step_s
            metrics = StepMetrics(
                step=step,
                steps=self.order.steps,
                epoch=step / self.order.steps_per_epoch,
                loss=self.loss,
                learning_rate=logs.get("learning_rate"),
                gradient_norm=logs.get("grad_norm"),
                step_s=step_s,
                samples_per_s=samples,
                tokens_per_s=samples * self.sequence_tokens,
                memory_bytes=_memory_bytes(),
                flop_per_s=self.flop_per_step / step_s,
            )
        self._recorded = metrics
        self._restart(step)
        if self.run.ranks.first and self.run.record(metrics):
            control.should_training_stop = True

    def on_save(self, args: typing.Any, state: typing.Any, *_: object, **__: object) -> None:
        """Mark the checkpoint as complete, once every process has written its part."""
        if self.run.ranks.world > 1:
            dist.barrier()
        step = state.global_step
        if self.run.ranks.first:
            folder = Path(args.output_dir) / f"checkpoint-{step}"
            (folder / COMPLETE).write_text(json.dumps({"step": step}), encoding="utf-8")
        self._restart(step)

    def _restart(self, step: int) -> None:
        self._last = (time.perf_counter(), step)


def step_of(checkpoint: Path) -> int:
    """Return the step of a checkpoint's folder."""
    return int(checkpoint.name.rpartition("-")[2])


def last_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint; remove newer ones that a kill left incomplete."""
    for path in sorted(folder.glob("checkpoint-*"), key=step_of, reverse=True):
        if (path / COMPLETE).is_file():
            return path
        shutil.rmtree(path, ignore_errors=True)
    return None


def _memory_bytes() -> float:
    if torch.cuda.is_available():
        return float(torch.cuda.max_memory_allocated())
    return peak_bytes()


def _any_process(flag: bool, world: int) -> bool:
    if world == 1:
        return flag
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    count = torch.tensor([float(flag)], device=device)
    dist.all_reduce(count)
    return bool(count.item() > 0)
