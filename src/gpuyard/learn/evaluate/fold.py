"""One fold: fit a model on the training rows and predict the test rows."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.datasets.saved_manifest import load_manifest
from gpuyard.errors import InputError
from gpuyard.learn.evaluate.command_fold import fitted_command
from gpuyard.learn.evaluate.plots import PlotCurve
from gpuyard.learn.evaluate.predictions import AnyArray, Array, Predictions
from gpuyard.learn.evaluate.splits import EvaluationSplits, TrainTestSplit, cached_split
from gpuyard.learn.fit import fit_data
from gpuyard.learn.metrics_log import StepMetrics
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import (
    FittedModel,
    ImageData,
    LearningData,
    NextTokenModel,
    TabularData,
    TokenData,
)
from gpuyard.learn.training_data import with_declared_validation

PREDICT_SEQUENCES = 64
PREDICT_IMAGES = 256  # decoded at a time: 150 MB of 224 × 224 RGB images
PREDICT_ROWS = 65_536  # per call: bounds the memory of activations


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldJob:
    """The job of a worker: a split, a trainer, and the share of training rows to use."""

    parts: EvaluationSplits
    number: int
    train: TrainSpec
    share: float = 1.0
    seed: int = 0  # selects the rows of a share below 1
    on_train: bool = False  # also predict the training rows, for a learning curve


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FoldPrediction:
    """The predictions of one fold, with row counts, times and losses."""

    number: int
    predictions: Predictions
    train_rows: int = 0  # 0: trained elsewhere
    test_rows: int
    fit_s: float = 0.0
    predict_s: float = 0.0
    losses: tuple[PlotCurve, ...] = ()
    columns: tuple[tuple[str, AnyArray], ...] = ()
    on_train: Predictions | None = None


def single_threaded(spec: TrainSpec) -> TrainSpec:
    """Run trees on one thread by default, so that scores do not depend on the core count."""
    if spec.trees is None or spec.trees.threads:
        return spec
    return dataclasses.replace(spec, trees=dataclasses.replace(spec.trees, threads=1))


def predict_fold(job: FoldJob) -> FoldPrediction:
    """Fit on the training rows of a split and predict its test rows."""
    split = cached_split(job.parts, job.number)
    train = _train_rows(split, job)
    history: list[StepMetrics] = []

    def watch(metrics: StepMetrics) -> bool:
        history.append(metrics)
        return False

    began = time.perf_counter()
    with _fitted(job, train, split.validation, watch) as fitted:
        fit_s = time.perf_counter() - began
        began = time.perf_counter()
        predictions = predictions_of(fitted, split.test, split.rows)
        return FoldPrediction(
            number=job.number,
            predictions=predictions,
            train_rows=_rows(train),
            test_rows=_rows(split.test),
            fit_s=fit_s,
            predict_s=time.perf_counter() - began,
            losses=_losses(history, job.number),
            columns=split.columns,
            on_train=predictions_of(fitted, train, None) if job.on_train else None,
        )


@contextlib.contextmanager
def _fitted(
    job: FoldJob,
    train: LearningData,
    validation: LearningData | None,
    watch: Callable[[StepMetrics], bool],
) -> Iterator[FittedModel]:
    folder = job.parts.prepared
    if job.train.command is None:
        spec = single_threaded(job.train)
        if folder is not None and validation is None:
            spec = with_declared_validation(spec, load_manifest(folder))
        yield fit_data(spec, train, validation=validation, watch=watch)
        return
    if folder is None or not isinstance(train, TabularData):
        raise InputError.one(
            "train: command", "reads prepared tables", "evaluate it on a prepared table"
        )
    with fitted_command(job.train, train, folder, watch) as fitted:
        yield fitted


def predictions_of(
    fitted: FittedModel, test: LearningData, rows: npt.NDArray[np.intp] | None
) -> Predictions:
    """Predict the test rows and pair the predictions with the labels."""
    if isinstance(test, TokenData):
        if test.pairs:
            what = "pairs of replies have no scores but those of the training"
            raise InputError.one("evaluate", what, "see reward_accuracy of the training")
        return _language_predictions(fitted, test, rows)
    if isinstance(test, ImageData):
        return Predictions(
            problem="classification",
            outputs=np.concatenate([fitted.predict(batch) for batch in image_batches(test)]),
            truth=test.y,
            classes=test.classes,
            rows=rows,
        )
    if test.y is None:
        raise InputError.one("evaluate", "the data has no label", "set the label column under data")
    chunks = [
        fitted.predict(test.x[start : start + PREDICT_ROWS])
        for start in range(0, len(test.x), PREDICT_ROWS)
    ]
    return Predictions(
        problem=test.problem,
        outputs=np.concatenate(chunks),
        truth=test.y,
        classes=test.classes,
        groups=test.groups,
        rows=rows,
    )


def image_batches(data: ImageData) -> Iterator[AnyArray]:
    """Yield the images, PREDICT_IMAGES at a time."""
    for start in range(0, len(data), PREDICT_IMAGES):
        yield data.of(np.arange(start, min(start + PREDICT_IMAGES, len(data))))


def _language_predictions(
    fitted: FittedModel, test: TokenData, rows: npt.NDArray[np.intp] | None
) -> Predictions:
    nats: list[Array] = []
    hits: list[AnyArray] = []
    sizes: list[Array] = []
    masks: list[AnyArray] = []
    for start in range(0, len(test), PREDICT_SEQUENCES):
        at = np.arange(start, min(start + PREDICT_SEQUENCES, len(test)))
        ids, learned = test.of(at), test.learned(at)
        nats.append(fitted.predict(ids))
        sizes.append(_text_bytes(test, ids, learned))
        if learned is not None:
            masks.append(learned)
        if isinstance(fitted, NextTokenModel):
            hits.append(fitted.hits(ids))
    text_bytes = np.concatenate(sizes)
    return Predictions(
        problem="language",
        outputs=np.concatenate(nats),
        hits=np.concatenate(hits) if hits else None,
        learned=np.concatenate(masks) if masks else None,
        text_bytes=text_bytes if (text_bytes > 0).all() else None,
        rows=rows,
    )


def _text_bytes(test: TokenData, ids: AnyArray, learned: AnyArray | None) -> Array:
    if test.tokenizer is None:
        return np.zeros(len(ids))
    import tokenizers

    decoder = tokenizers.Tokenizer.from_file(str(test.tokenizer))
    texts = decoder.decode_batch(
        [
            [int(token) for token in (row[1:] if learned is None else row[1:][learned[number]])]
            for number, row in enumerate(ids)
        ],
        skip_special_tokens=False,
    )
    return np.array([len(text.encode()) for text in texts], dtype=np.float64)


def _train_rows(split: TrainTestSplit, job: FoldJob) -> LearningData:
    # A smaller share is a subset of a larger one, so that learning curves are comparable.
    rows = _rows(split.train)
    if job.share >= 1:
        return split.train
    order = np.random.default_rng(job.seed).permutation(rows)
    return split.train.take(np.sort(order[: max(2, round(job.share * rows))]))


def _rows(data: LearningData) -> int:
    return len(data.x) if isinstance(data, TabularData) else len(data)


def _losses(history: list[StepMetrics], number: int) -> tuple[PlotCurve, ...]:
    curves = []
    for name in ("loss", "validation_loss"):
        points = [
            (float(line.step), float(getattr(line, name)))
            for line in history
            if getattr(line, name) is not None
        ]
        points = [(step, value) for step, value in points if np.isfinite(value)]
        if points:
            xs, ys = zip(*points, strict=True)
            curves.append(
                PlotCurve(name=f"{name.replace('_', ' ')}, fold {number + 1}", xs=xs, ys=ys)
            )
    return tuple(curves)
