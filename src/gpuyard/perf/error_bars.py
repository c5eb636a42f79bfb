"""Error bars of training and collective predictions, wider with distance from measured runs.

Idea: the distance of a case from the published runs is a level. The error bar of a level covers
90 % of the errors log(measured / predicted) of runs at that distance that are held out of the fit
(split conformal prediction). Errors are not symmetric, so the two sides have different lengths.
Invariant: a bar contains 0; `calibrate/error_bars.py` computes the data file.
Source: V. Vovk, A. Gammerman and G. Shafer, Algorithmic Learning in a Random World (2005), ch. 2.
"""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpuyard.perf.chip_kernels import ChipKernels
from gpuyard.perf.interval import PredictionInterval
from gpuyard.perf.profiles import SoftwareProfile

# What is new compared with published runs. run: nothing; group: model or layout on a chip; release:
# release of a published framework; stack: framework; chip: chip architecture.
Level = Literal["run", "group", "release", "stack", "chip"]
RunKind = Literal["dense", "moe", "tpu", "adapters"]
LEVELS: tuple[Level, ...] = ("run", "group", "release", "stack", "chip")
KINDS: tuple[RunKind, ...] = ("dense", "moe", "tpu", "adapters")
PATH = Path(__file__).parent / "data" / "error_bars.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBar:
    """90 % of the logs of measured over predicted are from `low` to `high`; 0 is inside."""

    low: float
    high: float

    def around(self, value: float) -> PredictionInterval:
        """Return the interval of a predicted value."""
        return PredictionInterval(
            value=value, low=value * math.exp(self.low), high=value * math.exp(self.high)
        )

    def hull(self, other: ErrorBar) -> ErrorBar:
        """Return the shortest bar that contains both."""
        return ErrorBar(low=min(self.low, other.low), high=max(self.high, other.high))

    def widened(self, factor: float) -> ErrorBar:
        """Return the bar with both sides longer, on the log scale."""
        return ErrorBar(low=factor * self.low, high=factor * self.high)

    @property
    def low_ratio(self) -> float:
        """Return r for a lower bound of value / (1 + r)."""
        return math.expm1(-self.low)

    @property
    def high_ratio(self) -> float:
        """Return r for an upper bound of value × (1 + r)."""
        return math.expm1(self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBars:
    """The data file."""

    bars: Mapping[str, ErrorBar]  # by "level|kind", "model|kind" and "run|kind|profile"
    cells: frozenset[str]  # measured, as `cell_of` names them
    models: frozenset[str]  # measured, as `model_key` names them


@functools.cache
def read_error_bars() -> ErrorBars:
    """Return the shipped error bars."""
    table = tomllib.loads(PATH.read_text(encoding="utf-8"))
    return ErrorBars(
        bars={
            name: ErrorBar(low=bar["low"], high=bar["high"]) for name, bar in table["bar"].items()
        },
        cells=frozenset(table["measured"]["cells"]),
        models=frozenset(table["measured"]["models"]),
    )


def run_kind(silicon: ChipKernels, moe: bool, adapters: bool = False) -> RunKind:
    """Return the kind of run whose held-out errors apply."""
    if adapters:
        return "adapters"
    if moe:
        return "moe"
    return "tpu" if silicon.generation == "tpu" else "dense"


def cell_of(silicon: ChipKernels, profile: SoftwareProfile, kind: RunKind) -> str:
    """Return the key of a measured combination: profile, chip and kind of run."""
    return f"{profile.name}|{silicon.name}|{kind}"


def distance(
    silicon: ChipKernels, profile: SoftwareProfile, kind: RunKind, unseen: bool = False
) -> Level:
    """Return how far a run is from published ones.

    unseen: the run is from another source than the runs that the profile is fitted to.
    """
    if not silicon.calibrated:
        return "chip"
    if profile.scalar is not None:  # calibrated on runs of the user
        return "group"
    if not profile.fitted_on:
        return "release" if profile.after else "stack"
    if unseen:
        return "release"
    return "run" if cell_of(silicon, profile, kind) in read_error_bars().cells else "group"


def model_key(kind: RunKind, layers: float, hidden: float) -> str:
    """Return the key of a measured model: kind of run, layers and width."""
    return f"{kind}|{layers:.0f}x{hidden:.0f}"


def training_error_bar(level: Level, kind: RunKind, profile: str = "", model: str = "") -> ErrorBar:
    """Return the error bar of a step time.

    model: its `model_key`; the bar of a model without published runs also holds the errors of
    models held out of the fit.
    """
    table = read_error_bars()
    bar = table.bars.get(f"{level}|{kind}|{profile}", table.bars[f"{level}|{kind}"])
    return bar if not model or model in table.models else bar.hull(table.bars[f"model|{kind}"])


def collective_error_bar(level: str) -> ErrorBar:
    """Return the error bar of a collective's time; `level` is of `CollectiveLevel`."""
    return read_error_bars().bars[f"{level}|collective"]
