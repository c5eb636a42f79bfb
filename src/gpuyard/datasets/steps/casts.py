"""Columns of another type: numbers, truth values, texts and times, with a quarantine for what does not fit."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self

import numpy as np
import polars as pl

from gpuyard.datasets.batch import Batch, Slots
from gpuyard.datasets.columns import Columns, Kind
from gpuyard.datasets.step import Fitted, Found, Need, Operation
from gpuyard.datasets.times import micros_of
from gpuyard.document import Doc

__all__ = ["Cast", "Converted", "Dates", "Fits"]

_ANY: tuple[Kind, ...] = ("number", "bool", "text", "time")
_TYPES: dict[str, pl.DataType] = {
    "float": pl.Float64(), "int": pl.Int64(), "bool": pl.Boolean(), "text": pl.String(), "date": pl.Date(),
    "datetime": pl.Datetime("us"),
}  # fmt: skip
_TRUE, _FALSE = ("true", "1", "yes", "y", "t"), ("false", "0", "no", "n", "f")
Target = Literal["float", "int", "bool", "text", "date", "datetime"]


def _converted(name: str, kind: Kind, to: str, form: str) -> pl.Expr:
    """A column in its new type, null where a value does not fit."""
    column = pl.col(name)
    if kind != "text":
        micros = column.cast(pl.Datetime("us")) if kind == "time" and to == "datetime" else column
        return micros.cast(_TYPES[to], strict=False)
    if to in ("date", "datetime"):
        stamp = column.str.strip_chars()
        if form:
            parsed = stamp.str.to_datetime(form, time_unit="us", strict=False, ambiguous="null")
        else:
            zone = stamp.str.replace(r"(Z|[+-]\d\d:?\d\d)$", "").str.replace("T", " ")
            short = pl.when(zone.str.len_chars() == 10).then(zone + " 00:00:00").otherwise(zone)
            parsed = short.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False) - _offset(stamp)
        return parsed.cast(_TYPES[to])
    if to == "bool":
        word = column.str.strip_chars().str.to_lowercase()
        return pl.when(word.is_in(_TRUE)).then(True).when(word.is_in(_FALSE)).then(False)
    new = column.str.strip_chars().cast(_TYPES[to], strict=False)
    return pl.when(new.is_finite()).then(new) if to == "float" else new


def _offset(stamp: pl.Expr) -> pl.Expr:
    """How far the zone of a time of ISO 8601 is ahead of UTC."""
    found = stamp.str.extract_groups(r"T?.*\d\d:\d\d.*([+-])(\d\d):?(\d\d)$").struct
    minutes = found.field("2").cast(pl.Int64) * 60 + found.field("3").cast(pl.Int64)
    signed = pl.when(found.field("1") == "-").then(-minutes).otherwise(minutes)
    return pl.duration(minutes=signed.fill_null(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fits:
    """Takes away rows of which a value does not fit its new type."""

    columns: tuple[str, ...]
    kinds: tuple[Kind, ...]
    to: Target
    format: str = ""

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    @property
    def quarantined(self) -> bool:
        """Always: nothing is lost."""
        return True

    def _bad(self) -> list[pl.Expr]:
        """By column, whether a value is there but does not fit."""
        return [
            pl.col(name).is_not_null() & _converted(name, kind, self.to, self.format).is_null()
            for name, kind in zip(self.columns, self.kinds, strict=True)
        ]

    def keep(self) -> pl.Expr:
        """All fit."""
        return pl.any_horizontal(self._bad()).not_()

    def reason(self) -> pl.Expr:
        """The first column that does not, and its value."""
        said = pl.lit("")
        for name, bad in reversed(list(zip(self.columns, self._bad(), strict=True))):
            text = pl.format(f'{name}: "{{}}" is not {self.to}', pl.col(name).cast(pl.String).str.slice(0, 60))
            said = pl.when(bad).then(text).otherwise(said)
        return said


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """Columns in their new type; what does not fit is null."""

    columns: tuple[str, ...]
    kinds: tuple[Kind, ...]
    to: Target
    format: str = ""

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The columns."""
        pairs = zip(self.columns, self.kinds, strict=True)
        return tuple(_converted(name, kind, self.to, self.format).alias(name) for name, kind in pairs)

    def after(self, columns: Columns) -> Columns:
        """The same names, of the new type."""
        return columns.changed(dict.fromkeys(self.columns, str(_TYPES[self.to])))

    def compiled(self, slots: Slots) -> Operation:
        """The same in Python: text by text, numbers in NumPy."""
        steps = [
            (slots.text(name) if kind == "text" else slots.number(name), kind, name)
            for name, kind in zip(self.columns, self.kinds, strict=True)
        ]
        targets = [slots.text(name) if self.to == "text" else slots.number(name) for _, _, name in steps]

        def run(batch: Batch) -> None:
            """Converts the rows."""
            for (source, kind, _), target in zip(steps, targets, strict=True):
                values: list[str | None] | np.ndarray
                values = batch.texts[source] if isinstance(source, str) else batch.numbers[:, source]
                if isinstance(target, str):
                    batch.texts[target] = [_text(value, kind) for value in values]
                elif isinstance(source, str):
                    batch.numbers[:, target] = [self.number(str(text) if text is not None else None) for text in values]
                else:
                    batch.numbers[:, target] = _numbers(np.asarray(values, dtype=np.float64), self.to)

        return run

    def number(self, text: str | None) -> float:
        """A text in the new type as a number, NaN where it does not fit."""
        if text is None:
            return float("nan")
        text = text.strip()
        if self.to in ("date", "datetime"):
            micros = micros_of(text, self.format)
            return micros - micros % 86_400_000_000 if self.to == "date" else micros
        if self.to == "bool":
            word = text.lower()
            return 1.0 if word in _TRUE else 0.0 if word in _FALSE else float("nan")
        try:
            number = float(int(text)) if self.to == "int" else float(text)
        except ValueError:
            return float("nan")
        return float("nan") if "_" in text or np.isinf(number) else number


def _text(value: object, kind: Kind) -> str | None:
    """A value as Polars writes it."""
    if value is None or isinstance(value, str):
        return value
    number = float(str(value))
    if np.isnan(number):
        return None
    if kind == "time":
        stamp = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=number)
        return stamp.isoformat(sep=" ", timespec="microseconds")
    if kind == "bool":
        return "true" if number else "false"
    return str(int(number)) if number.is_integer() else str(number)


def _numbers(values: np.ndarray, to: str) -> np.ndarray:
    """Numbers in the new type."""
    if to == "bool":
        return np.where(np.isnan(values), values, (values != 0).astype(np.float64))
    if to == "int":
        return np.asarray(np.trunc(values))
    return np.asarray(values - values % 86_400_000_000) if to == "date" else values


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Columns cast to another type; a row with a value that does not fit is quarantined, or the value is null."""

    columns: Annotated[tuple[str, ...], Doc("names or patterns; `-name` leaves one out")]
    to: Annotated[Target, Doc("the new type")]
    bad: Annotated[Literal["quarantine", "null"], Doc("what happens to a value that does not fit")] = "quarantine"

    def bound(self, columns: Columns, where: str) -> Self:
        """With its columns spelt out."""
        return replace(self, columns=columns.chosen(self.columns, _ANY, where))

    def needs(self, columns: Columns) -> tuple[Need, ...]:  # noqa: ARG002
        """Nothing."""
        return ()

    def fitted(self, found: Found, columns: Columns) -> tuple[Fitted, ...]:  # noqa: ARG002
        """The quarantine and the new columns."""
        return _parts(self.columns, columns, self.to, "", self.bad)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dates:
    """Texts read as times, ISO 8601 (to UTC) unless a format is given."""

    columns: Annotated[tuple[str, ...], Doc("names or patterns; `-name` leaves one out")]
    format: Annotated[str, Doc("as strftime writes it: %d.%m.%Y %H:%M")] = ""
    bad: Annotated[Literal["quarantine", "null"], Doc("what happens to a text that is no time")] = "quarantine"

    def bound(self, columns: Columns, where: str) -> Self:
        """With its columns spelt out."""
        return replace(self, columns=columns.chosen(self.columns, ("text", "time"), where))

    def needs(self, columns: Columns) -> tuple[Need, ...]:  # noqa: ARG002
        """Nothing."""
        return ()

    def fitted(self, found: Found, columns: Columns) -> tuple[Fitted, ...]:  # noqa: ARG002
        """The quarantine and the new columns."""
        return _parts(self.columns, columns, "datetime", self.format, self.bad)


def _parts(names: tuple[str, ...], columns: Columns, to: Target, form: str, bad: str) -> tuple[Fitted, ...]:
    """The quarantine, if it is wanted, and the new columns."""
    found = [column for name in names if (column := columns.get(name))]
    kinds = tuple(column.kind for column in found)
    if not names:
        return ()
    new = Converted(columns=names, kinds=kinds, to=to, format=form)
    return (Fits(columns=names, kinds=kinds, to=to, format=form), new) if bad == "quarantine" else (new,)
