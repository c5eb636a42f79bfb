"""The fitted transform: what training learnt, as a value; applied to the rows of a request without a data frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpuyard.datasets.batch import Batch, Slots
from gpuyard.datasets.columns import Column
from gpuyard.datasets.step import Fitted, FittedStep, written
from gpuyard.datasets.steps import PARTS
from gpuyard.datasets.times import micros_of
from gpuyard.document import Settings, dump_json, load_json, plain, read_text
from gpuyard.errors import InputError, Problem
from gpuyard.home import write_whole

__all__ = ["FittedTransform", "TransformRecord", "load_transform", "needed_parts", "part_from", "saved_part"]

MAX_BYTES = 1 << 30  # of a saved transform; tables of categories can be large


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPart:
    """A fitted part: the step that it is of, its class, its fields."""

    step: str
    part: str
    state: Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformRecord:
    """A fitted transform as it is saved."""

    version: str  # hash of data and code
    inputs: tuple[Column, ...]
    outputs: tuple[str, ...]
    parts: tuple[SavedPart, ...]


def saved_part(step: str, part: Fitted) -> SavedPart:
    """The part as it is saved."""
    return SavedPart(step=step, part=type(part).__name__, state=Settings.of(plain(part)))


def part_from(saved: SavedPart) -> Fitted:
    """The part that was saved; InputError for one of another gpuyard."""
    if saved.part not in PARTS:
        raise InputError.one(
            f"transform: {saved.step}", f'no part named "{saved.part}"', "use the gpuyard that wrote it"
        )
    return load_json(saved.state.text, PARTS[saved.part], f"transform: {saved.step}")


def needed_parts(parts: Sequence[Fitted], outputs: Iterable[str]) -> tuple[tuple[FittedStep, ...], set[str]]:
    """The parts that the outputs depend on, in order, and the columns that must come in."""
    needed, kept = set(outputs), []
    for part in reversed(parts):
        if not isinstance(part, FittedStep):
            continue
        writes = written(part)
        if writes & needed:
            kept.append(part)
            needed = (needed - writes) | set(part.reads)
    return tuple(reversed(kept)), needed


class FittedTransform:
    """What training learnt: raw columns to a matrix of features, the same for one row and for millions."""

    def __init__(self, record: TransformRecord) -> None:
        self.record = record
        self.version = record.version
        self.inputs = record.inputs
        self.outputs = record.outputs
        self._slots = Slots()
        self._numbers = tuple(column for column in record.inputs if column.kind in ("number", "bool", "time"))
        self._texts = tuple(column.name for column in record.inputs if column.kind == "text")
        self._times = tuple(column.name for column in self._numbers if column.kind == "time")
        for column in self._numbers:
            self._slots.number(column.name)
        for name in self._texts:
            self._slots.text(name)
        parts = [part_from(saved) for saved in record.parts]
        self._operations = [part.compiled(self._slots) for part in parts if isinstance(part, FittedStep)]
        self._outputs = self._slots.numbers(record.outputs)
        self._names = frozenset(column.name for column in record.inputs)

    def matrix(self, columns: Mapping[str, Sequence[object] | np.ndarray]) -> np.ndarray:
        """The features of the rows, float32 [rows, features]; NaN where a value is missing and nothing fills it.

        A null, NaN or infinity is a missing value; a category that was never seen has the outcome of its step.
        """
        return self.numbers(columns).astype(np.float32)

    def numbers(self, columns: Mapping[str, Sequence[object] | np.ndarray]) -> np.ndarray:
        """The features of the rows before they are rounded to float32."""
        missing = self._names.difference(columns)
        if missing:
            raise InputError(
                Problem(where=f"column {name}", what="is missing", fix="send it, with null where it is not known")
                for name in sorted(missing)
            )
        lengths = {len(columns[column.name]) for column in self.inputs}
        if len(lengths) > 1:
            raise InputError.one("columns", "have different numbers of rows", "send one value a row in each")
        rows = lengths.pop() if lengths else 0
        batch = Batch(np.empty((rows, self._slots.count)), {name: _texts(columns[name]) for name in self._texts})
        self._fill(batch, columns)
        for operation in self._operations:
            operation(batch)
        return batch.numbers[:, self._outputs]

    def _fill(self, batch: Batch, columns: Mapping[str, Sequence[object] | np.ndarray]) -> None:
        """Puts the numbers into their slots."""
        width = len(self._numbers)
        if not width:
            return
        try:
            if batch.rows == 1 and not self._times:  # one conversion instead of one a column
                batch.numbers[0, :width] = [columns[column.name][0] for column in self._numbers]
            else:
                for at, column in enumerate(self._numbers):
                    batch.numbers[:, at] = _numbers(columns[column.name], column.kind == "time")
        except (TypeError, ValueError):
            raise InputError(_wrong(columns, self._numbers)) from None
        part = batch.numbers[:, :width]
        finite = np.isfinite(part)
        if not finite.all():
            part[~finite] = np.nan

    def save(self, path: Path) -> None:
        """Writes it as JSON."""
        write_whole(path, dump_json(self.record))


def _texts(values: Sequence[object] | np.ndarray) -> list[str | None]:
    """A column of texts; what is not one is written as one."""
    return [value if isinstance(value, str) or value is None else str(value) for value in values]


def _numbers(values: Sequence[object] | np.ndarray, times: bool) -> Sequence[object] | np.ndarray:
    """A column of numbers; times as microseconds."""
    if not times:
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        return np.where(np.isnat(values), np.nan, values.astype("datetime64[us]").astype(np.float64))
    return [micros_of(value) for value in values]


def _wrong(columns: Mapping[str, Sequence[object] | np.ndarray], numbers: Sequence[Column]) -> list[Problem]:
    """The values that are no numbers."""
    problems = []
    for column in numbers:
        for row, value in enumerate(columns[column.name]):
            try:
                np.float64(value) if value is not None else None
            except (TypeError, ValueError):
                what = f'row {row}: "{str(value)[:60]}" is not a number'
                problems.append(Problem(where=f"column {column.name}", what=what, fix="send a number or null"))
                break
    return problems


def load_transform(path: Path) -> FittedTransform:
    """The transform that was saved; InputError if the file is not one."""
    return FittedTransform(load_json(read_text(path, MAX_BYTES), TransformRecord, str(path)))
