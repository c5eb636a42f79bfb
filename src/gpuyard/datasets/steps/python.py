"""A function of the user's own as a step: it adds columns, computed row by row."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

import numpy as np
import polars as pl

from gpuyard.datasets.batch import RowBatch, Slots
from gpuyard.datasets.columns import Column, ColumnNames, Columns, Kind, kind_of
from gpuyard.datasets.step import Operation, Statistics, StepSettings
from gpuyard.datasets.user_code import CodeError, call, digest_of_code, load_function
from gpuyard.document.field_types import Doc
from gpuyard.document.read import read_text
from gpuyard.errors import InputError

MAX_CODE_BYTES = 1_000_000
CHECKED_ROWS = 50  # recomputed one by one, to detect rows that depend on their batch
TOLERANCE = 1e-9  # relative; sums over longer arrays may be rounded differently
KINDS: tuple[Kind, ...] = ("number", "bool", "text", "time")
AddedType: TypeAlias = Literal["float", "int", "bool", "text"]
# The types that a request can hold; training passes the same ones.
_TYPES: dict[str, pl.DataType] = {
    "number": pl.Float64(), "bool": pl.Boolean(), "text": pl.String(), "time": pl.Datetime("us"),
}  # fmt: skip
_ADDED: dict[str, pl.DataType] = {
    "float": pl.Float64(), "int": pl.Int64(), "bool": pl.Boolean(), "text": pl.String(),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedColumn:
    """A column that a function adds."""

    name: str
    type: AddedType


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonColumns:
    """The function with its code and digest, the columns that it takes and those that it adds."""

    file: str
    function: str
    code: str
    sha256: str
    columns: tuple[Column, ...]
    adds: tuple[AddedColumn, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def writes(self) -> tuple[str, ...]:
        return tuple(added.name for added in self.adds)

    def after(self, columns: Columns) -> Columns:
        return columns.with_columns({item.name: str(_ADDED[item.type]) for item in self.adds})

    def expressions(self) -> tuple[pl.Expr, ...]:
        types = {item.name: _ADDED[item.type] for item in self.adds}

        def run(rows: pl.Series) -> pl.Series:
            frame = rows.struct.unnest()
            return self.compute(pl.DataFrame([_canonical(frame[name]) for name in self.reads]))

        rows = pl.struct(*self.reads).map_batches(run, return_dtype=pl.Struct(types))
        return (rows.struct.field(*self.writes),)

    def numpy_operation(self, slots: Slots) -> Operation:
        function_of(self)  # a file that cannot be loaded fails before the first request
        places = [slots.place(item.name, item.kind == "text") for item in self.columns]
        targets = [slots.place(item.name, item.type == "text") for item in self.adds]

        def run(batch: RowBatch) -> None:
            frame = pl.DataFrame(
                [
                    _column_of(batch, column, place)
                    for column, place in zip(self.columns, places, strict=True)
                ]
            )
            new = self.compute(frame).struct.unnest()
            for added, place in zip(self.adds, targets, strict=True):
                if isinstance(place, str):
                    batch.texts[place] = new[added.name].to_list()
                else:
                    numbers = new[added.name].cast(pl.Float64).fill_null(float("nan"))
                    batch.numbers[:, place] = numbers.to_numpy()

        return run

    def compute(self, frame: pl.DataFrame) -> pl.Series:
        """Return the new columns of some rows, as one series of structs."""
        new = self._called(frame)
        if frame.height > 1 and not _is_checked(self.sha256, self.function):
            self._check_rows(frame, new)
            _CHECKED.add((self.sha256, self.function))
        return new.to_struct("new")

    def _called(self, frame: pl.DataFrame) -> pl.DataFrame:
        where = f"{self.file}: {self.function}"
        result = _frame_of(call(function_of(self), self.file, frame), self.adds, where)
        names = list(self.writes)
        if sorted(result.columns) != sorted(names):
            what = f"returned the columns {result.columns}; it declares {names}"
            raise CodeError.at(where, what, "return the columns of `adds`, or correct `adds`")
        if result.height != frame.height:
            what = f"returned {result.height} rows for {frame.height}"
            raise CodeError.at(where, what, "return one value per row; drop rows with `filter`")
        return pl.DataFrame([_typed(result[item.name], item, where) for item in self.adds])

    def _check_rows(self, frame: pl.DataFrame, new: pl.DataFrame) -> None:
        """Raise CodeError if rows depend on their batch: serving would not equal training."""
        start = frame.height // 2
        alone = self._called(frame.slice(start, CHECKED_ROWS))
        for name in self.writes:
            first, second = new[name].slice(start, CHECKED_ROWS), alone[name]
            if not _equal(first, second):
                what = f'"{name}" of a row depends on the other rows of the batch'
                fix = "compute it from the row alone; for other rows use lags, rolling or zscore"
                raise CodeError.at(f"{self.file}: {self.function}", what, fix)


_CHECKED: set[tuple[str, str]] = set()  # functions of this process that depend on their row alone


def _is_checked(sha256: str, function: str) -> bool:
    return (sha256, function) in _CHECKED


@functools.lru_cache(maxsize=64)
def function_of(part: PythonColumns) -> Any:
    """Return the function of a part. Raise InputError if its code was changed."""
    if digest_of_code(part.code) != part.sha256:
        what = "is not the code that the transform was fitted with: SHA-256 mismatch"
        raise InputError.one(f"transform: {part.file}", what, "register or export the model again")
    return load_function(part.code, part.file, part.function)


def _canonical(series: pl.Series) -> pl.Series:
    kind = kind_of(str(series.dtype))
    if isinstance(series.dtype, pl.Datetime) and series.dtype.time_zone is not None:
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    series = series.cast(_TYPES[kind])
    return series.fill_nan(None) if kind == "number" else series


def _column_of(batch: RowBatch, column: Column, place: str | int) -> pl.Series:
    if isinstance(place, str):
        return pl.Series(column.name, batch.texts[place], pl.String)
    numbers = pl.Series(column.name, batch.numbers[:, place]).fill_nan(None)
    if column.kind == "time":
        return numbers.cast(pl.Int64).cast(pl.Datetime("us"))
    return numbers.cast(_TYPES[column.kind])


def _frame_of(result: Any, adds: tuple[AddedColumn, ...], where: str) -> pl.DataFrame:
    if isinstance(result, pl.DataFrame):
        return result
    try:
        if isinstance(result, Mapping):
            return pl.DataFrame({name: _series(name, values) for name, values in result.items()})
        if isinstance(result, pl.Series | np.ndarray | list) and len(adds) == 1:
            return pl.DataFrame([_series(adds[0].name, result)])
        if hasattr(result, "__arrow_c_stream__"):  # pandas and Arrow tables
            return pl.DataFrame(result)
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise CodeError.at(where, f"returned no columns: {error}") from None
    fix = "return a Polars, pandas or Arrow frame, or a mapping from names to values"
    raise CodeError.at(where, f"returned {type(result).__name__}, not columns", fix)


def _series(name: str, values: Any) -> pl.Series:
    return values.alias(name) if isinstance(values, pl.Series) else pl.Series(name, values)


def _typed(series: pl.Series, added: AddedColumn, where: str) -> pl.Series:
    kind = kind_of(str(series.dtype))
    wanted = "text" if added.type == "text" else "number"
    if series.dtype != pl.Null and (kind == "text") != (wanted == "text"):
        what = f'column "{added.name}" is {series.dtype}; it declares {added.type}'
        raise CodeError.at(where, what, "return the declared type, or correct `adds`")
    try:
        typed = series.cast(_ADDED[added.type])
    except pl.exceptions.PolarsError as error:
        what = f'column "{added.name}" is no {added.type}: {str(error).splitlines()[0]}'
        raise CodeError.at(where, what) from None
    if added.type != "float":
        return typed
    # As in a source: infinity and NaN are missing values.
    finite = typed.is_finite()
    return typed if finite.all() else typed.zip_with(finite, pl.Series([None], dtype=pl.Float64))


def _equal(first: pl.Series, second: pl.Series) -> bool:
    if first.dtype != pl.Float64:
        return first.equals(second, null_equal=True)
    nulls = first.is_null().equals(second.is_null())
    one, other = first.fill_null(0.0).to_numpy(), second.fill_null(0.0).to_numpy()
    return nulls and bool(np.allclose(one, other, rtol=TOLERANCE, atol=0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Python(StepSettings):
    """Add columns with a Python function, which takes a Polars frame and returns the columns."""

    PARTS = (PythonColumns,)
    file: Annotated[str, Doc("Python file with the function")]
    function: Annotated[str, Doc("its name")]
    adds: Annotated[tuple[AddedColumn, ...], Doc("the new columns: `NAME: float`")]
    columns: Annotated[ColumnNames, Doc("columns that the function takes")] = ("*",)
    code: Annotated[str, Doc("contents of the file (default: read from it)")] = ""

    def resolve_paths(self, base: Path) -> Self:
        """Return the step with its code, which from here on does not depend on the file."""
        if self.code:
            return self
        path = base / self.file
        return replace(self, file=path.name, code=read_text(path, MAX_CODE_BYTES))

    def bind(self, columns: Columns, where: str) -> Self:
        """Return the step with its patterns expanded. Raise InputError if the function is wrong."""
        if not self.adds:
            raise InputError.one(f"{where}.adds", "no column", "write adds: {NAME: float}")
        taken = [item.name for item in self.adds if columns.get(item.name) is not None]
        if taken:
            what = f'it adds a column "{taken[0]}", which already exists'
            raise InputError.one(where, what, "drop or rename that column first")
        names = columns.select(self.columns, KINDS, where)
        if columns.label in names:
            what = f'it takes the label "{columns.label}", which is not known at serving'
            raise InputError.one(where, what, "leave it out of `columns`")
        if not names:
            raise InputError.one(f"{where}.columns", "no column is selected", "name some")
        load_function(self.code, self.file, self.function)
        return replace(self, columns=names)

    def fit_state(self, statistics: Statistics, columns: Columns) -> tuple[PythonColumns, ...]:  # noqa: ARG002
        taken = [columns.get(name) for name in self.columns]
        part = PythonColumns(
            file=self.file,
            function=self.function,
            code=self.code,
            sha256=digest_of_code(self.code),
            columns=tuple(column for column in taken if column is not None),
            adds=self.adds,
        )
        return (part,)
