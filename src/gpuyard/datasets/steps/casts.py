"""Type casts of columns, and parsing of dates; values that do not fit are quarantined or null."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import polars as pl

from gpuyard.datasets.batch import RowBatch, Slots
from gpuyard.datasets.columns import Columns, Kind
from gpuyard.datasets.step import ColumnStep, Fitted, Operation, Statistics
from gpuyard.datasets.times import DAY_US, micros_of
from gpuyard.document.field_types import Doc
from gpuyard.errors import InputError

CastType = Literal["float", "int", "bool", "text", "date", "datetime"]
_TYPES: dict[str, pl.DataType] = {
    "float": pl.Float64(),
    "int": pl.Int64(),
    "bool": pl.Boolean(),
    "text": pl.String(),
    "date": pl.Date(),
    "datetime": pl.Datetime("us"),
}
_TRUE = ("true", "1", "yes", "y", "t")
_FALSE = ("false", "0", "no", "n", "f")
_NAN = float("nan")


def _cast_expr(name: str, kind: Kind, to: str, form: str) -> pl.Expr:
    """Return a column in its new type, null where a value does not fit."""
    column = pl.col(name)
    if kind != "text":
        source = column.cast(pl.Datetime("us")) if kind == "time" and to == "datetime" else column
        return source.cast(_TYPES[to], strict=False)
    stripped = column.str.strip_chars()
    if to in ("date", "datetime"):
        return _parsed_time(stripped, form).cast(_TYPES[to])
    if to == "bool":
        word = stripped.str.to_lowercase()
        return pl.when(word.is_in(_TRUE)).then(True).when(word.is_in(_FALSE)).then(False)
    new = stripped.cast(_TYPES[to], strict=False)
    return pl.when(new.is_finite()).then(new) if to == "float" else new


def _parsed_time(text: pl.Expr, form: str) -> pl.Expr:
    if form:
        return text.str.to_datetime(form, time_unit="us", strict=False, ambiguous="null")
    local = text.str.replace(r"(Z|[+-]\d\d:?\d\d)$", "").str.replace("T", " ")
    full = pl.when(local.str.len_chars() == 10).then(local + " 00:00:00").otherwise(local)
    parsed = full.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False)
    return parsed - _utc_offset(text)


def _utc_offset(text: pl.Expr) -> pl.Expr:
    groups = text.str.extract_groups(r"T?.*\d\d:\d\d.*([+-])(\d\d):?(\d\d)$").struct
    minutes = groups.field("2").cast(pl.Int64) * 60 + groups.field("3").cast(pl.Int64)
    signed = pl.when(groups.field("1") == "-").then(-minutes).otherwise(minutes)
    return pl.duration(minutes=signed.fill_null(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class _CastPart:
    columns: tuple[str, ...]
    kinds: tuple[Kind, ...]
    to: CastType
    format: str = ""

    @property
    def reads(self) -> tuple[str, ...]:
        return self.columns

    def _casts(self) -> list[tuple[str, pl.Expr]]:
        return [
            (name, _cast_expr(name, kind, self.to, self.format))
            for name, kind in zip(self.columns, self.kinds, strict=True)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fits(_CastPart):
    """Filter of rows with a value that does not fit its new type."""

    @property
    def quarantined(self) -> bool:
        """Always, so that no value is lost."""
        return True

    def _misfits(self) -> list[tuple[str, pl.Expr]]:
        return [(name, pl.col(name).is_not_null() & cast.is_null()) for name, cast in self._casts()]

    def keep(self) -> pl.Expr:
        return pl.any_horizontal([misfit for _, misfit in self._misfits()]).not_()

    def reason(self) -> pl.Expr:
        """Return the first column that does not fit, and its value."""
        reason = pl.lit("")
        for name, misfit in reversed(self._misfits()):
            value = pl.col(name).cast(pl.String).str.slice(0, 60)
            text = pl.format(f'{name}: "{{}}" is not {self.to}', value)
            reason = pl.when(misfit).then(text).otherwise(reason)
        return reason


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedCast(_CastPart):
    """Columns in their new type, null where a value does not fit.

    With `strict`, a request with such a value is wrong: training quarantined its rows.
    """

    strict: bool = False

    def expressions(self) -> tuple[pl.Expr, ...]:
        return tuple(cast.alias(name) for name, cast in self._casts())

    def after(self, columns: Columns) -> Columns:
        return columns.with_columns(dict.fromkeys(self.columns, str(_TYPES[self.to])))

    def numpy_operation(self, slots: Slots) -> Operation:
        casts = [
            (name, slots.place(name, kind == "text"), kind, slots.place(name, self.to == "text"))
            for name, kind in zip(self.columns, self.kinds, strict=True)
        ]

        def run(batch: RowBatch) -> None:
            for name, source, kind, target in casts:
                if isinstance(source, str):
                    texts = batch.texts[source]
                    if isinstance(target, str):
                        batch.texts[target] = list(texts)
                    else:
                        numbers = np.array([self.number(text) for text in texts])
                        if self.strict:
                            self._check(name, texts, numbers)
                        batch.numbers[:, target] = numbers
                    continue
                numbers = batch.numbers[:, source]
                if isinstance(target, str):
                    batch.texts[target] = [_text(float(number), kind) for number in numbers]
                else:
                    batch.numbers[:, target] = _cast_numbers(numbers, self.to)

        return run

    def _check(self, name: str, texts: Sequence[str | None], numbers: np.ndarray) -> None:
        """Raise InputError with the first text that does not fit."""
        for row in np.flatnonzero(np.isnan(numbers)).tolist():
            text = texts[row]
            if text is not None:
                what = f'row {row}: "{text[:60]}" is not {self.to}'
                fix = "send a value that fits, or null where it is unknown"
                raise InputError.one(f"column {name}", what, fix)

    def number(self, text: str | None) -> float:
        """Return a text in the new type as a number, NaN where it does not fit."""
        if text is None:
            return _NAN
        text = text.strip()
        if self.to in ("date", "datetime"):
            micros = micros_of(text, self.format)
            return micros - micros % DAY_US if self.to == "date" else micros
        if self.to == "bool":
            word = text.lower()
            return 1.0 if word in _TRUE else 0.0 if word in _FALSE else _NAN
        try:
            number = float(int(text)) if self.to == "int" else float(text)
        except ValueError:
            return _NAN
        return _NAN if "_" in text or np.isinf(number) else number


def _text(number: float, kind: Kind) -> str | None:
    if np.isnan(number):
        return None
    if kind == "time":
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=number)
        return moment.isoformat(sep=" ", timespec="microseconds")
    if kind == "bool":
        return "true" if number else "false"
    return str(int(number)) if number.is_integer() else str(number)


def _cast_numbers(values: np.ndarray, to: str) -> np.ndarray:
    if to == "bool":
        return np.where(np.isnan(values), values, (values != 0).astype(np.float64))
    if to == "int":
        return np.asarray(np.trunc(values))
    return np.asarray(values - values % DAY_US) if to == "date" else values


@dataclass(frozen=True, slots=True, kw_only=True)
class _CastStep(ColumnStep):
    """Settings shared by `cast` and `dates`."""

    PARTS = (FittedCast,)

    def _parts(self, columns: Columns, to: CastType, form: str, bad: str) -> tuple[Fitted, ...]:
        if not self.columns:
            return ()
        kinds = tuple(column.kind for name in self.columns if (column := columns.get(name)))
        is_null = bad == "null"
        cast = FittedCast(columns=self.columns, kinds=kinds, to=to, format=form, strict=not is_null)
        if is_null:
            return (cast,)
        return Fits(columns=self.columns, kinds=kinds, to=to, format=form), cast


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast(_CastStep):
    """Cast columns; a row with a value that does not fit is quarantined, or the value is null."""

    KINDS: ClassVar[tuple[Kind, ...]] = ("number", "bool", "text", "time")
    to: Annotated[CastType, Doc("the new type")]
    bad: Annotated[Literal["quarantine", "null"], Doc("what to do with values that do not fit")] = (
        "quarantine"
    )

    def fit_state(self, statistics: Statistics, columns: Columns) -> tuple[Fitted, ...]:  # noqa: ARG002
        return self._parts(columns, self.to, "", self.bad)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dates(_CastStep):
    """Parse texts as times: ISO 8601 (to UTC) unless a format is set."""

    KINDS: ClassVar[tuple[Kind, ...]] = ("text", "time")
    format: Annotated[str, Doc("a strptime format: %d.%m.%Y %H:%M")] = ""
    bad: Annotated[
        Literal["quarantine", "null"], Doc("what to do with texts that are not times")
    ] = "quarantine"

    def fit_state(self, statistics: Statistics, columns: Columns) -> tuple[Fitted, ...]:  # noqa: ARG002
        return self._parts(columns, "datetime", self.format, self.bad)
