"""Schema contract: the columns that a source must have, pinned in a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from gpuyard.datasets.columns import Column, schema_columns
from gpuyard.datasets.source.partitions import schema_problems
from gpuyard.document.encode import dump_json, load_json
from gpuyard.document.read import read_text
from gpuyard.errors import InputError
from gpuyard.home import write_atomic

_TYPES: dict[str, pl.DataType] = {
    str(dtype): dtype
    for dtype in (
        pl.Int8(), pl.Int16(), pl.Int32(), pl.Int64(),
        pl.UInt8(), pl.UInt16(), pl.UInt32(), pl.UInt64(),
        pl.Float32(), pl.Float64(), pl.Boolean(), pl.String(), pl.Binary(), pl.Null(),
        pl.Date(), pl.Time(), pl.Datetime("us"), pl.Datetime("ms"), pl.Datetime("ns"),
        pl.Datetime("us", "UTC"),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """Columns of a source."""

    columns: tuple[Column, ...]


def read_contract(path: Path) -> pl.Schema | None:
    """Return the types that a contract pins, nested ones excepted; None if it does not exist."""
    if not path.is_file():
        return None
    contract = load_json(read_text(path), Contract, str(path))
    types = {column.name: _TYPES.get(column.dtype) for column in contract.columns}
    return pl.Schema({name: dtype for name, dtype in types.items() if dtype is not None})


def enforce_contract(path: Path, schema: pl.Schema) -> None:
    """Raise InputError for columns that differ from the contract; write it if there is none."""
    actual = Contract(columns=schema_columns(schema))
    if not path.is_file():
        write_atomic(path, dump_json(actual))
        return
    contract = load_json(read_text(path), Contract, str(path))
    if contract == actual:
        return
    types = {column.name: column.dtype for column in contract.columns}
    expected = {name: _TYPES.get(dtype) or pl.Object() for name, dtype in types.items()}
    # a nested type has no entry in _TYPES: compare it by its text
    current = {
        name: expected[name] if str(dtype) == types.get(name) else dtype
        for name, dtype in schema.items()
    }
    fix = "fix the source, or delete the contract to write a new one"
    problems = schema_problems(str(path), pl.Schema(expected), pl.Schema(current), fix)
    if problems:
        raise InputError(problems)
