"""Error bars of training and collective predictions, wider with distance from measured runs."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import Literal

from gpuyard.perf.chip_kernels import ChipKernels
from gpuyard.perf.profiles import SoftwareProfile

RunKind = Literal["dense", "moe", "tpu", "stack-dense", "stack-moe", "stack-tpu", "uncalibrated"]

STACKS: dict[str, RunKind] = {"dense": "stack-dense", "moe": "stack-moe", "tpu": "stack-tpu"}


@functools.cache
def _table() -> dict[str, dict[str, float]]:
    path = Path(__file__).parent / "data" / "error_bars.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def run_kind(
    silicon: ChipKernels, profile: SoftwareProfile, moe: bool, unseen: bool = False
) -> RunKind:
    """Return the kind of run whose held-out errors apply.

    unseen: the runs are of a source that the profile is not fitted to.
    """
    if not silicon.calibrated:
        return "uncalibrated"
    kind: Literal["dense", "moe", "tpu"] = "tpu" if silicon.generation == "tpu" else "dense"
    kind = "moe" if moe else kind
    if unseen or not (profile.fitted_on or profile.scalar is not None):
        return STACKS[kind]
    return kind


def training_error_ratio(kind: RunKind) -> float:
    """Return the error within which 90 % of published runs of a kind are predicted."""
    return _table()[kind]["p90"]


def collective_error_ratio() -> float:
    """Return the error of 90 % of published collectives, each system held out of the fit."""
    return _table()["collective"]["p90"]
