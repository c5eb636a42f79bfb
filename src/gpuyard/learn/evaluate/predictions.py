"""Predictions and labels: the input of every metric."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError
from gpuyard.learn.trainer import ProblemType

Array = npt.NDArray[np.float64]
AnyArray: typing.TypeAlias = "npt.NDArray[typing.Any]"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predictions:
    """Predictions and labels, row by row.

    classification  outputs: probabilities [n, c]; truth: class index [n]
    regression      outputs: values [n]; truth: values [n]
    ranking         outputs: scores [n]; truth: relevance [n]; groups: the query of each row
    language        outputs: nats per predicted token [n, s]; truth: None
    """

    problem: ProblemType
    outputs: AnyArray
    truth: AnyArray | None = None
    classes: tuple[str, ...] = ()
    groups: AnyArray | None = None  # rows that belong together are resampled together
    hits: npt.NDArray[np.bool_] | None = None  # language: the top token was right [n, s]
    learned: npt.NDArray[np.bool_] | None = None  # language: tokens that count; None: all [n, s]
    text_bytes: Array | None = None  # language: size of each row's text [n]
    rows: npt.NDArray[np.intp] | None = None  # row indices in the data

    def __post_init__(self) -> None:
        what = _problem(self)
        if what:
            raise InputError.one("predictions", what, "provide one finite prediction per row")

    @property
    def count(self) -> int:
        return len(self.outputs)

    @property
    def labels(self) -> npt.NDArray[np.intp]:
        """Most likely class of each row."""
        return np.asarray(self.outputs.argmax(axis=1), dtype=np.intp)

    def take(self, rows: AnyArray) -> Predictions:
        def part(values: AnyArray | None) -> AnyArray | None:
            return None if values is None else values[rows]

        return Predictions(
            problem=self.problem,
            outputs=self.outputs[rows],
            truth=part(self.truth),
            classes=self.classes,
            groups=part(self.groups),
            hits=part(self.hits),
            learned=part(self.learned),
            text_bytes=part(self.text_bytes),
            rows=part(self.rows),
        )


def concatenate(splits: Sequence[Predictions]) -> Predictions:
    """Concatenate the predictions of several splits."""
    first = splits[0]

    def column(name: str) -> AnyArray | None:
        values = [getattr(split, name) for split in splits]
        return None if any(value is None for value in values) else np.concatenate(values)

    outputs = column("outputs")
    assert outputs is not None
    return Predictions(
        problem=first.problem,
        outputs=outputs,
        truth=column("truth"),
        classes=first.classes,
        groups=column("groups"),
        hits=column("hits"),
        learned=column("learned"),
        text_bytes=column("text_bytes"),
        rows=column("rows"),
    )


def _problem(predictions: Predictions) -> str:
    if not len(predictions.outputs):
        return "there are no rows"
    if not np.isfinite(predictions.outputs).all():
        return f"{int((~np.isfinite(predictions.outputs)).sum())} predictions are not finite"
    if predictions.problem == "language":
        return "" if predictions.outputs.ndim == 2 else "nats must be [rows, tokens]"
    if predictions.truth is None or len(predictions.truth) != len(predictions.outputs):
        return "predictions and labels differ in length"
    if predictions.problem == "ranking" and predictions.groups is None:
        return "ranking requires the query of each row"
    if predictions.problem == "classification" and predictions.outputs.ndim != 2:
        return "probabilities must be [rows, classes]"
    if predictions.problem != "classification" and predictions.outputs.ndim != 1:
        return "values must be [rows]"
    return ""
