"""Skewed columns made even: logarithm, Box-Cox, Yeo-Johnson; and the ranks of values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self, cast

import numpy as np
import polars as pl

from gpuyard.datasets.aggregates import Quantiles, QuantilesNeed
from gpuyard.datasets.batch import Batch, Slots
from gpuyard.datasets.columns import Columns, Kind
from gpuyard.datasets.step import Found, Need, Operation
from gpuyard.document import Doc

__all__ = ["Power", "Powered"]

_NUMBERS: tuple[Kind, ...] = ("number",)
_NEAR_ZERO = 1e-12
_SPAN = 8.0  # exponents are sought between -8 and 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Powered:
    """A power of every column: log(1 + x), (xᵏ - 1) / k for x > 0, or Yeo and Johnson's form for any x."""

    columns: tuple[str, ...]
    method: Literal["log", "box_cox", "yeo_johnson"]
    exponents: tuple[float, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The new columns; null where the form has no value."""
        return tuple(self._expression(name, k) for name, k in zip(self.columns, self.exponents, strict=True))

    def _expression(self, name: str, k: float) -> pl.Expr:
        """One column."""
        x = pl.col(name).cast(pl.Float64)
        if self.method == "log":
            return pl.when(x > -1).then(x.log1p())
        if self.method == "box_cox":
            return pl.when(x > 0).then(x.log() if abs(k) < _NEAR_ZERO else (x.pow(k) - 1) / k)
        right = x.log1p() if abs(k) < _NEAR_ZERO else ((x + 1).pow(k) - 1) / k
        left = -(-x).log1p() if abs(k - 2) < _NEAR_ZERO else -((1 - x).pow(2 - k) - 1) / (2 - k)
        return pl.when(x >= 0).then(right).otherwise(left)

    def after(self, columns: Columns) -> Columns:
        """The same names, as floats."""
        return columns.changed(dict.fromkeys(self.columns, "Float64"))

    def compiled(self, slots: Slots) -> Operation:
        """The same in NumPy, column by column."""
        pairs = [(slots.number(name), k) for name, k in zip(self.columns, self.exponents, strict=True)]

        def run(batch: Batch) -> None:
            """Transforms the rows."""
            with np.errstate(invalid="ignore", divide="ignore"):
                for at, k in pairs:
                    batch.numbers[:, at] = _power(batch.numbers[:, at], self.method, k)

        return run


def _power(x: np.ndarray, method: str, k: float) -> np.ndarray:
    """The power of an array; NaN where the form has no value."""
    if method == "log":
        return np.where(x > -1, np.log1p(np.maximum(x, -0.5) if (x <= -1).any() else x), np.nan)
    if method == "box_cox":
        new = np.log(x) if abs(k) < _NEAR_ZERO else (np.power(x, k) - 1) / k
        return np.where(x > 0, new, np.nan)
    right = np.log1p(x) if abs(k) < _NEAR_ZERO else (np.power(x + 1, k) - 1) / k
    left = -np.log1p(-x) if abs(k - 2) < _NEAR_ZERO else -(np.power(1 - x, 2 - k) - 1) / (2 - k)
    return np.where(np.isnan(x), x, np.where(x >= 0, right, left))


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Takes the skew out of columns; the exponent is the one of greatest likelihood (Box and Cox 1964)."""

    columns: Annotated[tuple[str, ...], Doc("names or patterns; `-name` leaves one out")] = ("*",)
    method: Annotated[
        Literal["log", "box_cox", "yeo_johnson"],
        Doc("log: log(1 + x); box_cox: positive numbers; yeo_johnson: any"),
    ] = "yeo_johnson"

    def bound(self, columns: Columns, where: str) -> Self:
        """With its columns spelt out."""
        return replace(self, columns=columns.chosen(self.columns, _NUMBERS, where))

    def needs(self, columns: Columns) -> tuple[Need, ...]:  # noqa: ARG002
        """The values in order."""
        return () if self.method == "log" else tuple(QuantilesNeed(column=name) for name in self.columns)

    def fitted(self, found: Found, columns: Columns) -> tuple[Powered, ...]:
        """An exponent for every column."""
        orders = [cast(Quantiles, found[need]) for need in self.needs(columns)]
        exponents = tuple(_exponent(one, self.method) for one in orders) or (0.0,) * len(self.columns)
        return (Powered(columns=self.columns, method=self.method, exponents=exponents),) if self.columns else ()


def _exponent(order: Quantiles, method: str) -> float:
    """The exponent of greatest likelihood; 1 where the values have no spread."""
    from scipy.optimize import minimize_scalar

    keep = order.values > 0 if method == "box_cox" else np.ones(len(order.values), dtype=bool)
    x, weights = order.values[keep], order.weights[keep]
    if len(x) < 2 or x[0] == x[-1]:
        return 1.0
    jacobian = np.log(x) if method == "box_cox" else np.sign(x) * np.log1p(np.abs(x))

    def loss(k: float) -> float:
        """The negative log likelihood of a value, up to a constant."""
        new = _power(x, method, k)
        mean = np.average(new, weights=weights)
        variance = np.average((new - mean) ** 2, weights=weights)
        if not np.isfinite(variance) or variance <= 0:
            return float("inf")
        return float(0.5 * np.log(variance) - (k - 1) * np.average(jacobian, weights=weights))

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = minimize_scalar(loss, bounds=(-_SPAN, _SPAN), method="bounded", options={"xatol": 1e-8})
    return float(found.x)
