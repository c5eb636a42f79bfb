"""How far predictions were from published runs: the error bar of a prediction, wider where few runs stand behind it."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpuyard.perf.inference.chip import ServingChip
from gpuyard.perf.inference.engine import Engine

__all__ = ["APART", "Interval", "Metric", "interval"]

Metric = Literal["throughput", "tpot", "ttft", "e2e"]
FEW_ROWS = 30  # below it, the wider of the chip's and all chips' errors, times WIDEN
LEAST_ROWS = 8  # below it a quantile says nothing: the widest error of steps on that kind of chip, of any engine
STEPS = ("throughput|", "tpot|")  # figures that tell how long steps take; first tokens also wait
WIDEN = 1.5
APART = "apart"  # what the benchmark calls runs whose prompts have a pool of their own
NEAREST_WIDEN = 2.0  # constants of the nearest architecture


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Four predictions in five were within this: true value between value / (1 + ratio) and value x (1 + ratio)."""

    ratio: float
    rows: int  # published rows of this chip and engine family that it rests on
    note: str  # why it is wide; empty where it is not


@functools.cache
def _table() -> dict[str, dict[str, float]]:
    """Errors by metric, engine family and chip, as the accuracy benchmark wrote them."""
    path = Path(__file__).parent / "data" / "errors.toml"
    found: dict[str, dict[str, float]] = tomllib.loads(path.read_text(encoding="utf-8"))["error"]
    return found


def _own(metric: Metric, chip: ServingChip, engine: Engine) -> dict[str, float]:
    """The errors of an engine's family on a kind of chip."""
    return _table().get(f"{metric}|{engine.family}|{chip.kernels}", {"p80": 0.0, "rows": 0.0})


def _widest(chip: ServingChip) -> float:
    """The largest error of steps that enough rows of this kind of chip show."""
    own = {key: row for key, row in _table().items() if key.startswith(STEPS) and key.endswith(f"|{chip.kernels}")}
    return max((row["p80"] for row in own.values() if row["rows"] >= LEAST_ROWS), default=0.0)


def interval(metric: Metric, chip: ServingChip, engine: Engine, apart: bool = False) -> Interval:
    """The error bar of a prediction, from the errors with groups of runs held out of the fit.

    apart: prompts are read by a pool of their own. No such run tells the time of whole answers: they have the rate's.
    """
    found, table = _plain(metric, chip, engine), _table()
    if not apart:
        return found
    known = table.get(f"{metric}|{APART}", table[f"throughput|{APART}"])
    if found.ratio >= known["p80"]:
        return found
    note = "prompts read apart: handing a cache over takes 0.1 to 0.2 s in published runs"
    return Interval(ratio=known["p80"], rows=int(known["rows"]), note=note)


def _plain(metric: Metric, chip: ServingChip, engine: Engine) -> Interval:
    """The error bar where one pool reads and writes; whole answers are mostly times a token."""
    table = _table()
    own = _own(metric, chip, engine)
    if metric == "e2e" and own["rows"] < _own("tpot", chip, engine)["rows"]:
        return _plain("tpot", chip, engine)
    whole, rows = table[metric], int(own["rows"])
    own = own if rows >= LEAST_ROWS else {"p80": _widest(chip)}
    if not chip.calibrated:
        note = f"few published runs of {chip.name}: constants of the nearest architecture ({chip.kernels})"
        return Interval(ratio=NEAREST_WIDEN * max(own["p80"], whole["p80"]), rows=rows, note=note)
    if rows < FEW_ROWS:
        note = f"only {rows} published rows of {engine.family} on this kind of chip"
        return Interval(ratio=WIDEN * max(own["p80"], whole["p80"]), rows=rows, note=note)
    return Interval(ratio=own["p80"], rows=rows, note="")
