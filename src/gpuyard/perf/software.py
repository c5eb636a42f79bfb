"""A software profile as inputs of the step-time and memory models."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from gpuyard.perf.layout import Software
from gpuyard.perf.profiles import SoftwareProfile
from gpuyard.perf.recipes import GRAPHS, MoeSettings

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


def software(
    profile: SoftwareProfile, scalar: float, nvl72: bool, experts: MoeSettings | None = None
) -> Software:
    """Return a profile as model inputs; `nvl72`: chips of an NVL72 rack."""
    numbers = software_numbers(profile, nvl72) | {"scalar": scalar}
    if experts is not None:
        numbers |= expert_numbers(experts, numbers["flash"])
    return Software(
        **{name: np.asarray(value, dtype=np.float64) for name, value in numbers.items()}
    )


def expert_numbers(settings: MoeSettings, flash: float) -> dict[str, float]:
    """Return the flags that MoE settings override; `flash`: 1 if the profile fuses attention."""
    return {
        "deepep": float(settings.dispatcher == "flex"),
        "moe_overlap": float(settings.overlap),
        "graphs": GRAPHS[settings.graphs],
        "fused_experts": float(settings.fused),
        "flash": flash * float(settings.flash),
    }


def software_numbers(
    profile: SoftwareProfile, nvl72: bool, pure: bool = False, fp32_sum: bool = False
) -> dict[str, float]:
    """Return flags and bytes; `pure`: 16-bit reduction, `fp32_sum`: an fp32 gradient copy."""
    torch, nanotron = "fp32_reduce" in profile.flags, profile.name.startswith("nanotron")
    deepspeed = "deepspeed" in profile.name
    state = 4.0 if "no-overlap" in profile.name else 2.0  # NVIDIA's recipes store bf16 gradients
    numbers: dict[str, float] = {
        "scalar": 1.0,
        "grad_bytes": 4.0 if torch and not pure else 2.0,
        "grad_state_bytes": 6.0 if fp32_sum else state,
        "logit_bytes": 8.0 if nanotron else 12.0 if torch else 6.0,
        "optimizer_bytes": 16.0 if deepspeed else 12.0,
        "pipe_buffers": float(deepspeed),
        "fragment_ratio": (
            0.08 if deepspeed or (torch and not nanotron) else 0.04 if nanotron else 0.02
        ),
    }
    flags = {name: float(name in profile.flags) for name in FLAGS}
    if "graphs_nvl72" in profile.flags and nvl72:
        flags["graphs"] = 1.0
    return numbers | flags
