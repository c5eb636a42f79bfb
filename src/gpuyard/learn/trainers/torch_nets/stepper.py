"""One optimizer step in PyTorch: DDP or FSDP across processes, AdamW, distributed checkpoints."""

from __future__ import annotations

import contextlib
import errno
import typing
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.fsdp import FSDPModule, fully_shard

from gpuyard.errors import ExternalError, InputError, external_error_from
from gpuyard.learn.arrays import Array
from gpuyard.learn.checkpoints import Checkpoints
from gpuyard.learn.networks.weights import Weights, decays
from gpuyard.learn.trainer import TrainingContext
from gpuyard.learn.trainers.network_settings import GradientTrainingSpec, Parallel
from gpuyard.learn.trainers.torch_nets.devices import TorchDevice

Batch = tuple[torch.Tensor, ...]
Rows = Callable[[npt.NDArray[np.intp]], tuple[Array, ...]]
EPSILON = 1e-8
STATE = "state"
NOTES = "notes.json"
FROZEN = StateDictOptions(ignore_frozen_params=True)


class TorchStepper:
    """The model, its optimizer and the step; calling the model returns the mean loss."""

    def __init__(
        self,
        *,
        model: nn.Module,
        rows: Rows,
        validate: Callable[[], float],
        spec: GradientTrainingSpec,
        place: TorchDevice,
        parallel: Parallel = "ddp",
        blocks: typing.Sequence[nn.Module] = (),
        loss_scale: float = 1.0,
    ) -> None:
        self.model = model
        self.rows = rows
        self.validate = validate
        self.spec = spec
        self.place = place
        self.loss_scale = loss_scale
        self.sharded = place.together and parallel == "fsdp"
        model.to(place.device)
        if self.sharded:
            for block in blocks:
                fully_shard(block)
            fully_shard(model)
        self.wrapped: nn.Module = model
        if place.together and not self.sharded:
            ids = [place.device.index] if place.device.type == "cuda" else None
            self.wrapped = nn.parallel.DistributedDataParallel(model, device_ids=ids)
        trained = [(name, value) for name, value in model.named_parameters() if value.requires_grad]
        groups = [
            {
                "params": [value for name, value in trained if decays(name)],
                "weight_decay": spec.weight_decay,
            },
            {"params": [value for name, value in trained if not decays(name)], "weight_decay": 0.0},
        ]
        self.trained = [value for _, value in trained]
        self.optimizer = torch.optim.AdamW(
            [group for group in groups if group["params"]],
            lr=spec.learning_rate,
            betas=(spec.beta1, spec.beta2),
            eps=EPSILON,
        )
        self.best: dict[str, torch.Tensor] | None = None
        self.last: tuple[torch.Tensor, torch.Tensor] | None = None

    def step(self, rows: npt.NDArray[np.intp], learning_rate: float) -> None:
        """Run one optimizer step, without waiting for an asynchronous device."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.model.train()
        self.optimizer.zero_grad()
        total = torch.zeros((), device=self.place.device)
        parts = self.rows(rows)
        for number in range(len(rows)):
            batch = tuple(torch.from_numpy(part[number]).to(self.place.device) for part in parts)
            last = number == len(rows) - 1
            with self._sync_gradients(last), self._precision():
                loss = self.wrapped(*batch) / len(rows)
            with self._sync_gradients(last):
                loss.backward()
            total += loss.detach()
        limit = self.spec.clip if self.spec.clip is not None else float("inf")
        norm = nn.utils.clip_grad_norm_(self.trained, limit)
        self.optimizer.step()
        self.place.after_step()
        self.last = (total, norm)

    def loss(self) -> tuple[float, float]:
        """Return loss and gradient norm of the last step, over all processes."""
        assert self.last is not None
        total, norm = self.last
        full_norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        mean = self.place.sum_of([float(total)])[0] / self.place.ranks.world
        return mean * self.loss_scale, float(full_norm)

    def validation_loss(self) -> float:
        self.model.eval()
        with torch.no_grad():
            return self.validate() * self.loss_scale

    def any_process(self, flag: bool) -> bool:
        """Return True in every process if the flag is set in any of them."""
        return self.place.sum_of([float(flag)])[0] > 0

    def keep_best(self) -> None:
        """Remember the current weights as the best."""
        self.best = self._gathered()

    def weights(self) -> Weights:
        """Return the final weights in every process: the best ones with early stopping."""
        return {
            name: value.float().numpy() for name, value in (self.best or self._gathered()).items()
        }

    def memory_bytes(self) -> float:
        """Return the peak memory in use."""
        return self.place.memory_bytes()

    def save(self, run: TrainingContext, step: int, notes: str) -> None:
        """Save the checkpoint of a step: every process writes its shard, rank 0 seals it."""
        checkpoints, first = run.checkpoints, run.ranks.first
        assert checkpoints is not None
        model, optimizer = get_state_dict(self.model, self.optimizer, options=FROZEN)
        state = {"model": model, "optimizer": optimizer}

        def write_own(folder: Path) -> None:
            (folder / NOTES).write_text(notes, encoding="utf-8")
            if self.best is not None:
                torch.save(self.best, folder / "best.pt")

        def write_shard(folder: Path) -> None:
            try:
                with _quiet():
                    dcp.save(state, checkpoint_id=folder / STATE, no_dist=not self.place.together)
            except dcp.CheckpointException as error:
                raise _cause(error) from error

        def write(folder: Path) -> None:
            write_own(folder)
            write_shard(folder)

        if not self.place.together:
            checkpoints.save(step, write)
            return
        unsealed = checkpoints.unsealed(step)
        # One phase after another: all processes must finish a phase before the next begins.
        self._together(checkpoints, lambda: write_own(checkpoints.begin(step)) if first else None)
        self._together(checkpoints, lambda: write_shard(unsealed))
        self._together(checkpoints, lambda: checkpoints.seal(step) if first else None)

    def _together(self, checkpoints: Checkpoints, write: Callable[[], None]) -> None:
        # If writing fails in one process, all of them raise.
        failed: ExternalError | None = None
        try:
            write()
        except Exception as error:
            failed = external_error_from(error, str(checkpoints.folder), "then resume the run")
            if failed is None:
                raise
        if self.any_process(failed is not None):
            what = failed.problem.what if failed else "another process could not write its shard"
            fix = failed.problem.fix if failed else "see the log of that process"
            raise ExternalError(
                str(checkpoints.folder), f"the checkpoint cannot be written: {what}", fix
            )

    def restore(self, folder: Path) -> str:
        """Load weights and optimizer state from a checkpoint; return the saved loop state."""
        model, optimizer = get_state_dict(self.model, self.optimizer, options=FROZEN)
        state = {"model": model, "optimizer": optimizer}
        try:
            with _quiet():
                dcp.load(state, checkpoint_id=folder / STATE, no_dist=not self.place.together)
        except (dcp.CheckpointException, ValueError, RuntimeError) as error:
            raise InputError.one(
                str(folder),
                f"checkpoint of a different model: {error}",
                "use another folder for this training",
            ) from error
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
            options=StateDictOptions(ignore_frozen_params=True, strict=False),
        )
        if (folder / "best.pt").is_file():
            self.best = torch.load(folder / "best.pt", weights_only=True)
        return (folder / NOTES).read_text(encoding="utf-8")

    def _gathered(self) -> dict[str, torch.Tensor]:
        # All trained weights on the host, gathered from every process.
        options = StateDictOptions(
            full_state_dict=True, cpu_offload=False, ignore_frozen_params=True
        )
        state = get_model_state_dict(self.model, options=options)
        return {
            name: typing.cast(torch.Tensor, value).detach().cpu().clone()
            for name, value in state.items()
        }

    def _sync_gradients(self, sync: bool) -> contextlib.AbstractContextManager[object]:
        # Gradients are exchanged for the last micro-batch only.
        if isinstance(self.model, FSDPModule):
            self.model.set_requires_gradient_sync(sync)
        elif not sync and isinstance(self.wrapped, nn.parallel.DistributedDataParallel):
            return typing.cast(contextlib.AbstractContextManager[object], self.wrapped.no_sync())
        return contextlib.nullcontext()

    def _precision(self) -> contextlib.AbstractContextManager[object]:
        wide = self.spec.precision == "float32"
        context: contextlib.AbstractContextManager[object] = torch.autocast(
            self.place.device.type, dtype=torch.bfloat16, enabled=not wide
        )
        return context


def _cause(error: dcp.CheckpointException) -> Exception:
    # The error of the first process that could not save.
    cause = next(iter(error.failures.values()))[0]
    return cause if isinstance(cause, Exception) else OSError(errno.EIO, str(cause))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    # A single process saves a checkpoint on purpose: no warning.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        yield
