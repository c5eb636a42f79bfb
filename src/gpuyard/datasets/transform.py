"""Fitted transform: raw columns to features, for the rows of a request, without a data frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpuyard.datasets.batch import RowBatch, Slots
from gpuyard.datasets.columns import Column
from gpuyard.datasets.step import Fitted, FittedStep, SeriesPart, written_columns
from gpuyard.datasets.steps.python import PythonColumns
from gpuyard.datasets.steps.step_list import FORMER_PARTS, PARTS
from gpuyard.datasets.times import micros_of
from gpuyard.document.encode import dump_json, load_json, plain
from gpuyard.document.frozen_json import FrozenJson
from gpuyard.document.read import read_text
from gpuyard.errors import InputError, Problem
from gpuyard.home import write_atomic

MAX_BYTES = 1 << 30  # of a saved transform; tables of categories can be large

Values = Mapping[str, Sequence[object] | np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPart:
    """Fitted part as it is saved: name of its step, its class, its fields."""

    step: str
    part: str
    state: FrozenJson


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformRecord:
    """Fitted transform as it is saved."""

    version: str  # hash of data and code
    inputs: tuple[Column, ...]
    outputs: tuple[str, ...]
    parts: tuple[SavedPart, ...]


def saved_part(step: str, part: Fitted) -> SavedPart:
    """Return a part as it is saved."""
    return SavedPart(step=step, part=type(part).__name__, state=FrozenJson.of(plain(part)))


def part_from(saved: SavedPart) -> Fitted:
    """Return the part that was saved; raise InputError if its class is unknown."""
    where = f"transform: {saved.step}"
    name = FORMER_PARTS.get(saved.part, saved.part)
    if name not in PARTS:
        raise InputError.one(
            where, f'unknown part "{saved.part}"', "use the gpuyard version that wrote it"
        )
    return load_json(saved.state.text, PARTS[name], where)


def needed_parts(
    parts: Sequence[Fitted], outputs: Iterable[str]
) -> tuple[tuple[FittedStep, ...], set[str]]:
    """Return the parts that the outputs depend on, in order, and the input columns."""
    columns = set(outputs)
    needed = []
    for part in reversed(parts):
        if not isinstance(part, FittedStep):
            continue
        writes = written_columns(part)
        if writes & columns:
            needed.append(part)
            columns = (columns - writes) | set(part.reads)
    return tuple(reversed(needed)), columns


class FittedTransform:
    """Raw columns to a feature matrix, with equal results for one row and for millions.

    With lags or windows, a row also depends on `history_rows` earlier rows of its series.
    """

    def __init__(self, record: TransformRecord) -> None:
        self.record = record
        self.version = record.version
        self.inputs = record.inputs
        self.outputs = record.outputs
        self._slots = Slots()
        self._numbers = tuple(
            column for column in record.inputs if column.kind in ("number", "bool", "time")
        )
        self._texts = tuple(column.name for column in record.inputs if column.kind == "text")
        self._has_times = any(column.kind == "time" for column in self._numbers)
        for column in self._numbers:
            self._slots.number(column.name)
        parts = [part_from(saved) for saved in record.parts]
        self._operations = [
            part.numpy_operation(self._slots) for part in parts if isinstance(part, FittedStep)
        ]
        self.history_rows = sum(part.history_rows for part in parts if isinstance(part, SeriesPart))
        self._outputs = self._slots.numbers(record.outputs)
        self._names = frozenset(column.name for column in record.inputs)

    def matrix(self, columns: Values, requests: Sequence[int] = ()) -> np.ndarray:
        """Return the features, float32 [rows, features]; NaN where a value stays missing.

        A null, NaN or infinity is a missing value. `requests` holds the number of rows of each
        request where several are joined: a series never extends over two of them.
        """
        return self.numbers(columns, requests).astype(np.float32)

    def numbers(self, columns: Values, requests: Sequence[int] = ()) -> np.ndarray:
        """Return the features before they are rounded to float32."""
        missing = self._names.difference(columns)
        if missing:
            fix = "send it, with null where it is unknown"
            raise InputError(
                Problem(where=f"column {name}", what="is missing", fix=fix)
                for name in sorted(missing)
            )
        lengths = {len(columns[column.name]) for column in self.inputs}
        if len(lengths) > 1:
            raise InputError.one(
                "columns", "have different numbers of rows", "send one value per row in each"
            )
        rows = lengths.pop() if lengths else 0
        batch = RowBatch(
            np.empty((rows, self._slots.count)),
            {name: _texts(columns[name]) for name in self._texts},
            np.repeat(np.arange(len(requests)), requests) if len(requests) > 1 else None,
        )
        self._fill(batch, columns)
        for operation in self._operations:
            operation(batch)
        return batch.numbers[:, self._outputs]

    def _fill(self, batch: RowBatch, columns: Values) -> None:
        width = len(self._numbers)
        if not width:
            return
        try:
            if batch.rows == 1 and not self._has_times:  # one conversion for all columns
                batch.numbers[0, :width] = [columns[column.name][0] for column in self._numbers]
            else:
                for at, column in enumerate(self._numbers):
                    values = _numbers(columns[column.name], column.kind == "time")
                    if column.kind == "time":
                        _check_times(column.name, columns[column.name], values)
                    batch.numbers[:, at] = values
        except (TypeError, ValueError):
            raise InputError(_not_numbers(columns, self._numbers)) from None
        part = batch.numbers[:, :width]
        finite = np.isfinite(part)
        if not finite.all():
            part[~finite] = np.nan

    def save(self, path: Path) -> None:
        write_atomic(path, dump_json(self.record))


def _texts(values: Sequence[object] | np.ndarray) -> list[str | None]:
    return [value if isinstance(value, str) or value is None else str(value) for value in values]


def _numbers(values: Sequence[object] | np.ndarray, times: bool) -> Sequence[object] | np.ndarray:
    if not times:
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        micros = values.astype("datetime64[us]").astype(np.float64)
        return np.where(np.isnat(values), np.nan, micros)
    return [micros_of(value) for value in values]


def _check_times(
    name: str, values: Sequence[object] | np.ndarray, micros: Sequence[object] | np.ndarray
) -> None:
    """Raise InputError with the first text that is not a time; null is a missing value."""
    for row in np.flatnonzero(np.isnan(np.asarray(micros, np.float64))).tolist():
        value = values[row]
        if isinstance(value, str):
            what = f'row {row}: "{value[:60]}" is not a time'
            raise InputError.one(f"column {name}", what, "send ISO 8601, or null")


def _not_numbers(columns: Values, numbers: Sequence[Column]) -> list[Problem]:
    """Return the first wrong value of every column."""
    problems = []
    for column in numbers:
        for row, value in enumerate(columns[column.name]):
            if value is None:
                continue
            try:
                np.float64(value)
            except (TypeError, ValueError):
                what = f'row {row}: "{str(value)[:60]}" is not a number'
                problems.append(
                    Problem(where=f"column {column.name}", what=what, fix="send a number or null")
                )
                break
    return problems


def load_transform(path: Path, *, allow_code: bool = True) -> FittedTransform:
    """Return a saved transform; raise InputError if the file is not one.

    Without `allow_code`, one that runs Python code of its author is refused.
    """
    record = load_json(read_text(path, MAX_BYTES), TransformRecord, str(path))
    names = sorted({saved.step for saved in record.parts if saved.part == PythonColumns.__name__})
    if names and not allow_code:
        raise code_refused(str(path), "its transform runs Python code")
    return FittedTransform(record)


def code_refused(where: str, what: str) -> InputError:
    """Return the error for a model with code of its author."""
    fix = "add --allow-code if you trust where the model comes from"
    return InputError.one(where, f"{what}, which needs --allow-code", fix)
