"""Calibrate the serving model to one machine from a few measured points.

Idea: linear-Gaussian update. Constants shift in five groups, each with a prior spread: how much one
installation differs from published ones. The slopes of TPOT, TTFT and throughput with respect to
the groups decide which of them a point informs. What the groups cannot explain remains an error of
the configuration. The new interval keeps that part and shrinks the part shared by all runs of one
machine.
Source: Bishop, Pattern Recognition and Machine Learning (2006), 3.3; shrinkage of a group mean,
Searle, Casella and McCulloch, Variance Components (1992), 3.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt

from gpuyard.calibrate.vllm_benchmark import MeasuredServing
from gpuyard.document.field_types import Doc
from gpuyard.errors import Infeasible, InputError
from gpuyard.perf.inference.calibration import ServingCalibration
from gpuyard.perf.inference.case import ServingBenchmark
from gpuyard.perf.inference.error_bars import Interval, Metric, interval
from gpuyard.simulate.serving.predict_published import predict

Reals = npt.NDArray[np.float64]
STEP = 0.05  # of log(group), for finite differences: above the rounding of batches
SHARED = 0.45  # share of the variance of held-out log errors common to one model, chip and engine
NOISE = 0.05  # standard deviation of a repeated measurement's logarithm
FIGURES: tuple[Metric, ...] = ("throughput", "tpot", "ttft")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantGroup:
    """Constants that shift by one common factor per installation."""

    name: str
    spread: float  # prior standard deviation of the logarithm
    chip: tuple[str, ...] = ()  # prefixes of quantities
    engine: tuple[str, ...] = ()
    link: tuple[str, ...] = ()

    def names(self, case: ServingBenchmark, calibration: ServingCalibration) -> tuple[str, ...]:
        """Return the constants of a case that the group moves."""
        prefixes = (
            *(f"{case.chip.kernels}.{what}" for what in self.chip),
            *(f"{case.engine.name}.{what}" for what in self.engine),
            *(f"{case.chip.link}.{what}" for what in self.link),
        )
        return tuple(name for name in calibration.values if name.startswith(prefixes))


GROUPS = (
    ConstantGroup(name="memory bandwidth", spread=0.08, chip=("stream", "expert_stream", "kv")),
    ConstantGroup(name="matmul rate", spread=0.1, chip=("gemm.", "experts.", "attention")),
    ConstantGroup(name="launch and host time", spread=0.4, engine=("layer_us", "eager_", "host_")),
    ConstantGroup(name="request overhead", spread=0.7, engine=("request_",)),
    ConstantGroup(name="link bandwidth", spread=0.2, link=("ratio",)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShift:
    """Factor of a group of constants relative to published runs."""

    name: str
    factor: float
    error: Annotated[float, Doc("standard error of the factor's logarithm")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PointFit:
    """A measured point, and its prediction before and after the shift."""

    name: str
    measured: tuple[float, float, float]
    before: tuple[float, float, float]
    after: tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingShift:
    """Calibrated constants of one installation, and the change of the intervals."""

    calibration: ServingCalibration
    shifts: tuple[GroupShift, ...]
    points: tuple[PointFit, ...]
    interval_ratio: Annotated[float, Doc("width of the new intervals over the old, logarithms")]

    def interval(self, metric: Metric, case: ServingBenchmark) -> Interval:
        """Return the interval of a prediction on the same installation."""
        known = interval(metric, case.chip, case.engine, load=case.load.kind)
        return Interval(
            low=self.interval_ratio * known.low,
            high=self.interval_ratio * known.high,
            slow=self.interval_ratio * known.slow,
            rows=known.rows,
            note=f"calibrated by {len(self.points)} measured points",
        )


def calibrate_serving(
    points: Sequence[MeasuredServing], calibration: ServingCalibration
) -> ServingShift:
    """Return the constants shifted by measured points of one chip and engine."""
    if not points:
        raise InputError.one("serving benchmarks", "no measured point", "give one to three files")
    kinds = {(point.case.chip.name, point.case.engine.name) for point in points}
    if len(kinds) > 1:
        raise InputError.one(
            "serving benchmarks",
            "points of several chips or engines: "
            + ", ".join(f"{a} {b}" for a, b in sorted(kinds)),
            "calibrate each chip and engine separately",
        )
    groups = [group for group in GROUPS if group.names(points[0].case, calibration)]
    before = np.array([_figures(point.case, calibration) for point in points])
    measured = np.array([[p.output_tokens_per_s, p.tpot_s, p.ttft_s] for p in points])
    slopes = np.array([_slopes(point.case, calibration, groups) for point in points])
    error = np.log(measured / before).ravel()
    known = np.isfinite(error)
    shift, variance = _posterior(
        slopes.reshape(-1, len(groups))[known],
        error[known],
        np.array([group.spread for group in groups]),
        _unshared(points)[known],
    )
    new = calibration
    for group, move in zip(groups, shift, strict=True):
        new = _moved(group, points[0].case, new, float(move))
    after = np.array([_figures(point.case, new) for point in points])
    return ServingShift(
        calibration=new,
        shifts=tuple(
            GroupShift(name=group.name, factor=float(np.exp(move)), error=float(size))
            for group, move, size in zip(groups, shift, np.sqrt(variance), strict=True)
        ),
        points=tuple(
            PointFit(name=p.name, measured=_three(m), before=_three(b), after=_three(a))
            for p, m, b, a in zip(points, measured, before, after, strict=True)
        ),
        interval_ratio=interval_ratio(len(points)),
    )


def interval_ratio(count: int) -> float:
    """Return interval width after `count` points of the same machine, over the width before."""
    left = SHARED * (1.0 - SHARED) / (1.0 - SHARED + count * SHARED)
    return float(np.sqrt(1.0 - SHARED + left))


def _posterior(slopes: Reals, error: Reals, spread: Reals, unshared: Reals) -> tuple[Reals, Reals]:
    """Return mean and variance of the groups' logarithms, given log errors of the points."""
    precision = np.diag(spread**-2.0) + slopes.T @ (slopes / unshared[:, None] ** 2)
    covariance = np.linalg.inv(precision)
    return covariance @ slopes.T @ (error / unshared**2), np.diag(covariance)


def _unshared(points: Sequence[MeasuredServing]) -> Reals:
    """Return the standard deviation of the part of each error that is not shared."""
    sizes = []
    for point in points:
        for metric in FIGURES:
            known = interval(metric, point.case.chip, point.case.engine, load=point.case.load.kind)
            sizes.append(0.5 * (known.high - known.low) / 1.645 * np.sqrt(1.0 - SHARED))
    return np.asarray(np.hypot(np.array(sizes), NOISE))


def _slopes(
    case: ServingBenchmark, calibration: ServingCalibration, groups: Sequence[ConstantGroup]
) -> Reals:
    """Return d log(figure) / d log(group), figures × groups."""
    columns = []
    for group in groups:
        more, less = (
            _figures(case, _moved(group, case, calibration, side * STEP)) for side in (1.0, -1.0)
        )
        columns.append(np.log(more / less) / (2.0 * STEP))
    return np.nan_to_num(np.array(columns).T)


def _moved(
    group: ConstantGroup, case: ServingBenchmark, calibration: ServingCalibration, move: float
) -> ServingCalibration:
    factor = float(np.exp(move))
    return calibration.replaced(
        {name: factor * calibration[name] for name in group.names(case, calibration)}
    )


def _figures(case: ServingBenchmark, calibration: ServingCalibration) -> Reals:
    """Return throughput, TPOT and TTFT."""
    result = predict(case, calibration)
    if isinstance(result, Infeasible):
        raise InputError.one(case.row["id"], result.what, result.fix)
    return np.array([result.output_tokens_per_s, result.tpot_s, result.ttft_s])


def _three(values: Reals) -> tuple[float, float, float]:
    first, second, third = (float(value) for value in values)
    return first, second, third
