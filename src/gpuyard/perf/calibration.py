"""Calibration of the training model: constants, GEMM efficiency per chip, software scalars."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from gpuyard.perf.constants import TrainingConstants
from gpuyard.perf.profiles import SoftwareProfile

PATH = Path(__file__).parent / "data" / "calibration.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCalibration:
    """Result of a fit, input of a prediction."""

    constants: TrainingConstants
    ratios: Mapping[str, float]  # achieved over peak GEMM FLOP/s, by "chip|precision"
    effects: Mapping[str, float]  # natural logarithms; their sum is log(software scalar)


@functools.cache
def read_calibration() -> TrainingCalibration:
    """Return the shipped calibration."""
    table = tomllib.loads(PATH.read_text(encoding="utf-8"))
    return TrainingCalibration(
        constants=TrainingConstants(
            **{f.name: float(table["constant"][f.name]["value"]) for f in fields(TrainingConstants)}
        ),
        ratios={name: float(cell["value"]) for name, cell in table["ratio"].items()},
        effects={name: float(value) for name, value in table["effect"].items()},
    )


def effect_keys(family: str, profile: str, moe: bool) -> tuple[str, ...]:
    """Return the effects of a scalar; an unseen profile falls back on its family."""
    dense = (f"family|{family}", f"profile|{profile}")
    return (*dense, "kind|moe", f"moe|{profile}") if moe else dense


def scalar(calibration: TrainingCalibration, profile: SoftwareProfile, moe: bool) -> float:
    """Return the factor on the device time for a software profile."""
    if profile.scalar is not None:
        return profile.scalar
    keys = effect_keys(profile.family, profile.name, moe)
    return float(np.exp(sum(calibration.effects.get(key, 0.0) for key in keys)))
