"""Constants of the NCCL time model; the data file has meaning, source and value."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CONSTANTS_PATH = Path(__file__).parent.parent / "data" / "collectives.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclConstants:
    """Numbers by name; those of a link technology or a GPU generation are named `what|which`."""

    values: Mapping[str, float]

    def get(self, what: str, which: str = "") -> float:
        """Return a constant; that of the technology or generation takes precedence."""
        return (
            self.values[f"{what}|{which}"]
            if f"{what}|{which}" in self.values
            else self.values[what]
        )


@functools.cache
def read_constants() -> NcclConstants:
    """The shipped numbers."""
    table = tomllib.loads(CONSTANTS_PATH.read_text(encoding="utf-8"))
    return NcclConstants(values={name: float(cell["value"]) for name, cell in table.items()})
