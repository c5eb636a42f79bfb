"""One part: a model fitted on its training rows, and what it answers on its test rows."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError
from gpuyard.learn.evaluate.parts import Part, Parts, cut
from gpuyard.learn.evaluate.pictures import Curve
from gpuyard.learn.evaluate.predictions import AnyArray, Array, Predictions
from gpuyard.learn.fit import fit_data
from gpuyard.learn.metrics_log import StepMetrics
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import Fitted, Guesser, Table, Tokens

__all__ = ["Answer", "FoldJob", "answer", "answers", "single_threaded"]

PREDICT_SEQUENCES = 64
PREDICT_ROWS = 65_536  # at a time: bounds the memory of the answers' activations


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldJob:
    """What a worker is told: which part, which trainer, and how much of the training rows."""

    parts: Parts
    number: int
    train: TrainSpec
    share: float = 1.0
    seed: int = 0  # of the rows that a share below 1 leaves out
    on_train: bool = False  # also answer the training rows, for a learning curve


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """What came back."""

    number: int
    predictions: Predictions
    train_rows: int = 0  # 0: the model was trained elsewhere
    test_rows: int
    fit_s: float = 0.0
    predict_s: float = 0.0
    losses: tuple[Curve, ...] = ()
    columns: tuple[tuple[str, AnyArray], ...] = ()
    on_train: Predictions | None = None


def single_threaded(spec: TrainSpec) -> TrainSpec:
    """The spec with trees on one thread unless the user says otherwise: scores do not depend on the cores then."""
    if spec.trees is None or spec.trees.threads:
        return spec
    return dataclasses.replace(spec, trees=dataclasses.replace(spec.trees, threads=1))


def answer(job: FoldJob) -> Answer:
    """Fits on the part's training rows and answers its test rows."""
    part = cut(job.parts, job.number)
    train = _shared(part, job)
    seen: list[StepMetrics] = []

    def watch(metrics: StepMetrics) -> bool:
        """Keeps the losses."""
        seen.append(metrics)
        return False

    began = time.perf_counter()
    fitted = fit_data(single_threaded(job.train), train, watch=watch)
    fit_s = time.perf_counter() - began
    began = time.perf_counter()
    predictions = answers(fitted, part.test, part.rows)
    return Answer(
        number=job.number,
        predictions=predictions,
        train_rows=_rows(train),
        test_rows=_rows(part.test),
        fit_s=fit_s,
        predict_s=time.perf_counter() - began,
        losses=_losses(seen, job.number),
        columns=part.columns,
        on_train=answers(fitted, train, None) if job.on_train else None,
    )


def answers(fitted: Fitted, test: Table | Tokens, rows: npt.NDArray[np.intp] | None) -> Predictions:
    """What a fitted model says about the rows, beside the truth."""
    if isinstance(test, Tokens):
        return _language(fitted, test, rows)
    if test.y is None:
        raise InputError.one("evaluate", "the data has no label", "name the label column under data")
    chunks = [fitted.predict(test.x[start : start + PREDICT_ROWS]) for start in range(0, len(test.x), PREDICT_ROWS)]
    return Predictions(
        problem=test.problem, outputs=np.concatenate(chunks), truth=test.y, classes=test.classes, groups=test.groups,
        rows=rows,
    )  # fmt: skip


def _language(fitted: Fitted, test: Tokens, rows: npt.NDArray[np.intp] | None) -> Predictions:
    """Nats of every token, the size of the text, and the likeliest tokens where the model tells them."""
    nats, found, sizes = [], [], []
    for start in range(0, len(test), PREDICT_SEQUENCES):
        ids = test.of(np.arange(start, min(start + PREDICT_SEQUENCES, len(test))))
        nats.append(fitted.predict(ids))
        sizes.append(_text_bytes(test, ids))
        if isinstance(fitted, Guesser):
            found.append(fitted.hits(ids))
    text_bytes = np.concatenate(sizes)
    return Predictions(
        problem="language",
        outputs=np.concatenate(nats),
        hits=np.concatenate(found) if found else None,
        text_bytes=text_bytes if (text_bytes > 0).all() else None,
        rows=rows,
    )


def _text_bytes(test: Tokens, ids: AnyArray) -> Array:
    """The size of each sequence's predicted text; nothing where there is no tokenizer to tell."""
    if test.tokenizer is None:
        return np.zeros(len(ids))
    import tokenizers

    decoder = tokenizers.Tokenizer.from_file(str(test.tokenizer))
    texts = decoder.decode_batch([[int(token) for token in row[1:]] for row in ids], skip_special_tokens=False)
    return np.array([len(text.encode()) for text in texts], dtype=np.float64)


def _shared(part: Part, job: FoldJob) -> Table | Tokens:
    """The training rows, or a share of them: smaller shares are parts of larger ones."""
    rows = _rows(part.train)
    if job.share >= 1:
        return part.train
    order = np.random.default_rng(job.seed).permutation(rows)
    return part.train.take(np.sort(order[: max(2, round(job.share * rows))]))


def _rows(data: Table | Tokens) -> int:
    """How many rows or sequences."""
    return len(data.x) if isinstance(data, Table) else len(data)


def _losses(seen: list[StepMetrics], number: int) -> tuple[Curve, ...]:
    """Loss by step, of training and of validation rows."""
    found = []
    for name in ("loss", "validation_loss"):
        points = [(float(line.step), float(getattr(line, name))) for line in seen if getattr(line, name) is not None]
        points = [(step, value) for step, value in points if np.isfinite(value)]
        if points:
            xs, ys = zip(*points, strict=True)
            found.append(Curve(name=f"{name.replace('_', ' ')}, part {number + 1}", xs=xs, ys=ys))
    return tuple(found)
