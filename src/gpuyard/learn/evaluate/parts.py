"""Where training and test rows come from: folds and splits of prepared data, or of arrays in memory."""

from __future__ import annotations

import typing
import uuid
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gpuyard.learn.trainer import Table, Tokens

__all__ = ["ArrayParts", "Part", "Parts", "cut", "keep"]

CACHE_BYTES = 512 * 1024 * 1024
_cuts: dict[tuple[str, int], Part] = {}  # of this process: a search asks for the same parts again and again


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """Rows to learn from and rows to be judged on; `columns` hold what the test rows are sliced by."""

    train: Table | Tokens
    test: Table | Tokens
    rows: npt.NDArray[np.intp] | None = None  # of the whole data, for the test rows
    columns: tuple[tuple[str, npt.NDArray[typing.Any]], ...] = ()


class Parts(typing.Protocol):
    """Some parts of one data set; it can be sent to another process and cuts the part there."""

    @property
    def key(self) -> str:
        """The same for the same parts, in every process."""
        ...

    @property
    def count(self) -> int:
        """How many parts there are."""
        ...

    def part(self, number: int) -> Part:
        """One of them, from 0; the transform of its training rows has seen no test row."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArrayParts:
    """Parts of a table in memory, each by its training and its test rows."""

    table: Table
    cuts: tuple[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]], ...]
    key: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def count(self) -> int:
        """How many parts there are."""
        return len(self.cuts)

    def part(self, number: int) -> Part:
        """One of them."""
        train, test = self.cuts[number]
        return Part(train=self.table.take(train), test=self.table.take(test), rows=test)


def cut(parts: Parts, number: int) -> Part:
    """One part; kept for the next call while all that are kept are small."""
    found = _cuts.get((parts.key, number))
    if found is None:
        found = parts.part(number)
        keep(parts, number, found)
    return found


def keep(parts: Parts, number: int, part: Part) -> None:
    """Keeps a part for the next call; only those of one data set, and only while they are small."""
    for key in [key for key in _cuts if key[0] != parts.key]:
        del _cuts[key]
    if sum(_size_bytes(kept) for kept in (*_cuts.values(), part)) <= CACHE_BYTES:
        _cuts[parts.key, number] = part


def _size_bytes(part: Part) -> int:
    """The memory of its rows; tokens stay in their files."""
    return sum(data.x.nbytes for data in (part.train, part.test) if isinstance(data, Table))
