"""Low-rank adapters on linear layers (Hu et al. 2021, arXiv 2106.09685), in PEFT's format."""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn

from gpuyard.errors import InputError
from gpuyard.learn.trainers.lora.lora_settings import LoraSpec

PREFIX = "base_model.model."  # PEFT's wrapping of the model


class LoraLinear(nn.Module):  # type: ignore[misc]
    """A frozen linear layer plus a low-rank update, whose second factor starts at zero."""

    def __init__(self, base: nn.Linear, spec: LoraSpec, name: str, seed: int) -> None:
        super().__init__()
        self.base_layer, self.scale = base, spec.alpha / spec.rank
        self.enabled = True
        self.lora_A = nn.Linear(base.in_features, spec.rank, bias=False)
        self.lora_B = nn.Linear(spec.rank, base.out_features, bias=False)
        generator = np.random.Generator(np.random.Philox(key=[seed, zlib.crc32(name.encode())]))
        bound = 1.0 / np.sqrt(base.in_features)  # Kaiming uniform with a = sqrt(5), as in PEFT
        first = generator.uniform(-bound, bound, size=(spec.rank, base.in_features)).astype(
            np.float32
        )
        with torch.no_grad():
            self.lora_A.weight.copy_(torch.from_numpy(first))
            self.lora_B.weight.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output of the layer plus the adapter."""
        output: torch.Tensor = self.base_layer(x)
        if not self.enabled:
            return output
        update = self.lora_B(self.lora_A(x.to(self.lora_A.weight.dtype))) * self.scale
        return output + update.to(output.dtype)


@contextlib.contextmanager
def without_adapters(model: nn.Module) -> Iterator[None]:
    """Disable the adapters, so that the model computes as its base without copying the weights."""
    layers = [layer for layer in model.modules() if isinstance(layer, LoraLinear)]
    for layer in layers:
        layer.enabled = False
    try:
        yield
    finally:
        for layer in layers:
            layer.enabled = True


def adapt(model: nn.Module, spec: LoraSpec, seed: int) -> int:
    """Freeze the model, adapt the target layers and return the number of trained weights."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    targets = [
        (name, layer)
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear) and name.rpartition(".")[2] in spec.targets
    ]
    if not targets:
        known = sorted(
            {
                name.rpartition(".")[2]
                for name, layer in model.named_modules()
                if isinstance(layer, nn.Linear)
            }
        )
        raise InputError.one(
            "train: lora: targets",
            f"the model has no layer named {', '.join(spec.targets)}",
            f"use {', '.join(known)}",
        )
    for name, layer in targets:
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, LoraLinear(layer, spec, name, seed))
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def merge(model: nn.Module) -> None:
    """Merge the adapters into the weights and remove them."""
    adapted = [
        (name, layer) for name, layer in model.named_modules() if isinstance(layer, LoraLinear)
    ]
    for name, layer in adapted:
        with torch.no_grad():
            update = layer.lora_B.weight.double() @ layer.lora_A.weight.double() * layer.scale
            weight = layer.base_layer.weight
            weight.copy_((weight.double() + update).to(weight.dtype))
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, layer.base_layer)


def save_adapters(model: nn.Module, spec: LoraSpec, folder: Path) -> None:
    """Write adapter_model.safetensors and adapter_config.json in PEFT's format."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        PREFIX + name: parameter.detach().cpu().contiguous()
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": spec.base,
        "r": spec.rank,
        "lora_alpha": spec.alpha,
        "lora_dropout": 0.0,
        "target_modules": list(spec.targets),
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
    }
    (folder / "adapter_config.json").write_text(
        json.dumps(config, indent=2) + "\n", encoding="utf-8"
    )
