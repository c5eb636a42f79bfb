"""The columns that are allowed, pinned in a file; a source with others is refused with the difference."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from gpuyard.datasets.columns import Column
from gpuyard.datasets.source.parts import differences
from gpuyard.document import dump_json, load_json, read_text
from gpuyard.errors import InputError
from gpuyard.home import write_whole

__all__ = ["Contract", "dtype_of", "hold_to", "read_contract"]

_SIMPLE: dict[str, pl.DataType] = {
    str(dtype): dtype
    for dtype in (
        pl.Int8(), pl.Int16(), pl.Int32(), pl.Int64(), pl.UInt8(), pl.UInt16(), pl.UInt32(), pl.UInt64(),
        pl.Float32(), pl.Float64(), pl.Boolean(), pl.String(), pl.Date(), pl.Datetime("us"), pl.Datetime("ms"),
        pl.Datetime("ns"), pl.Datetime("us", "UTC"), pl.Time(), pl.Binary(), pl.Null(),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """The columns of a source."""

    columns: tuple[Column, ...]


def dtype_of(text: str) -> pl.DataType | None:
    """The Polars type of that name; None for nested ones."""
    return _SIMPLE.get(text)


def read_contract(path: Path) -> pl.Schema | None:
    """The types that a contract pins, for formats that do not tell them; None if it is not there yet."""
    if not path.is_file():
        return None
    contract = load_json(read_text(path), Contract, str(path))
    types = {column.name: dtype_of(column.dtype) for column in contract.columns}
    return pl.Schema({name: dtype for name, dtype in types.items() if dtype is not None})


def hold_to(path: Path, schema: pl.Schema) -> None:
    """Refuses columns other than the contract's; writes the contract if there is none."""
    got = Contract(columns=tuple(Column(name=name, dtype=str(dtype)) for name, dtype in schema.items()))
    if not path.is_file():
        write_whole(path, dump_json(got))
        return
    expected = load_json(read_text(path), Contract, str(path))
    if expected == got:
        return
    known = {column.name: dtype_of(column.dtype) or pl.Object() for column in expected.columns}
    now = {name: (known[name] if str(dtype) == _text(expected, name) else dtype) for name, dtype in schema.items()}
    problems = differences(str(path), expected=pl.Schema(known), got=pl.Schema(now))
    if problems:
        raise InputError(problems)


def _text(contract: Contract, name: str) -> str:
    """A column's type as the contract writes it."""
    return next((column.dtype for column in contract.columns if column.name == name), "")
