"""Standard evaluation plots as points: ROC, precision-recall, calibration, confusion, residuals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuyard.learn.evaluate.classification import calibration_bins, confusion
from gpuyard.learn.evaluate.predictions import Array, Predictions

MAX_POINTS = 200
MAX_CLASSES = 12  # curves and a confusion matrix of more classes are unreadable
CALIBRATION_BINS = 10
RESIDUAL_BINS = 30
MAX_MARKS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotCurve:
    """A named curve through points."""

    name: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Counts between edges."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPlots:
    """The plots of one set of predictions; empty where they do not apply."""

    roc: tuple[PlotCurve, ...] = ()
    precision_recall: tuple[PlotCurve, ...] = ()
    calibration: tuple[PlotCurve, ...] = ()  # confidence against accuracy
    confusion: tuple[tuple[int, ...], ...] = ()  # rows: true
    residuals: Histogram | None = None
    predicted: PlotCurve | None = None  # predictions against true values, a sample of rows
    position_loss: PlotCurve | None = None  # language: nats by position in the sequence


def evaluation_plots(predictions: Predictions) -> EvaluationPlots:
    """Return the plots of the predictions, each thinned to what a screen can show."""
    if predictions.problem == "classification":
        return _classification_plots(predictions)
    if predictions.problem == "language":
        return EvaluationPlots(position_loss=_position_loss(predictions))
    if predictions.problem == "ranking":
        return EvaluationPlots()
    return _regression_plots(predictions)


def _position_loss(predictions: Predictions) -> PlotCurve:
    """Return the mean nats by position, over the rows whose token there counts."""
    nats = predictions.outputs.astype(np.float64)
    counts = np.full(nats.shape[1], len(nats))
    if predictions.learned is not None:
        nats, counts = np.where(predictions.learned, nats, 0.0), predictions.learned.sum(axis=0)
    places = np.flatnonzero(counts)
    means = nats.sum(axis=0)[places] / counts[places]
    return _thin("nats", np.asarray(places + 1.0, dtype=np.float64), means)


def _classification_plots(predictions: Predictions) -> EvaluationPlots:
    assert predictions.truth is not None
    truth, outputs = predictions.truth.astype(np.intp), predictions.outputs.astype(np.float64)
    shown = (1,) if outputs.shape[1] == 2 else range(min(outputs.shape[1], MAX_CLASSES))
    roc, precision_recall = [], []
    for index in shown:
        name = predictions.classes[index] if index < len(predictions.classes) else str(index)
        order = np.argsort(-outputs[:, index], kind="stable")
        positive, ordered = truth[order] == index, outputs[order, index]
        if not positive.any() or positive.all():
            continue
        ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
        true_positives = np.cumsum(positive)[ends].astype(np.float64)
        false_positives = np.cumsum(~positive)[ends].astype(np.float64)
        recall = np.append(0.0, true_positives / true_positives[-1])
        precision = np.append(1.0, true_positives / (true_positives + false_positives))
        fall_out = np.append(0.0, false_positives / false_positives[-1])
        roc.append(_thin(name, fall_out, recall))
        precision_recall.append(_thin(name, recall, precision))
    few = outputs.shape[1] <= MAX_CLASSES
    table = confusion(predictions, np.ones((1, predictions.count)))[0].astype(int) if few else None
    return EvaluationPlots(
        roc=tuple(roc),
        precision_recall=tuple(precision_recall),
        calibration=(_calibration(predictions),),
        confusion=() if table is None else tuple(tuple(int(cell) for cell in row) for row in table),
    )


def _calibration(predictions: Predictions) -> PlotCurve:
    assert predictions.truth is not None
    # Mean confidence and accuracy per bin: of the positive class of two, else of the top class.
    outputs, truth = predictions.outputs.astype(np.float64), predictions.truth.astype(np.intp)
    if outputs.shape[1] == 2:
        confidence, correct = outputs[:, 1], truth == 1
        bins = np.clip((confidence * CALIBRATION_BINS).astype(np.intp), 0, CALIBRATION_BINS - 1)
        name = "share of the positive class"
    else:
        confidence, correct = outputs.max(axis=1), predictions.labels == truth
        bins = calibration_bins(predictions, CALIBRATION_BINS)
        name = "share that is correct"
    counts = np.bincount(bins, minlength=CALIBRATION_BINS)
    present = counts > 0
    xs = (
        np.bincount(bins, weights=confidence, minlength=CALIBRATION_BINS)[present] / counts[present]
    )
    ys = np.bincount(bins, weights=correct, minlength=CALIBRATION_BINS)[present] / counts[present]
    return PlotCurve(name=name, xs=_floats(xs), ys=_floats(ys))


def _regression_plots(predictions: Predictions) -> EvaluationPlots:
    assert predictions.truth is not None
    truth, outputs = predictions.truth.astype(np.float64), predictions.outputs.astype(np.float64)
    counts, edges = np.histogram(truth - outputs, bins=RESIDUAL_BINS)
    sample = np.linspace(0, predictions.count - 1, min(predictions.count, MAX_MARKS)).astype(
        np.intp
    )
    return EvaluationPlots(
        residuals=Histogram(edges=_floats(edges), counts=tuple(int(count) for count in counts)),
        predicted=PlotCurve(name="rows", xs=_floats(truth[sample]), ys=_floats(outputs[sample])),
    )


def _thin(name: str, xs: Array, ys: Array) -> PlotCurve:
    chosen = np.unique(
        np.linspace(0, len(xs) - 1, min(len(xs), MAX_POINTS)).round().astype(np.intp)
    )
    return PlotCurve(name=name, xs=_floats(xs[chosen]), ys=_floats(ys[chosen]))


def _floats(values: Array) -> tuple[float, ...]:
    # Six digits are more than a screen shows.
    return tuple(float(f"{value:.6g}") for value in values)
