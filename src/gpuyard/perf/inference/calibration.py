"""Fitted numbers of the serving model, by name; meaning, unit, bounds and spread of each stand in the data file."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PATH", "Calibration", "read_calibration", "read_priors"]

PATH = Path(__file__).parent / "data" / "calibration.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What a fit gives and a prediction needs."""

    values: Mapping[str, float]

    def __getitem__(self, name: str) -> float:
        return self.values[name]


@functools.cache
def read_calibration() -> Calibration:
    """The shipped numbers."""
    table = tomllib.loads(PATH.read_text(encoding="utf-8"))
    return Calibration(values={name: float(cell["value"]) for name, cell in table["constant"].items()})


@functools.cache
def read_priors() -> Calibration:
    """The numbers from which a fit starts."""
    table = tomllib.loads(PATH.read_text(encoding="utf-8"))
    return Calibration(values={name: float(cell["prior"]) for name, cell in table["constant"].items()})
