"""Fitted numbers of the step-time model: constants, product ratios per chip, software scalars."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from gpuyard.perf.constants import Constants
from gpuyard.perf.profiles import Profile

__all__ = ["PATH", "Calibration", "effect_keys", "read_calibration", "scalar"]

PATH = Path(__file__).parent / "data" / "calibration.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What a fit gives and a prediction needs."""

    constants: Constants
    ratios: Mapping[str, float]  # achieved over peak rate of matrix products, by "chip|precision"
    effects: Mapping[str, float]  # natural logarithms that add up to a software scalar


@functools.cache
def read_calibration() -> Calibration:
    """The shipped numbers."""
    table = tomllib.loads(PATH.read_text(encoding="utf-8"))
    return Calibration(
        constants=Constants(**{f.name: float(table["constant"][f.name]["value"]) for f in fields(Constants)}),
        ratios={name: float(cell["value"]) for name, cell in table["ratio"].items()},
        effects={name: float(value) for name, value in table["effect"].items()},
    )


def effect_keys(family: str, profile: str, moe: bool) -> tuple[str, ...]:
    """Effects that make up a scalar: an unseen profile falls back on its family, an unseen MoE stack on all MoE."""
    dense = (f"family|{family}", f"profile|{profile}")
    return (*dense, "kind|moe", f"moe|{profile}") if moe else dense


def scalar(calibration: Calibration, profile: Profile, moe: bool) -> float:
    """The multiplier of the whole device time for a software profile."""
    if profile.scalar is not None:
        return profile.scalar
    keys = effect_keys(profile.family, profile.name, moe)
    return float(np.exp(sum(calibration.effects.get(key, 0.0) for key in keys)))
