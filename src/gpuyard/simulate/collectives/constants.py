"""The constants of the NCCL time model: meaning, source and value of each stand in the data file."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["NCCL_PATH", "Constants", "read_constants"]

NCCL_PATH = Path(__file__).parent.parent / "data" / "nccl.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """Numbers by name; those of a link technology or a GPU generation are named `what|which`."""

    values: Mapping[str, float]

    def get(self, what: str, which: str = "") -> float:
        """The number, for a technology or generation if it has one of its own."""
        return self.values[f"{what}|{which}"] if f"{what}|{which}" in self.values else self.values[what]


@functools.cache
def read_constants() -> Constants:
    """The shipped numbers."""
    table = tomllib.loads(NCCL_PATH.read_text(encoding="utf-8"))
    return Constants(values={name: float(cell["value"]) for name, cell in table.items()})
