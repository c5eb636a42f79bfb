"""Calibration of the training model: constants, GEMM efficiency per chip, software scalars."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from gpuyard.perf.constants import TrainingConstants
from gpuyard.perf.profiles import SoftwareProfile, lineage

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
        effects={name: float(cell["value"]) for name, cell in table["effect"].items()},
    )


def effect_keys(profile: SoftwareProfile, moe: bool) -> tuple[str, ...]:
    """Return the effects of a scalar: family, then release after release up to the profile.

    A release without runs starts from the one that it follows.
    """
    releases = [item.name for item in lineage(profile)]
    dense = (f"family|{profile.family}", *(f"profile|{name}" for name in releases))
    return (*dense, "kind|moe", *(f"moe|{name}" for name in releases)) if moe else dense


def scalar(calibration: TrainingCalibration, profile: SoftwareProfile, moe: bool) -> float:
    """Return the factor on the device time for a software profile."""
    if profile.scalar is not None:
        return profile.scalar
    effects = (calibration.effects.get(key, 0.0) for key in effect_keys(profile, moe))
    return float(np.exp(sum(effects)))
