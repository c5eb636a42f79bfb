"""Power transforms of skewed columns: logarithm, Box-Cox, Yeo-Johnson."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, cast

import numpy as np
import polars as pl

from gpuyard.datasets.aggregates import QuantileSketch, QuantilesRequest
from gpuyard.datasets.batch import RowBatch, Slots
from gpuyard.datasets.columns import ColumnNames, Columns
from gpuyard.datasets.step import ColumnStep, FloatColumns, Operation, Statistics, StatRequest
from gpuyard.document.field_types import Doc

Method = Literal["log", "box_cox", "yeo_johnson"]
_NEAR_ZERO = 1e-12
_MAX_EXPONENT = 8.0  # exponents are searched between -8 and 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedPower(FloatColumns):
    """Power of every column: log(1 + x), (xᵏ - 1) / k for x > 0, or Yeo-Johnson for any x."""

    method: Method
    exponents: tuple[float, ...]

    def expressions(self) -> tuple[pl.Expr, ...]:
        """Return the new columns; null outside the domain of the transform."""
        return tuple(
            self._expression(name, k) for name, k in zip(self.columns, self.exponents, strict=True)
        )

    def _expression(self, name: str, k: float) -> pl.Expr:
        x = pl.col(name).cast(pl.Float64)
        if self.method == "log":
            return pl.when(x > -1).then(x.log1p())
        if self.method == "box_cox":
            return pl.when(x > 0).then(x.log() if abs(k) < _NEAR_ZERO else (x.pow(k) - 1) / k)
        right = x.log1p() if abs(k) < _NEAR_ZERO else ((x + 1).pow(k) - 1) / k
        left = -(-x).log1p() if abs(k - 2) < _NEAR_ZERO else -((1 - x).pow(2 - k) - 1) / (2 - k)
        return pl.when(x >= 0).then(right).otherwise(left)

    def numpy_operation(self, slots: Slots) -> Operation:
        pairs = [
            (slots.number(name), k) for name, k in zip(self.columns, self.exponents, strict=True)
        ]

        def run(batch: RowBatch) -> None:
            with np.errstate(invalid="ignore", divide="ignore"):
                for at, k in pairs:
                    batch.numbers[:, at] = _power(batch.numbers[:, at], self.method, k)

        return run


def _power(x: np.ndarray, method: str, k: float) -> np.ndarray:
    """Return the transform of an array; NaN outside its domain."""
    if method == "log":
        return np.where(x > -1, np.log1p(np.maximum(x, -0.5) if (x <= -1).any() else x), np.nan)
    if method == "box_cox":
        new = np.log(x) if abs(k) < _NEAR_ZERO else (np.power(x, k) - 1) / k
        return np.where(x > 0, new, np.nan)
    right = np.log1p(x) if abs(k) < _NEAR_ZERO else (np.power(x + 1, k) - 1) / k
    left = -np.log1p(-x) if abs(k - 2) < _NEAR_ZERO else -(np.power(1 - x, 2 - k) - 1) / (2 - k)
    return np.where(np.isnan(x), x, np.where(x >= 0, right, left))


@dataclass(frozen=True, slots=True, kw_only=True)
class Power(ColumnStep):
    """Reduce the skew of columns; exponents are maximum likelihood (Box and Cox 1964)."""

    PARTS = (FittedPower,)
    REQUEST = QuantilesRequest
    IN_PLACE = True
    columns: ColumnNames = ("*",)
    method: Annotated[
        Method, Doc("log: log(1 + x); box_cox: positive numbers; yeo_johnson: any")
    ] = "yeo_johnson"

    def requests(self, columns: Columns) -> tuple[StatRequest, ...]:
        """Return the quantiles of every column, unless no exponent is fitted."""
        return () if self.method == "log" else ColumnStep.requests(self, columns)

    def fit_state(self, statistics: Statistics, columns: Columns) -> tuple[FittedPower, ...]:
        if not self.columns:
            return ()
        exponents = tuple(
            _exponent(cast(QuantileSketch, statistics[request]), self.method)
            for request in self.requests(columns)
        )
        return (
            FittedPower(
                columns=self.columns,
                method=self.method,
                exponents=exponents or (0.0,) * len(self.columns),
            ),
        )


def _exponent(sketch: QuantileSketch, method: str) -> float:
    """Return the maximum-likelihood exponent; 1 where the values do not vary."""
    from scipy.optimize import minimize_scalar

    usable = sketch.values > 0 if method == "box_cox" else np.ones(len(sketch.values), dtype=bool)
    x, weights = sketch.values[usable], sketch.weights[usable]
    if len(x) < 2 or x[0] == x[-1]:
        return 1.0
    jacobian = np.log(x) if method == "box_cox" else np.sign(x) * np.log1p(np.abs(x))

    def loss(k: float) -> float:
        """Return the negative log-likelihood per value, up to a constant."""
        new = _power(x, method, k)
        mean = np.average(new, weights=weights)
        variance = np.average((new - mean) ** 2, weights=weights)
        if not np.isfinite(variance) or variance <= 0:
            return float("inf")
        return float(0.5 * np.log(variance) - (k - 1) * np.average(jacobian, weights=weights))

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        optimum = minimize_scalar(
            loss,
            bounds=(-_MAX_EXPONENT, _MAX_EXPONENT),
            method="bounded",
            options={"xatol": 1e-8},
        )
    return float(optimum.x)
