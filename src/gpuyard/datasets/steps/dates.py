"""Parts of times as numbers: hour, weekday, month and so on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self

import numpy as np
import polars as pl

from gpuyard.datasets.batch import Batch, Slots
from gpuyard.datasets.columns import Columns
from gpuyard.datasets.step import Operation, Unlearned
from gpuyard.document import Doc

__all__ = ["DateParts"]

Part = Literal["year", "month", "day", "weekday", "hour", "minute", "second", "day_of_year", "epoch"]
_HOUR, _DAY = 3_600_000_000, 86_400_000_000


def _months(stamp: np.ndarray) -> np.ndarray:
    """Months since 1970."""
    return stamp.astype("datetime64[us]").astype("datetime64[M]")


# A part of microseconds since 1970 (whole, no NaN), as Polars counts it: Monday is 1, the first of January day 1.
_NUMPY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "year": lambda stamp: stamp.astype("datetime64[us]").astype("datetime64[Y]").astype(np.int64) + 1970,
    "month": lambda stamp: _months(stamp).astype(np.int64) % 12 + 1,
    "day": lambda stamp: (stamp // _DAY) - _months(stamp).astype("datetime64[D]").astype(np.int64) + 1,
    "weekday": lambda stamp: (stamp // _DAY + 3) % 7 + 1,
    "hour": lambda stamp: stamp // _HOUR % 24,
    "minute": lambda stamp: stamp // 60_000_000 % 60,
    "second": lambda stamp: stamp // 1_000_000 % 60,
    "day_of_year": lambda stamp: (
        (stamp // _DAY)
        - stamp.astype("datetime64[us]").astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64)
        + 1
    ),
    "epoch": lambda stamp: stamp / 1e6,
}
_POLARS: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "year": lambda stamp: stamp.dt.year(),
    "month": lambda stamp: stamp.dt.month(),
    "day": lambda stamp: stamp.dt.day(),
    "weekday": lambda stamp: stamp.dt.weekday(),
    # whole division is three times as fast as the calendar, which these do not need
    "hour": lambda stamp: (stamp.to_physical() // _HOUR % 24).cast(pl.Int8),
    "minute": lambda stamp: (stamp.to_physical() // 60_000_000 % 60).cast(pl.Int8),
    "second": lambda stamp: (stamp.to_physical() // 1_000_000 % 60).cast(pl.Int8),
    "day_of_year": lambda stamp: stamp.dt.ordinal_day(),
    "epoch": lambda stamp: stamp.to_physical() / 1e6,
}
_TYPES = {"year": "Int32", "day_of_year": "Int16", "epoch": "Float64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DateParts(Unlearned):
    """Parts of a time as new columns, in UTC."""

    columns: Annotated[tuple[str, ...], Doc("names or patterns; `-name` leaves one out")] = ("*",)
    parts: Annotated[tuple[Part, ...], Doc("which parts; weekday 1 is Monday, epoch is seconds since 1970")] = (
        "year", "month", "day", "weekday", "hour",
    )  # fmt: skip

    def bound(self, columns: Columns, where: str) -> Self:
        """With its columns spelt out."""
        return replace(self, columns=columns.chosen(self.columns, ("time",), where))

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The parts."""
        return tuple(
            _POLARS[part](pl.col(name).cast(pl.Datetime("us"))).alias(f"{name}_{part}")
            for name in self.columns
            for part in self.parts
        )

    def after(self, columns: Columns) -> Columns:
        """With the new columns."""
        return columns.changed(
            {f"{name}_{part}": _TYPES.get(part, "Int8") for name in self.columns for part in self.parts}
        )

    def compiled(self, slots: Slots) -> Operation:
        """The same in NumPy."""
        places = [
            (slots.number(name), slots.number(f"{name}_{part}"), _NUMPY[part])
            for name in self.columns
            for part in self.parts
        ]

        def run(batch: Batch) -> None:
            """Takes the parts; NaN stays."""
            for source, at, take in places:
                column = batch.numbers[:, source]
                missing = np.isnan(column)
                whole = np.where(missing, 0.0, column).astype(np.int64)
                batch.numbers[:, at] = np.where(missing, np.nan, take(whole))

        return run
