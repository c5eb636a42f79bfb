"""Fit the prediction intervals of the serving model to errors of held-out runs.

Idea: split conformal prediction per cell. A cell's bounds are the 5 % and 95 % quantiles of its log
errors with the finite-sample correction. Groups held out of the quantiles need wider bounds, by one
factor per level and metric. Only a share of that factor is applied: a new run usually resembles a
known group.
Invariant: a coarser cell contains every error of a finer one, so every query has a cell.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
import numpy.typing as npt

from gpuyard.perf.inference.case import ServingBenchmark
from gpuyard.perf.inference.error_bars import CellQuery, Level, Metric

Reals = npt.NDArray[np.float64]
COVERAGE = 0.9
MIN_ROWS, MIN_GROUPS = 40, 2  # of a cell by engine, chip or kind
MIN_LOAD_ROWS = 30  # of a cell by load alone
MAX_WIDENING = 3.0  # of a level
WIDENING_SHARE = 0.1  # applied share of that factor, on the log scale
LEVELS: tuple[Level, ...] = get_args(Level)
METRICS: tuple[Metric, ...] = ("throughput", "tpot", "ttft", "e2e")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutError:
    """Log error (measured over predicted) of one metric of a held-out run."""

    query: CellQuery
    group: str  # the runs held out together
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Bounds of log(measured / predicted)."""

    low: float
    high: float
    slow: float  # 90 % quantile of the error on the slow side
    rows: int


def load_of(case: ServingBenchmark) -> str:
    """Return the load kind of a run as in cell names."""
    return "disaggregated" if case.prefill is not None else case.load.kind


def query_of(case: ServingBenchmark, level: Level, metric: Metric) -> CellQuery:
    """Return the query of a run's interval at a distance."""
    return CellQuery(
        level=level,
        metric=metric,
        load=load_of(case),
        kind=case.shape.kind,
        family=case.engine.family,
        kernels=case.chip.kernels,
    )


def held_out_errors(
    cases: Sequence[ServingBenchmark],
    levels: Sequence[Level],
    groups: Sequence[str],
    predicted: Reals,
    truth: Reals,
) -> list[HeldOutError]:
    """Return the errors of some runs, one per known metric."""
    errors = np.log(truth / np.maximum(predicted, 1e-12))
    return [
        HeldOutError(
            query=query_of(case, levels[i], metric),
            group=groups[i],
            error=float(errors[i, k]),
        )
        for i, case in enumerate(cases)
        for k, metric in enumerate(METRICS)
        if np.isfinite(errors[i, k])
    ]


def fit_cells(errors: Sequence[HeldOutError]) -> dict[str, Cell]:
    """Return the bounds of every cell with enough runs, widened for held-out groups."""
    samples = _Samples(errors)
    widths = _widths(errors, samples)
    cells: dict[str, Cell] = {}
    for key in samples.keys:
        if cell := samples.cell(key):
            level, metric = key.split("|")[:2]
            factor = widths.get((level, metric), 1.0) ** WIDENING_SHARE
            cells[key] = Cell(
                low=factor * cell.low,
                high=factor * cell.high,
                slow=factor * cell.slow,
                rows=cell.rows,
            )
    for nearer, farther in itertools.pairwise(LEVELS):
        for key in [key for key in cells if key.startswith(f"{farther}|")]:
            near = cells.get(nearer + key.removeprefix(farther))
            if near is not None:  # never narrower with distance
                cell = cells[key]
                low, high = min(cell.low, near.low), max(cell.high, near.high)
                slow = max(cell.slow, near.slow)
                cells[key] = Cell(low=low, high=high, slow=slow, rows=cell.rows)
    return cells


def cell_of(cells: Mapping[str, Cell], query: CellQuery) -> Cell | None:
    """Return the finest cell of a query."""
    return next((cells[key] for key in query.keys if key in cells), None)


def coverage(errors: Iterable[HeldOutError], cells: Mapping[str, Cell]) -> float:
    """Return the share of errors inside their cells; NaN without errors."""
    inside = [
        cell.low <= item.error <= cell.high
        for item in errors
        if (cell := cell_of(cells, item.query)) is not None
    ]
    return float(np.mean(inside)) if inside else float("nan")


class _Samples:
    """Errors and groups by cell."""

    def __init__(self, errors: Iterable[HeldOutError]) -> None:
        values: dict[str, list[float]] = defaultdict(list)
        groups: dict[str, list[str]] = defaultdict(list)
        for item in errors:
            for key in item.query.cells:
                values[key].append(item.error)
                groups[key].append(item.group)
        self._values = {key: np.array(some) for key, some in values.items()}
        self._groups = {key: np.array(some) for key, some in groups.items()}

    @property
    def keys(self) -> Iterable[str]:
        return self._values

    def cell(self, key: str, without: str = "") -> Cell | None:
        """Return the bounds of a cell with a group held out; None with too few errors left."""
        if key not in self._values:
            return None
        rest = self._groups[key] != without
        values = self._values[key][rest]
        if key.endswith("||||"):  # all runs of a level
            return _cell(key, np.sort(values)) if len(values) else None
        if key.endswith("|||"):  # of a load
            return _cell(key, np.sort(values)) if len(values) >= MIN_LOAD_ROWS else None
        groups = len(np.unique(self._groups[key][rest]))
        if len(values) < MIN_ROWS or groups < MIN_GROUPS:
            return None
        return _cell(key, np.sort(values))


def _cell(key: str, errors: Reals) -> Cell:
    """Return the corrected 5 % and 95 % quantiles of sorted errors, with 0 between them."""
    slower = -errors if "|throughput|" in key else errors
    count = len(errors)
    last = min(int(np.ceil((count + 1) * (1.0 + COVERAGE) / 2.0)), count) - 1
    low, high = float(errors[count - 1 - last]), float(errors[last])
    slow = max(float(np.quantile(slower, 0.9)), 0.01)
    return Cell(low=min(low, -0.01), high=max(high, 0.01), slow=slow, rows=count)


def _widths(errors: Sequence[HeldOutError], samples: _Samples) -> dict[tuple[str, str], float]:
    """Return the widening per level and metric that covers groups held out of the quantiles."""
    needed: dict[tuple[str, str], list[float]] = defaultdict(list)
    cells: dict[tuple[CellQuery, str], Cell | None] = {}
    for item in errors:
        place = item.query, item.group
        if place not in cells:
            finest = (samples.cell(key, item.group) for key in item.query.keys)
            cells[place] = next((cell for cell in finest if cell), None)
        cell = cells[place]
        if cell is not None:
            side = cell.high if item.error > 0.0 else cell.low
            needed[item.query.level, item.query.metric].append(item.error / side)
    return {
        part: float(np.clip(np.quantile(factors, COVERAGE), 1.0, MAX_WIDENING))
        for part, factors in needed.items()
    }
