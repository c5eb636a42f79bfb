"""Error bars of serving predictions, wider where few published runs exist."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from gpuyard.perf.inference.chip import ServingChip
from gpuyard.perf.inference.serving_engine import ServingEngine
from gpuyard.perf.interval import PredictionInterval, ratio_at_90

Metric = Literal["throughput", "tpot", "ttft", "e2e"]
FEW_ROWS = 30  # with fewer, the wider of the chip's and all chips' errors, times WIDEN
LEAST_ROWS = 8  # with fewer, no quantile: the widest step error on such chips, any engine
STEPS = ("throughput|", "tpot|")  # metrics that depend on step times alone; TTFT also has waits
WIDEN = 1.5
DISAGGREGATED = "apart"  # key of disaggregated runs in errors.toml
NEAREST_WIDEN = 2.0  # constants of the nearest architecture
COVERAGE = 0.8  # of the quantiles in errors.toml


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """80 % prediction interval: value / (1 + ratio) to value × (1 + ratio)."""

    ratio: float
    rows: int  # published rows of this chip and engine family
    note: str  # why it is wide; empty where it is not

    @property
    def ratio_90(self) -> float:
        return ratio_at_90(self.ratio, COVERAGE)

    def around(self, value: float) -> PredictionInterval:
        return PredictionInterval.from_ratio(value, self.ratio, COVERAGE)


@functools.cache
def _table() -> dict[str, dict[str, float]]:
    """Return errors by metric, engine family and chip (bench/accuracy_inference.py)."""
    path = Path(__file__).parent / "data" / "errors.toml"
    table: dict[str, dict[str, float]] = tomllib.loads(path.read_text(encoding="utf-8"))["error"]
    return table


def _own(metric: Metric, chip: ServingChip, engine: ServingEngine) -> dict[str, float]:
    """Return the errors of an engine family on a kind of chip."""
    return _table().get(f"{metric}|{engine.family}|{chip.kernels}", {"p80": 0.0, "rows": 0.0})


def _widest(chip: ServingChip) -> float:
    """Return the largest step error of this kind of chip with enough rows."""
    own = {
        key: row
        for key, row in _table().items()
        if key.startswith(STEPS) and key.endswith(f"|{chip.kernels}")
    }
    return max((row["p80"] for row in own.values() if row["rows"] >= LEAST_ROWS), default=0.0)


def interval(
    metric: Metric,
    chip: ServingChip,
    engine: ServingEngine,
    disaggregated: bool = False,
    unmeasured: str = "",
) -> Interval:
    """Return the error bar of a prediction, from errors with groups of runs held out of the fit.

    unmeasured: why no published run resembles the model; then twice as wide.

    No disaggregated run states end-to-end latency: it has the error bar of throughput.
    """
    if unmeasured:
        measured = interval(metric, chip, engine, disaggregated)
        return replace(measured, ratio=NEAREST_WIDEN * measured.ratio, note=unmeasured)
    aggregated, table = _aggregated(metric, chip, engine), _table()
    if not disaggregated:
        return aggregated
    known = table.get(f"{metric}|{DISAGGREGATED}", table[f"throughput|{DISAGGREGATED}"])
    if aggregated.ratio >= known["p80"]:
        return aggregated
    note = "disaggregated prefill: KV-cache transfer setup takes 0.1 to 0.2 s in published runs"
    return Interval(ratio=known["p80"], rows=int(known["rows"]), note=note)


def _aggregated(metric: Metric, chip: ServingChip, engine: ServingEngine) -> Interval:
    """Return the error bar with one pool; end-to-end latency is mostly TPOT."""
    table = _table()
    own = _own(metric, chip, engine)
    if metric == "e2e" and own["rows"] < _own("tpot", chip, engine)["rows"]:
        return _aggregated("tpot", chip, engine)
    overall, rows = table[metric], int(own["rows"])
    own = own if rows >= LEAST_ROWS else {"p80": _widest(chip)}
    if not chip.calibrated:
        note = (
            f"few published runs of {chip.name}: constants of the nearest architecture"
            f" ({chip.kernels})"
        )
        return Interval(ratio=NEAREST_WIDEN * max(own["p80"], overall["p80"]), rows=rows, note=note)
    if rows < FEW_ROWS:
        note = f"only {rows} published rows of {engine.family} on this kind of chip"
        return Interval(ratio=WIDEN * max(own["p80"], overall["p80"]), rows=rows, note=note)
    return Interval(ratio=own["p80"], rows=rows, note="")
