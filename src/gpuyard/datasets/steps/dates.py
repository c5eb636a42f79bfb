"""Calendar features: hour, weekday, week, month end and so on, also as points on a circle."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
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
    "year", "quarter", "month", "week", "day", "weekday", "weekend", "hour", "minute", "second",
    "day_of_year", "days_in_month", "month_start", "month_end", "epoch",
]  # fmt: skip
_FUNCTIONS: tuple[Literal["sin", "cos"], ...] = ("sin", "cos")
# Parts that repeat: their first value and their period, for `cyclic`.
_CYCLES: dict[str, tuple[int, float]] = {
    "quarter": (1, 4.0),
    "month": (1, 12.0),
    "week": (1, 52.1775),
    "day": (1, 31.0),
    "weekday": (1, 7.0),
    "hour": (0, 24.0),
    "minute": (0, 60.0),
    "second": (0, 60.0),
    "day_of_year": (1, 365.2425),
}


def _truncated(micros: np.ndarray, unit: str) -> np.ndarray:
    return micros.astype("datetime64[us]").astype(f"datetime64[{unit}]")


def _days_since(micros: np.ndarray, unit: str) -> np.ndarray:
    start = _truncated(micros, unit).astype("datetime64[D]").astype(np.int64)
    return micros // DAY_US - start + 1


def _days_in_month(micros: np.ndarray) -> np.ndarray:
    months = _truncated(micros, "M")
    days: np.ndarray = (months + 1).astype("datetime64[D]") - months.astype("datetime64[D]")
    return days.astype(np.int64)


def _iso_week(micros: np.ndarray) -> np.ndarray:
    thursday = micros // DAY_US - (micros // DAY_US + 3) % 7 + 3  # of the same week
    return (_days_since(thursday * DAY_US, "Y") - 1) // 7 + 1


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
    "quarter": lambda micros: _truncated(micros, "M").astype(np.int64) % 12 // 3 + 1,
    "week": _iso_week,
    "weekend": lambda micros: (micros // DAY_US + 3) % 7 >= 5,
    "days_in_month": _days_in_month,
    "month_start": lambda micros: _days_since(micros, "M") == 1,
    "month_end": lambda micros: _days_since(micros, "M") == _days_in_month(micros),
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
    "quarter": lambda time: time.dt.quarter(),
    "week": lambda time: time.dt.week(),
    "weekend": lambda time: time.dt.weekday() >= 6,
    "days_in_month": lambda time: time.dt.days_in_month(),
    "month_start": lambda time: time.dt.day() == 1,
    "month_end": lambda time: time.dt.day() == time.dt.days_in_month(),
    "epoch": lambda time: time.to_physical() / 1e6,
}
_TYPES = {"year": "Int32", "day_of_year": "Int16", "epoch": "Float64"} | dict.fromkeys(
    ("weekend", "month_start", "month_end"), "Boolean"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewColumn:
    source: str
    part: DatePart
    name: str
    function: Literal["", "sin", "cos"] = ""

    @property
    def dtype(self) -> str:
        return "Float64" if self.function else _TYPES.get(self.part, "Int8")

    def expression(self) -> pl.Expr:
        value = _POLARS[self.part](pl.col(self.source).cast(pl.Datetime("us")))
        if self.function:
            start, period = _CYCLES[self.part]
            angle = (value.cast(pl.Float64) - start) * (2 * math.pi / period)
            value = angle.sin() if self.function == "sin" else angle.cos()
        return value.alias(self.name)

    def values(self, micros: np.ndarray) -> np.ndarray:
        value = _NUMPY[self.part](micros)
        if not self.function:
            return value
        start, period = _CYCLES[self.part]
        angle = (value - start) * (2 * math.pi / period)
        return np.sin(angle) if self.function == "sin" else np.cos(angle)


@dataclass(frozen=True, slots=True, kw_only=True)
class DateParts(ColumnStep, StatelessStep):
    """Add parts of a time as columns, in UTC."""

    KINDS: ClassVar[tuple[Kind, ...]] = ("time",)
    columns: ColumnNames = ("*",)
    parts: Annotated[
        tuple[DatePart, ...],
        Doc("which parts; weekday 1 is Monday, week is that of ISO 8601, epoch is in seconds"),
    ] = ("year", "month", "day", "weekday", "hour")
    cyclic: Annotated[
        bool, Doc("sine and cosine of parts that repeat, so that December is next to January")
    ] = False

    def _new_columns(self) -> Iterator[_NewColumn]:
        for source in self.columns:
            for part in self.parts:
                name = f"{source}_{part}"
                if self.cyclic and part in _CYCLES:
                    for function in _FUNCTIONS:
                        new = f"{name}_{function}"
                        yield _NewColumn(source=source, part=part, name=new, function=function)
                else:
                    yield _NewColumn(source=source, part=part, name=name)

    def expressions(self) -> tuple[pl.Expr, ...]:
        return tuple(column.expression() for column in self._new_columns())

    def after(self, columns: Columns) -> Columns:
        return columns.with_columns({new.name: new.dtype for new in self._new_columns()})

    def numpy_operation(self, slots: Slots) -> Operation:
        places = [
            (slots.number(column.source), slots.number(column.name), column.values)
            for column in self._new_columns()
        ]

        def run(batch: RowBatch) -> None:
            for source, at, take in places:
                column = batch.numbers[:, source]
                missing = np.isnan(column)
                micros = np.where(missing, 0.0, column).astype(np.int64)
                batch.numbers[:, at] = np.where(missing, np.nan, take(micros))

        return run
