"""What a model answered, beside what was true: the one thing that every metric is computed from."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError
from gpuyard.learn.trainer import Problem

__all__ = ["AnyArray", "Array", "Predictions", "joined"]

Array = npt.NDArray[np.float64]
AnyArray: typing.TypeAlias = "npt.NDArray[typing.Any]"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predictions:
    """Answers and truth, row by row.

    classification  outputs: probabilities [n, c]; truth: number of the class [n]
    regression      outputs: values [n]; truth: values [n]
    ranking         outputs: scores [n]; truth: relevance [n]; groups: the query of each row
    language        outputs: nats of every predicted token [n, s]; truth: None
    """

    problem: Problem
    outputs: AnyArray
    truth: AnyArray | None = None
    classes: tuple[str, ...] = ()
    groups: AnyArray | None = None  # rows that belong together are resampled together
    hits: npt.NDArray[np.bool_] | None = None  # language: the likeliest token was the right one [n, s]
    text_bytes: Array | None = None  # language: size of each row's text [n]
    rows: npt.NDArray[np.intp] | None = None  # which rows of the data these are

    def __post_init__(self) -> None:
        what = _wrong(self)
        if what:
            raise InputError.one("predictions", what, "give one finite answer for every row")

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.outputs)

    @property
    def labels(self) -> npt.NDArray[np.intp]:
        """The likeliest class of each row."""
        return np.asarray(self.outputs.argmax(axis=1), dtype=np.intp)

    def take(self, chosen: AnyArray) -> Predictions:
        """These rows only."""

        def part(values: AnyArray | None) -> AnyArray | None:
            """The chosen of a column that may not be there."""
            return None if values is None else values[chosen]

        return Predictions(
            problem=self.problem, outputs=self.outputs[chosen], truth=part(self.truth), classes=self.classes,
            groups=part(self.groups), hits=part(self.hits), text_bytes=part(self.text_bytes), rows=part(self.rows),
        )  # fmt: skip


def joined(parts: Sequence[Predictions]) -> Predictions:
    """The predictions of several parts, one after another."""
    first = parts[0]

    def column(name: str) -> AnyArray | None:
        """A column of all parts, or None when one of them lacks it."""
        values = [getattr(part, name) for part in parts]
        return None if any(value is None for value in values) else np.concatenate(values)

    outputs = column("outputs")
    assert outputs is not None
    return Predictions(
        problem=first.problem, outputs=outputs, truth=column("truth"), classes=first.classes, groups=column("groups"),
        hits=column("hits"), text_bytes=column("text_bytes"), rows=column("rows"),
    )  # fmt: skip


def _wrong(given: Predictions) -> str:
    """What cannot be scored, in words."""
    if not len(given.outputs):
        return "there are no rows"
    if not np.isfinite(given.outputs).all():
        return f"{int((~np.isfinite(given.outputs)).sum())} answers are not finite numbers"
    if given.problem == "language":
        return "" if given.outputs.ndim == 2 else "nats must be [rows, tokens]"
    if given.truth is None or len(given.truth) != len(given.outputs):
        return "answers and truth differ in length"
    if given.problem == "ranking" and given.groups is None:
        return "ranking needs the query of each row"
    if given.problem == "classification" and given.outputs.ndim != 2:
        return "probabilities must be [rows, classes]"
    if given.problem != "classification" and given.outputs.ndim != 1:
        return "values must be [rows]"
    return ""
