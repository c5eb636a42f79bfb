"""The curves that people look for, as points: ROC, precision and recall, calibration, confusion, residuals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuyard.learn.evaluate.classification import calibration_bins, confusion
from gpuyard.learn.evaluate.predictions import Array, Predictions

__all__ = ["Curve", "Histogram", "Pictures", "pictures"]

MOST_POINTS = 200
MOST_CLASSES = 12  # curves and a confusion matrix of more cannot be read
CALIBRATION_BINS = 10
RESIDUAL_BINS = 30
MOST_MARKS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Points in order, with a name."""

    name: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Counts between edges."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures:
    """What is drawn of one set of predictions; empty where it does not apply."""

    roc: tuple[Curve, ...] = ()
    precision_recall: tuple[Curve, ...] = ()
    calibration: tuple[Curve, ...] = ()  # confidence against accuracy
    confusion: tuple[tuple[int, ...], ...] = ()  # rows: true
    residuals: Histogram | None = None
    predicted: Curve | None = None  # true values against answers, a sample of rows
    position_loss: Curve | None = None  # language: nats by place in the sequence


def pictures(given: Predictions) -> Pictures:
    """The curves of the predictions, each thinned to what a screen shows."""
    if given.problem == "classification":
        return _classes(given)
    if given.problem == "language":
        nats = given.outputs.astype(np.float64).mean(axis=0)
        return Pictures(position_loss=_thin("nats", np.arange(1.0, len(nats) + 1), nats))
    if given.problem == "ranking":
        return Pictures()
    return _values(given)


def _classes(given: Predictions) -> Pictures:
    """ROC, precision and recall for each class, calibration, confusion."""
    assert given.truth is not None
    truth, outputs = given.truth.astype(np.intp), given.outputs.astype(np.float64)
    shown = (1,) if outputs.shape[1] == 2 else range(min(outputs.shape[1], MOST_CLASSES))
    roc, exact = [], []
    for index in shown:
        name = given.classes[index] if index < len(given.classes) else str(index)
        order = np.argsort(-outputs[:, index], kind="stable")
        positive, ordered = truth[order] == index, outputs[order, index]
        if not positive.any() or positive.all():
            continue
        ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
        found, wrong = np.cumsum(positive)[ends].astype(np.float64), np.cumsum(~positive)[ends].astype(np.float64)
        roc.append(_thin(name, np.append(0.0, wrong / wrong[-1]), np.append(0.0, found / found[-1])))
        exact.append(_thin(name, np.append(0.0, found / found[-1]), np.append(1.0, found / (found + wrong))))
    few = outputs.shape[1] <= MOST_CLASSES
    table = confusion(given, np.ones((1, given.count)))[0].astype(int) if few else None
    return Pictures(
        roc=tuple(roc),
        precision_recall=tuple(exact),
        calibration=(_calibration(given),),
        confusion=() if table is None else tuple(tuple(int(cell) for cell in row) for row in table),
    )


def _calibration(given: Predictions) -> Curve:
    """Mean confidence and accuracy of each bin: of the positive class of two, else of the likeliest."""
    assert given.truth is not None
    outputs, truth = given.outputs.astype(np.float64), given.truth.astype(np.intp)
    if outputs.shape[1] == 2:
        sure, right = outputs[:, 1], truth == 1
        bins = np.clip((sure * CALIBRATION_BINS).astype(np.intp), 0, CALIBRATION_BINS - 1)
        name = "share of the positive class"
    else:
        sure, right = outputs.max(axis=1), given.labels == truth
        bins, name = calibration_bins(given, CALIBRATION_BINS), "share that is right"
    counts = np.bincount(bins, minlength=CALIBRATION_BINS)
    present = counts > 0
    xs = np.bincount(bins, weights=sure, minlength=CALIBRATION_BINS)[present] / counts[present]
    ys = np.bincount(bins, weights=right, minlength=CALIBRATION_BINS)[present] / counts[present]
    return Curve(name=name, xs=_floats(xs), ys=_floats(ys))


def _values(given: Predictions) -> Pictures:
    """Residuals, and answers against truth."""
    assert given.truth is not None
    truth, answers = given.truth.astype(np.float64), given.outputs.astype(np.float64)
    counts, edges = np.histogram(truth - answers, bins=RESIDUAL_BINS)
    some = np.linspace(0, given.count - 1, min(given.count, MOST_MARKS)).astype(np.intp)
    return Pictures(
        residuals=Histogram(edges=_floats(edges), counts=tuple(int(count) for count in counts)),
        predicted=Curve(name="rows", xs=_floats(truth[some]), ys=_floats(answers[some])),
    )


def _thin(name: str, xs: Array, ys: Array) -> Curve:
    """The curve with its ends and at most two hundred points."""
    kept = np.unique(np.linspace(0, len(xs) - 1, min(len(xs), MOST_POINTS)).round().astype(np.intp))
    return Curve(name=name, xs=_floats(xs[kept]), ys=_floats(ys[kept]))


def _floats(values: Array) -> tuple[float, ...]:
    """Rounded to six digits, which no screen shows more of."""
    return tuple(float(f"{value:.6g}") for value in values)
