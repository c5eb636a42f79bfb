"""A software profile as inputs of the step-time and memory models."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from gpuyard.perf.layout import Software
from gpuyard.perf.profiles import Profile
from gpuyard.perf.recipes import GRAPHS, Settings

__all__ = ["expert_numbers", "software", "software_numbers"]

NUMBERS = (
    "scalar",
    "grad_bytes",
    "grad_state_bytes",
    "logit_bytes",
    "optimizer_bytes",
    "pipe_buffers",
    "fragment_ratio",
)
FLAGS = tuple(field.name for field in fields(Software) if field.name not in NUMBERS)


def software(profile: Profile, scalar: float, nvl72: bool, experts: Settings | None = None) -> Software:
    """What a profile does, for one run; `nvl72`: chips sit in an NVL72 rack; `experts`: how experts are run."""
    numbers = software_numbers(profile, nvl72) | {"scalar": scalar}
    if experts is not None:
        numbers |= expert_numbers(experts, numbers["flash"])
    return Software(**{name: np.asarray(value, dtype=np.float64) for name, value in numbers.items()})


def expert_numbers(settings: Settings, flash: float) -> dict[str, float]:
    """What a recipe of a mixture of experts sets; `flash` tells whether the profile's attention is fused."""
    return {
        "deepep": float(settings.dispatcher == "flex"),
        "moe_overlap": float(settings.overlap),
        "graphs": GRAPHS[settings.graphs],
        "fused_experts": float(settings.fused),
        "flash": flash * float(settings.flash),
    }


def software_numbers(profile: Profile, nvl72: bool, pure: bool = False, fp32_sum: bool = False) -> dict[str, float]:
    """Flags and bytes; `pure`: gradients are reduced in 16 bits, `fp32_sum`: they are summed in an fp32 copy."""
    torch, nanotron = "fp32_reduce" in profile.flags, profile.name.startswith("nanotron")
    deepspeed = "deepspeed" in profile.name
    state = 4.0 if "no-overlap" in profile.name else 2.0  # NVIDIA's recipes keep bf16 gradients
    numbers: dict[str, float] = {
        "scalar": 1.0,
        "grad_bytes": 4.0 if torch and not pure else 2.0,
        "grad_state_bytes": 6.0 if fp32_sum else state,
        "logit_bytes": 8.0 if nanotron else 12.0 if torch else 6.0,
        "optimizer_bytes": 16.0 if deepspeed else 12.0,
        "pipe_buffers": float(deepspeed),
        "fragment_ratio": 0.08 if deepspeed or (torch and not nanotron) else 0.04 if nanotron else 0.02,
    }
    flags = {name: float(name in profile.flags) for name in FLAGS}
    if "graphs_nvl72" in profile.flags and nvl72:
        flags["graphs"] = 1.0
    return numbers | flags
