"""The rows of a request at serving: numbers in one matrix, texts in lists, and the slots that steps write to."""

from __future__ import annotations

import numpy as np

__all__ = ["Batch", "Slots"]


class Batch:
    """Some rows on their way through the compiled steps; a missing number is NaN, a missing text None.

    A time is a number: microseconds since 1970 (UTC).
    """

    __slots__ = ("numbers", "texts")

    def __init__(self, numbers: np.ndarray, texts: dict[str, list[str | None]]) -> None:
        self.numbers = numbers  # float64 [rows, slots]
        self.texts = texts

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.numbers)


class Slots:
    """Where every column stands while the plan is compiled; a column keeps its slot when a step replaces it."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}
        self.count = 0

    def number(self, name: str) -> int:
        """The slot of a number, a new one if there is none."""
        if name not in self._index:
            self._index[name] = self.count
            self.count += 1
        return self._index[name]

    def text(self, name: str) -> str:
        """The key of a text in `Batch.texts`."""
        return name

    def numbers(self, names: tuple[str, ...]) -> slice | np.ndarray:
        """The slots of several numbers: a slice where they stand side by side, for speed."""
        places = [self.number(name) for name in names]
        if places == list(range(places[0], places[0] + len(places))) if places else False:
            return slice(places[0], places[0] + len(places))
        return np.array(places, dtype=np.intp)
