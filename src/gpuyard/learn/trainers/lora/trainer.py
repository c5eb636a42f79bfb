"""The trainer: adapters learn, everything else is frozen."""

from __future__ import annotations

import copy
import shutil
import typing
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from gpuyard.catalog import read_config
from gpuyard.errors import InputError
from gpuyard.learn.arrays import Array, Hits
from gpuyard.learn.networks.flops import transformer_flop
from gpuyard.learn.networks.llama import language_model
from gpuyard.learn.networks.loop import Task, run_steps
from gpuyard.learn.networks.order import order_of
from gpuyard.learn.networks.tables import tokens_of
from gpuyard.learn.spec import Lora, TrainSpec
from gpuyard.learn.trainer import Exported, Run, Summary, Tokens, Training
from gpuyard.learn.trainers.lora.adapters import adapt, merge, save_adapters
from gpuyard.learn.trainers.torch_nets.devices import place_of
from gpuyard.learn.trainers.torch_nets.stepper import TorchStepper
from gpuyard.learn.trainers.torch_nets.transformer import surprises
from gpuyard.registry import WEIGHTS

__all__ = ["LoraTrainer", "make"]

WHERE = "train: lora"
# Beside the weights, what a server needs of the base.
COPIED = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
)


class Causal(nn.Module):  # type: ignore[misc]
    """A language model that, called with token numbers, gives the mean loss."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def nats(self, ids: torch.Tensor) -> torch.Tensor:
        """The surprise at every token but the first, [batch, sequence - 1]."""
        logits = self._logits(ids)
        return functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")

    def guessed(self, ids: torch.Tensor) -> torch.Tensor:
        """Whether the likeliest token was the right one, of every token but the first."""
        return self._logits(ids).argmax(dim=-1) == ids[:, 1:]

    def _logits(self, ids: torch.Tensor) -> torch.Tensor:
        """What every token but the first is held for."""
        logits: torch.Tensor = self.model(input_ids=ids[:, :-1], use_cache=False).logits.float()
        return logits

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """The mean loss."""
        return self.nats(ids).mean()


class LoraTrainer:
    """The trainer."""

    def __init__(self, train: TrainSpec, spec: Lora) -> None:
        self.train, self.spec = train, spec

    def fit(self, data: Training, run: Run) -> FittedLora:
        """The model with trained adapters."""
        spec, tokens = self.spec, tokens_of(data.train, WHERE)
        model = load(Path(spec.base))
        vocab = int(model.config.vocab_size)
        if vocab < tokens.vocab:
            raise InputError.one(
                f"{WHERE}: base", f"knows {vocab} tokens and the data have {tokens.vocab}", "use the base's tokenizer"
            )
        place = place_of(spec.device, run.ranks)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        trained = adapt(model, spec, self.train.seed)
        causal = Causal(model)
        order = order_of(spec, rows=len(tokens), seed=self.train.seed, part=run.ranks.rank, parts=run.ranks.world)

        def validate() -> float:
            """The loss on the validation rows."""
            assert data.validation is not None
            kept = tokens_of(data.validation, "train: validation")
            return float(surprises(causal.nats, kept.of, len(kept), place.device).mean())

        stepper = TorchStepper(
            model=causal, rows=lambda rows: (tokens.of(rows).astype(np.int64),), validate=validate, spec=spec,
            place=place,
        )  # fmt: skip
        summary = run_steps(
            stepper,
            Task(
                train=self.train, gradient=spec, order=order, device=place.kind, parameters_count=float(trained),
                flop_per_step=flop_of(Path(spec.base), order.batch, tokens.sequence_tokens, parameters),
                sequence_tokens=tokens.sequence_tokens - 1, has_validation=data.validation is not None,
            ),
            run,
        )  # fmt: skip
        return FittedLora(causal.eval(), spec, tokens, summary, place.device)


class FittedLora:
    """A model with trained adapters."""

    def __init__(self, causal: Causal, spec: Lora, tokens: Tokens, summary: Summary, device: torch.device) -> None:
        self.causal, self.spec, self.tokens, self._summary, self.device = causal, spec, tokens, summary, device

    @property
    def summary(self) -> Summary:
        """What the training came to."""
        return self._summary

    def predict(self, rows: Array) -> Array:
        """Nats of every token but the first, [n, s - 1]."""
        with torch.no_grad():
            return surprises(self.causal.nats, rows.__getitem__, len(rows), self.device)

    def hits(self, rows: Array) -> Hits:
        """Whether the likeliest token was the right one, of every token but the first."""
        with torch.no_grad():
            return surprises(self.causal.guessed, rows.__getitem__, len(rows), self.device).astype(np.bool_)

    def export(self, folder: Path) -> Exported:
        """Writes weights/ with the adapters merged in, and adapter/ with the adapters alone."""
        save_adapters(self.causal.model, self.spec, folder / "adapter")
        whole = copy.deepcopy(self.causal.model).cpu()
        merge(whole)
        whole.save_pretrained(folder / WEIGHTS)
        for name in COPIED:
            if (Path(self.spec.base) / name).is_file():
                shutil.copyfile(Path(self.spec.base) / name, folder / WEIGHTS / name)
        if self.tokens.tokenizer is not None and not (folder / WEIGHTS / "tokenizer.json").is_file():
            shutil.copyfile(self.tokens.tokenizer, folder / WEIGHTS / "tokenizer.json")
        return language_model(int(whole.config.vocab_size), f"torch {torch.__version__}")


def load(folder: Path) -> typing.Any:
    """The base model from its folder, in float32; InputError when it is not one."""
    import transformers

    if not (folder / "config.json").is_file():
        raise InputError.one(f"{WHERE}: base", f"{folder} has no config.json", "name a folder of Hugging Face weights")
    try:
        return transformers.AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise InputError.one(
            f"{WHERE}: base", f"{folder} cannot be loaded: {str(error).splitlines()[0]}", "check the folder's files"
        ) from error


def flop_of(base: Path, sequences: int, sequence_tokens: int, parameters: int) -> float:
    """Operations of a step without gradients of the weights; four a weight and token where the shape is not known."""
    try:
        shape = read_config(base / "config.json").transformer
    except InputError:
        shape = None
    if shape is None:
        return 4.0 * parameters * sequences * (sequence_tokens - 1)  # forward, and the gradient of the inputs
    return transformer_flop(shape, sequences, sequence_tokens, adapters=True)


def make(spec: TrainSpec) -> LoraTrainer:
    """The trainer of a spec."""
    assert spec.lora is not None
    return LoraTrainer(spec, spec.lora)
