"""Calibration of the serving model: fitted constants by name."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PATH = Path(__file__).parent / "data" / "calibration.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingCalibration:
    """Result of a fit, input of a prediction."""

    values: Mapping[str, float]

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    def replaced(self, values: Mapping[str, float]) -> ServingCalibration:
        """Return the same with some other values."""
        return ServingCalibration(values={**self.values, **values})


@functools.cache
def read_calibration() -> ServingCalibration:
    """Return the shipped constants."""
    table = tomllib.loads(PATH.read_text(encoding="utf-8"))
    return ServingCalibration(
        values={name: float(cell["value"]) for name, cell in table["constant"].items()}
    )


@functools.cache
def read_priors() -> ServingCalibration:
    """Return the priors of the constants."""
    table = tomllib.loads(PATH.read_text(encoding="utf-8"))
    return ServingCalibration(
        values={name: float(cell["prior"]) for name, cell in table["constant"].items()}
    )
