"""Rows of a request at serving: numbers in one matrix, texts in lists, columns in slots."""

from __future__ import annotations

import numpy as np


class RowBatch:
    """Rows on their way through the NumPy steps; a missing number is NaN, a missing text None.

    A time is a number: microseconds since 1970 (UTC).
    """

    __slots__ = ("numbers", "requests", "texts")

    def __init__(
        self,
        numbers: np.ndarray,
        texts: dict[str, list[str | None]],
        requests: np.ndarray | None = None,
    ) -> None:
        self.numbers = numbers  # float64 [rows, slots]
        self.texts = texts
        self.requests = requests  # number of the request of every row; None: one request

    @property
    def rows(self) -> int:
        return len(self.numbers)


class Slots:
    """Position of every column in a RowBatch; a column keeps its slot when a step replaces it."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}
        self.count = 0

    def number(self, name: str) -> int:
        """Return the slot of a number column, a new one if there is none."""
        if name not in self._index:
            self._index[name] = self.count
            self.count += 1
        return self._index[name]

    def text(self, name: str) -> str:
        """Return the key of a text column in `RowBatch.texts`."""
        return name

    def place(self, name: str, texts: bool) -> str | int:
        """Return the key of a text column, or the slot of a number column."""
        return self.text(name) if texts else self.number(name)

    def numbers(self, names: tuple[str, ...]) -> slice | np.ndarray:
        """Return the slots of several numbers; a slice where they are adjacent, for speed."""
        places = [self.number(name) for name in names]
        if places and places == list(range(places[0], places[0] + len(places))):
            return slice(places[0], places[0] + len(places))
        return np.array(places, dtype=np.intp)
