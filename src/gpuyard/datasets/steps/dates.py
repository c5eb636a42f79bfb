"""Date parts as numbers: hour, weekday, month and so on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import polars as pl

from gpuyard.datasets.batch import RowBatch, Slots
from gpuyard.datasets.columns import ColumnNames, Columns, Kind
from gpuyard.datasets.step import ColumnStep, Operation, StatelessStep
from gpuyard.datasets.times import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from gpuyard.document.field_types import Doc

DatePart = Literal[
    "year", "month", "day", "weekday", "hour", "minute", "second", "day_of_year", "epoch"
]


def _truncated(micros: np.ndarray, unit: str) -> np.ndarray:
    return micros.astype("datetime64[us]").astype(f"datetime64[{unit}]")


def _days_since(micros: np.ndarray, unit: str) -> np.ndarray:
    start = _truncated(micros, unit).astype("datetime64[D]").astype(np.int64)
    return micros // DAY_US - start + 1


# Parts of microseconds since 1970 (int64), numbered as in Polars: Monday is 1, January 1st is 1.
_NUMPY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "year": lambda micros: _truncated(micros, "Y").astype(np.int64) + 1970,
    "month": lambda micros: _truncated(micros, "M").astype(np.int64) % 12 + 1,
    "day": lambda micros: _days_since(micros, "M"),
    "weekday": lambda micros: (micros // DAY_US + 3) % 7 + 1,
    "hour": lambda micros: micros // HOUR_US % 24,
    "minute": lambda micros: micros // MINUTE_US % 60,
    "second": lambda micros: micros // SECOND_US % 60,
    "day_of_year": lambda micros: _days_since(micros, "Y"),
    "epoch": lambda micros: micros / 1e6,
}
_POLARS: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "year": lambda time: time.dt.year(),
    "month": lambda time: time.dt.month(),
    "day": lambda time: time.dt.day(),
    "weekday": lambda time: time.dt.weekday(),
    # integer division is three times as fast as the calendar, which these do not need
    "hour": lambda time: (time.to_physical() // HOUR_US % 24).cast(pl.Int8),
    "minute": lambda time: (time.to_physical() // MINUTE_US % 60).cast(pl.Int8),
    "second": lambda time: (time.to_physical() // SECOND_US % 60).cast(pl.Int8),
    "day_of_year": lambda time: time.dt.ordinal_day(),
    "epoch": lambda time: time.to_physical() / 1e6,
}
_TYPES = {"year": "Int32", "day_of_year": "Int16", "epoch": "Float64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DateParts(ColumnStep, StatelessStep):
    """Add parts of a time as columns, in UTC."""

    KINDS: ClassVar[tuple[Kind, ...]] = ("time",)
    columns: ColumnNames = ("*",)
    parts: Annotated[
        tuple[DatePart, ...],
        Doc("which parts; weekday 1 is Monday, epoch is seconds since 1970"),
    ] = ("year", "month", "day", "weekday", "hour")

    def _names(self) -> list[tuple[str, DatePart, str]]:
        return [(name, part, f"{name}_{part}") for name in self.columns for part in self.parts]

    def expressions(self) -> tuple[pl.Expr, ...]:
        return tuple(
            _POLARS[part](pl.col(name).cast(pl.Datetime("us"))).alias(new)
            for name, part, new in self._names()
        )

    def after(self, columns: Columns) -> Columns:
        return columns.with_columns(
            {new: _TYPES.get(part, "Int8") for _, part, new in self._names()}
        )

    def numpy_operation(self, slots: Slots) -> Operation:
        places = [
            (slots.number(name), slots.number(new), _NUMPY[part])
            for name, part, new in self._names()
        ]

        def run(batch: RowBatch) -> None:
            for source, at, take in places:
                column = batch.numbers[:, source]
                missing = np.isnan(column)
                micros = np.where(missing, 0.0, column).astype(np.int64)
                batch.numbers[:, at] = np.where(missing, np.nan, take(micros))

        return run
