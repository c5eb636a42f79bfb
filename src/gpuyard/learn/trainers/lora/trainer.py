"""The LoRA trainer: adapters are trained, everything else is frozen."""

from __future__ import annotations

import copy
import shutil
import typing
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from gpuyard.catalog.huggingface.read import read_config
from gpuyard.errors import InputError
from gpuyard.learn.arrays import Array, Hits
from gpuyard.learn.networks.flops import transformer_flop
from gpuyard.learn.networks.inputs import mean_label_loss, tokens_of
from gpuyard.learn.networks.llama import language_model
from gpuyard.learn.networks.loop import LoopConfig, run_steps
from gpuyard.learn.networks.order import order_of
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import (
    Exported,
    TokenData,
    TrainingContext,
    TrainingInputs,
    TrainingSummary,
)
from gpuyard.learn.trainers.lora.adapters import adapt, merge, save_adapters, without_adapters
from gpuyard.learn.trainers.lora.lora_settings import DpoSpec, LoraSpec
from gpuyard.learn.trainers.torch_nets.devices import TorchDevice, place_of
from gpuyard.learn.trainers.torch_nets.preferences import Preference
from gpuyard.learn.trainers.torch_nets.stepper import TorchStepper
from gpuyard.learn.trainers.torch_nets.transformer import mean_of_labels, nats_in_chunks
from gpuyard.registry.bundle import WEIGHTS

WHERE = "train: lora"
# Files of the base model that a server needs in addition to the weights.
COPIED = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "generation_config.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
)


class Causal(nn.Module):  # type: ignore[misc]
    """A language model that returns the mean loss when called with token ids."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def nats(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the nats of every token but the first, [batch, sequence - 1]."""
        logits = self._logits(ids)
        return functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")

    def guessed(self, ids: torch.Tensor) -> torch.Tensor:
        """Return whether the top token was right, for every token but the first."""
        return self._logits(ids).argmax(dim=-1) == ids[:, 1:]

    def _logits(self, ids: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(input_ids=ids[:, :-1], use_cache=False).logits.float()
        return logits

    def forward(self, ids: torch.Tensor, learned: torch.Tensor | None = None) -> torch.Tensor:
        return mean_of_labels(self.nats(ids), learned)


class LoraTrainer:
    """Trains LoRA adapters in PyTorch."""

    def __init__(self, train: TrainSpec, spec: LoraSpec) -> None:
        self.train, self.spec = train, spec

    def fit(self, data: TrainingInputs, run: TrainingContext) -> FittedLora:
        """Train the adapters and return the model."""
        with place_of(self.spec.device, run.ranks) as place:
            return self._fit(data, run, place)

    def _fit(self, data: TrainingInputs, run: TrainingContext, place: TorchDevice) -> FittedLora:
        spec, tokens = self.spec, tokens_of(data.train, WHERE, pairs=self.spec.dpo is not None)
        model = load(Path(spec.base))
        vocab = int(model.config.vocab_size)
        if vocab < tokens.vocab:
            raise InputError.one(
                f"{WHERE}: base",
                f"has a vocabulary of {vocab} tokens, but the data has {tokens.vocab}",
                "use the tokenizer of the base model",
            )
        parameters = sum(parameter.numel() for parameter in model.parameters())
        trained = adapt(model, spec, self.train.seed)
        causal = Causal(model)
        order = order_of(
            spec, rows=len(tokens), seed=self.train.seed, part=run.ranks.rank, parts=run.ranks.world
        )

        preference = None if spec.dpo is None else preference_of(causal, spec.dpo)

        def validate() -> float:
            assert data.validation is not None
            held_out = tokens_of(data.validation, "train: validation", pairs=preference is not None)
            if preference is not None:
                return preference.validate(held_out, place.device)
            nats = nats_in_chunks(causal.nats, held_out.of, len(held_out), place.device)
            return mean_label_loss(nats, held_out)

        stepper = TorchStepper(
            model=preference or causal,
            rows=lambda rows: tokens.batch(rows, np.int64),
            validate=validate,
            spec=spec,
            place=place,
        )
        summary = run_steps(
            stepper,
            LoopConfig(
                train=self.train,
                gradient=spec,
                order=order,
                device=place.kind,
                parameters_count=float(trained),
                flop_per_step=step_flop(spec, tokens, order.batch, parameters),
                sequence_tokens=tokens.sequence_tokens - (1 if spec.dpo is None else 2),
                has_validation=data.validation is not None,
                others=tuple if preference is None else lambda: preference.metrics(place),
            ),
            run,
        )
        return FittedLora(causal.eval(), spec, tokens, summary, place.device)


class FittedLora:
    """A model with trained adapters; without a spec they are merged, and it only predicts."""

    def __init__(
        self,
        causal: Causal,
        spec: LoraSpec | None,
        tokens: TokenData,
        summary: TrainingSummary,
        device: torch.device,
    ) -> None:
        self.causal, self.spec, self.tokens, self.summary, self.device = (
            causal,
            spec,
            tokens,
            summary,
            device,
        )

    def predict(self, rows: Array) -> Array:
        """Return the nats of every token but the first, [n, s - 1]."""
        with torch.no_grad():
            return nats_in_chunks(self.causal.nats, rows.__getitem__, len(rows), self.device)

    def hits(self, rows: Array) -> Hits:
        """Return whether the top token was right, for every token but the first."""
        with torch.no_grad():
            return nats_in_chunks(
                self.causal.guessed, rows.__getitem__, len(rows), self.device
            ).astype(np.bool_)

    def export(self, folder: Path) -> Exported:
        """Write weights/ with the adapters merged, and adapter/ with the adapters alone."""
        assert self.spec is not None
        save_adapters(self.causal.model, self.spec, folder / "adapter")
        whole = copy.deepcopy(self.causal.model).cpu()
        merge(whole)
        return export_weights(whole, Path(self.spec.base), self.tokens, folder)


def export_weights(model: typing.Any, base: Path, tokens: TokenData, folder: Path) -> Exported:
    """Write weights/ with the tokenizer and the chat template of the base model."""
    weights = folder / WEIGHTS
    model.save_pretrained(weights)
    for name in COPIED:
        if (base / name).is_file():
            shutil.copyfile(base / name, weights / name)
    if tokens.tokenizer is not None and not (weights / "tokenizer.json").is_file():
        shutil.copyfile(tokens.tokenizer, weights / "tokenizer.json")
    return language_model(int(model.config.vocab_size), f"torch {torch.__version__}")


def load_merged(weights: Path, tokens: TokenData, summary: TrainingSummary) -> FittedLora:
    """Return an exported model with its adapters merged, or any causal language model."""
    return FittedLora(Causal(load(weights)).eval(), None, tokens, summary, torch.device("cpu"))


def load(folder: Path, where: str = WHERE) -> typing.Any:
    """Load the base model in float32; raise InputError if the folder has none."""
    import transformers

    if not (folder / "config.json").is_file():
        raise InputError.one(
            f"{where}: base",
            f"{folder} has no config.json",
            "use a folder of Hugging Face weights",
        )
    try:
        return transformers.AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, dtype=torch.float32
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise InputError.one(
            f"{where}: base",
            f"{folder} cannot be loaded: {str(error).splitlines()[0]}",
            "check the folder's files",
        ) from error


def preference_of(causal: Causal, dpo: DpoSpec) -> Preference:
    """Return the model as a policy whose reference is its base."""

    def reference(ids: torch.Tensor) -> torch.Tensor:
        with without_adapters(causal.model):
            return causal.nats(ids)

    return Preference(causal, causal.nats, reference, dpo)


def step_flop(spec: LoraSpec, tokens: TokenData, batch: int, parameters: int) -> float:
    """Return the FLOPs per step; pairs are two sequences, and the reference reads them too."""
    if spec.dpo is None:
        return flop_of(Path(spec.base), batch, tokens.sequence_tokens, parameters)
    learned = flop_of(Path(spec.base), 2 * batch, tokens.sequence_tokens // 2, parameters)
    return 1.5 * learned  # forward and gradients of the inputs, and the forward of the reference


def flop_of(
    base: Path, sequences: int, sequence_tokens: int, parameters: int, *, adapters: bool = True
) -> float:
    """Return the FLOPs per step, with `adapters` without weight gradients.

    4 or 6 per weight and token if the shape of the model is unknown.
    """
    try:
        shape = read_config(base / "config.json").transformer
    except InputError:
        shape = None
    if shape is None:
        passes = 4.0 if adapters else 6.0  # forward, gradients of inputs, and of weights
        return passes * parameters * sequences * (sequence_tokens - 1)
    return transformer_flop(shape, sequences, sequence_tokens, adapters=adapters)


def make(spec: TrainSpec) -> LoraTrainer:
    """Return the trainer of a spec."""
    assert spec.lora is not None
    return LoraTrainer(spec, spec.lora)
