"""Prediction intervals of serving metrics, wider with distance from published runs.

Idea: conformal. The interval of a case is the range of the log errors of runs that are as far from
the fit as it is: a chip and engine with runs (`near`: errors with models and sources held out), one
whose siblings have runs (`sibling`: chips and releases held out), or neither (`far`: whole
generations held out, and chips that were never fitted). Cells hold runs of one load, architecture
kind, engine family and kind of chip; where one has few runs, the next coarser cell counts.
Source: Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World (2005);
`python tools/serving_intervals.py` writes the cells.
"""

from __future__ import annotations

import functools
import math
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from gpuyard.perf.inference.chip import ServingChip
from gpuyard.perf.inference.serving_engine import ServingEngine
from gpuyard.perf.interval import PredictionInterval, ratio_at_90

Metric = Literal["throughput", "tpot", "ttft", "e2e"]
Level = Literal["near", "sibling", "far"]
FEW_ROWS = 30  # published runs of an engine on a chip; with fewer, the level is `sibling`
# Arrivals of a planned service are somewhere between those of an open and of a closed loop.
SERVICE_LOADS = ("open", "closed")
SLOW_COVERAGE = 0.8  # two-sided, of `slow`: a tenth of runs are slower
UNMEASURED = 1.5  # widening on the log scale where no run resembles the model
PATH = Path(__file__).parent / "data" / "intervals.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The 90 % interval of measured over predicted, as logarithms."""

    low: float
    high: float
    slow: float  # of the 90 % quantile on the slow side
    rows: int  # published runs of this engine's release range on this chip
    note: str  # why it is wide; empty where it is not

    @property
    def ratio(self) -> float:
        """Relative error bar at 80 %: a tenth of runs are slower than predicted by more."""
        return math.expm1(self.slow)

    def planned(self, value: float, metric: Metric) -> PredictionInterval:
        """Return the interval of a planned value.

        Its slow side is the quantile that services are sized with, its fast side that of the runs.
        """
        slow = 1.0 + ratio_at_90(self.ratio, SLOW_COVERAGE)
        if metric == "throughput":
            high = value * math.exp(max(self.high, 0.0))
            return PredictionInterval(value=value, low=value / slow, high=high)
        low = value * math.exp(min(self.low, 0.0))
        return PredictionInterval(value=value, low=low, high=value * slow)

    def around(self, value: float) -> PredictionInterval:
        """Return the interval of a predicted value."""
        low, high = value * math.exp(self.low), value * math.exp(self.high)
        return PredictionInterval(value=value, low=low, high=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellQuery:
    """Inputs of an interval; a blank load or kind matches all."""

    level: Level
    metric: Metric
    load: str
    kind: str  # dense or moe
    family: str
    kernels: str

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the cells with such runs, finest first."""
        head = f"{self.level}|{self.metric}"
        return (
            f"{head}|{self.load}|{self.kind}|{self.family}|{self.kernels}",
            f"{head}|{self.load}|{self.kind}|{self.family}|",
            f"{head}|{self.load}|{self.kind}||",
            f"{head}|{self.load}|||",
            f"{head}||||",
        )

    @property
    def cells(self) -> tuple[str, ...]:
        """Names of all cells that contain such a run, with those of any load and kind."""
        return tuple(dict.fromkeys((*self.keys, *replace(self, load="", kind="").keys)))


@functools.cache
def _table() -> dict[str, dict[str, dict[str, float]]]:
    table: dict[str, dict[str, dict[str, float]]] = tomllib.loads(PATH.read_text(encoding="utf-8"))
    return table


def level_of(chip: ServingChip, engine: ServingEngine) -> tuple[Level, int]:
    """Return the distance from fitted runs, and the number of fitted runs of the same kind."""
    counts = _table()["rows"]
    rows = int(counts.get(engine.name, {}).get(chip.counts_as or chip.name, 0))
    if not chip.calibrated:
        return "far", rows
    if rows >= FEW_ROWS:
        return "near", rows
    siblings = sum(int(count) for count in counts.get(engine.name, {}).values())
    return ("sibling" if siblings >= FEW_ROWS or rows else "far"), rows


def interval(
    metric: Metric,
    chip: ServingChip,
    engine: ServingEngine,
    disaggregated: bool = False,
    unmeasured: str = "",
    *,
    load: str = "",
    kind: str = "",
) -> Interval:
    """Return the interval of a figure.

    Args:
        unmeasured: why no published run resembles the model; then wider.
        load: the kind of load (offline, closed, open, mlperf-server ...); blank: any.
        kind: dense or moe; blank: either.
    """
    level, rows = level_of(chip, engine)
    query = CellQuery(
        level=level,
        metric=metric,
        load="disaggregated" if disaggregated else load,
        kind=kind,
        family=engine.family,
        kernels=chip.kernels,
    )
    cells = _candidates(query)
    if disaggregated:  # never narrower than aggregated serving
        cells += _candidates(replace(query, load=load))
    known = Interval(
        low=min(cell["low"] for cell in cells),
        high=max(cell["high"] for cell in cells),
        slow=max(cell["slow"] for cell in cells),
        rows=rows,
        note=_note(level, rows, chip, engine, disaggregated),
    )
    if not unmeasured:
        return known
    return replace(
        known,
        low=UNMEASURED * known.low,
        high=UNMEASURED * known.high,
        slow=UNMEASURED * known.slow,
        note=unmeasured,
    )


def service_interval(
    metric: Metric,
    chip: ServingChip,
    engine: ServingEngine,
    disaggregated: bool = False,
    unmeasured: str = "",
    *,
    kind: str,
) -> Interval:
    """Return the interval of a planned service: the widest over the loads that it may have."""
    first, *others = (
        interval(metric, chip, engine, disaggregated, unmeasured, load=load, kind=kind)
        for load in SERVICE_LOADS
    )
    return replace(
        first,
        low=min(first.low, *(other.low for other in others)),
        high=max(first.high, *(other.high for other in others)),
        slow=max(first.slow, *(other.slow for other in others)),
    )


def _candidates(query: CellQuery) -> list[dict[str, float]]:
    """Return the cell of a query; for any load on a far chip also those of chips with runs.

    A chip without runs may be as far off as the worst chip with runs.
    """
    cells = _table()["cell"]
    matching = [next(cells[key] for key in query.keys if key in cells)]
    if query.level == "far" and not query.load:
        head = f"near|{query.metric}|||"
        matching += [cell for key, cell in cells.items() if key.startswith(head)]
    return matching


def _note(
    level: Level, rows: int, chip: ServingChip, engine: ServingEngine, disaggregated: bool
) -> str:
    """Return why an interval is wide."""
    if not chip.calibrated:
        return (
            f"few published runs of {chip.name}: constants of the nearest architecture"
            f" ({chip.kernels})"
        )
    if level == "far":
        return f"no published runs of {engine.name}: constants of its runtime"
    if level == "sibling":
        return f"only {rows} published runs of {engine.name} on {chip.name}"
    if disaggregated:
        return "disaggregated prefill: KV-cache transfer setup takes 0.1 to 0.2 s in published runs"
    return ""
