"""Evaluations end to end on real trees: folds, slices, learning curves, worker processes."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import tokenizers.models
from sklearn.datasets import make_classification, make_regression
from sklearn.model_selection import KFold, StratifiedKFold

from gpuyard.document.encode import dump_json, load_json
from gpuyard.errors import ExternalError, InputError
from gpuyard.learn.evaluate.evaluation import evaluate, score_predictions
from gpuyard.learn.evaluate.fold import FoldJob, FoldPrediction, predict_fold, predictions_of
from gpuyard.learn.evaluate.pool import open_pool
from gpuyard.learn.evaluate.scorecard import Scorecard
from gpuyard.learn.evaluate.spec import EvaluateSpec
from gpuyard.learn.evaluate.splits import ArraySplits, TrainTestSplit
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import TabularData, TokenData
from gpuyard.learn.trainers.trees.trees_settings import TreesSpec

TREES = TrainSpec(trees=TreesSpec(rounds=15, leaves=7))


def classes(rows: int = 240) -> TabularData:
    """Three classes that can be told apart."""
    x, y = make_classification(rows, 6, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
    return TabularData(
        x=x.astype(np.float32),
        y=y,
        names=tuple("abcdef"),
        problem="classification",
        classes=("p", "q", "r"),
    )


def folds(table: TabularData, count: int = 4) -> ArraySplits:
    """Stratified folds."""
    cuts = StratifiedKFold(count, shuffle=True, random_state=0).split(table.x, table.y)
    return ArraySplits(table=table, cuts=tuple(cuts))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sliced(ArraySplits):
    """Parts whose test rows have columns to be sliced by."""

    def part(self, number: int) -> TrainTestSplit:
        """With a text, a number and missing values."""
        part = ArraySplits.part(self, number)
        assert isinstance(part.test, TabularData)
        place = np.array(
            ["north" if value > 0 else "south" for value in part.test.x[:, 0]], dtype=object
        )
        place[:2] = None
        return dataclasses.replace(part, columns=(("place", place), ("size", part.test.x[:, 1])))


def test_cross_validation_has_scores_intervals_and_plots() -> None:
    evaluation = evaluate(
        folds(classes()), TREES, EvaluateSpec(learning_curve=(0.3,)), method="4 folds", workers=1
    )
    card = evaluation.card
    assert [score.metric for score in card.scores] == [
        "roc_auc",
        "pr_auc",
        "log_loss",
        "accuracy",
        "f1_macro",
        "ece",
        "mcc",
    ]
    for score in card.scores:
        assert len(score.parts) == 4
        assert score.value == pytest.approx(np.mean(score.parts))
        assert score.low is not None
        assert score.high is not None
        assert score.low < score.value < score.high <= 1.0 or score.metric == "log_loss"
    assert card.score("accuracy").value > 0.6
    assert card.rows == 240
    assert [fold.test_rows for fold in card.folds] == [60] * 4
    assert np.sum(card.pictures.confusion) == 240
    assert [curve.name for curve in card.pictures.roc] == ["p", "q", "r"]
    assert len(card.losses) == 4
    assert card.losses[0].ys[-1] < card.losses[0].ys[0]
    assert [point.train_rows for point in card.learning] == [54, 180]
    assert evaluation.predictions.rows is not None
    assert sorted(evaluation.predictions.rows) == list(range(240))  # every row was predicted once
    assert load_json(dump_json(card), Scorecard) == card


def test_scores_do_not_depend_on_workers() -> None:
    parts, spec = folds(classes(), 3), EvaluateSpec(metrics=("log_loss",), resamples=0)
    alone = evaluate(parts, TREES, spec, method="", workers=1).card.scores
    with open_pool(2, ("numpy",), patience_s=0.0) as pool:
        jobs = [FoldJob(parts=parts, number=number, train=TREES) for number in range(3)]
        results = pool.run(predict_fold, jobs)
        assert pool.executor is not None
    assert score_predictions(results, spec, trainer="trees", method="").scores == alone
    assert evaluate(parts, TREES, spec, method="", workers=1).card.scores == alone


def test_killed_worker_raises_external_error() -> None:
    with open_pool(2, patience_s=0.0) as pool:
        assert pool.run(abs, [-1, -2]) == [1, 2]
        with pytest.raises(ExternalError, match="killed"):
            pool.run(os._exit, [1, 1])


ORPHANS = """
import os, signal, sys, time
from gpuyard.learn.evaluate.pool import open_pool
if __name__ == "__main__":
    with open_pool(2, patience_s=0.0) as pool:
        pool.run(abs, [-1, -2])
        print(*pool.executor._processes, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_exit_when_their_parent_is_killed(tmp_path: Path) -> None:
    (tmp_path / "orphans.py").write_text(ORPHANS)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "orphans.py")],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    workers = [Path("/proc") / pid for pid in done.stdout.split()]
    assert workers
    until_s = time.monotonic() + 120.0
    while time.monotonic() < until_s:
        if not any(_runs(worker) for worker in workers):
            return
        time.sleep(0.1)
    raise AssertionError("a worker is still running")


def _runs(process: Path) -> bool:
    """True of a process that is there and not only waited for."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_hold_out_has_bootstrap_intervals_and_slices() -> None:
    table = classes()
    rows = np.arange(240)
    parts = Sliced(table=table, cuts=((rows[:120], rows[120:]),))
    card = evaluate(
        parts,
        TREES,
        EvaluateSpec(slices=("place", "size"), metrics=("accuracy",)),
        method="",
        workers=1,
    ).card
    (score,) = card.scores
    assert score.parts == ()
    assert score.low is not None
    assert score.high is not None
    assert score.low < score.value < score.high
    values = [(item.column, item.value) for item in card.slices]
    assert values[:2] == [("place", "north"), ("place", "south")]
    assert [column for column, _ in values].count("size") == 4
    assert sum(item.rows for item in card.slices if item.column == "size") == 120
    weighted = (
        sum(item.rows * item.scores[0].value for item in card.slices if item.column == "size") / 120
    )
    assert weighted == pytest.approx(score.value)
    with pytest.raises(InputError, match="no column colour"):
        evaluate(parts, TREES, EvaluateSpec(slices=("colour",)), method="", workers=1)


def test_regression_scorecard_has_residuals() -> None:
    x, y = make_regression(150, 5, noise=1.0, random_state=0)
    table = TabularData(x=x.astype(np.float32), y=y, names=tuple("abcde"), problem="regression")
    parts = ArraySplits(table=table, cuts=tuple(KFold(3, shuffle=True, random_state=0).split(x)))
    card = evaluate(parts, TREES, EvaluateSpec(), method="", workers=1).card
    assert card.score("r2").value > 0.3
    assert card.pictures.residuals is not None
    assert sum(card.pictures.residuals.counts) == 150


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (EvaluateSpec(folds=1), "one fold"),
        (EvaluateSpec(confidence_ratio=1.0), "100%"),
        (EvaluateSpec(learning_curve=(0.0,)), "above 0"),
        (EvaluateSpec(metrics=("rmse",)), "regression"),
    ],
)
def test_invalid_evaluate_section_raises_input_error(spec: EvaluateSpec, message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(folds(classes(60), 2), TREES, spec, method="", workers=1)


def test_predictions_of_an_existing_model_are_scored() -> None:
    evaluation = evaluate(folds(classes(), 2), TREES, EvaluateSpec(), method="", workers=1)
    bare = FoldPrediction(number=0, predictions=evaluation.predictions, test_rows=240)
    card = score_predictions(
        [bare], EvaluateSpec(metrics=("accuracy",)), trainer="trees", method="a model"
    )
    assert card.score("accuracy").value == pytest.approx(evaluation.card.score("accuracy").value)


class Uniform:
    """A language model that holds every token for as likely as any other, and guesses token 1."""

    summary = None

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """Nats of every token but the first."""
        return np.full((len(rows), rows.shape[1] - 1), np.log(4.0))

    def hits(self, rows: np.ndarray) -> np.ndarray:
        """Where its guess is right."""
        return np.asarray(rows[:, 1:] == 1)


def test_language_model_is_scored_by_nats_bytes_and_top_tokens(tmp_path: Path) -> None:
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"a": 0, "bb": 1, "ccc": 2, "dddd": 3}, unk_token="a")
    )
    words.save(str(tmp_path / "tokenizer.json"))
    ids = np.array([[0, 1, 1, 2], [3, 1, 0, 0]])
    tokens = TokenData(ids=ids, vocab=4, tokenizer=tmp_path / "tokenizer.json")
    predictions = predictions_of(Uniform(), tokens, None)  # type: ignore[arg-type]
    card = score_predictions(
        [FoldPrediction(number=0, predictions=predictions, test_rows=2)],
        EvaluateSpec(resamples=0),
        trainer="t",
        method="",
    )
    assert card.score("perplexity").value == pytest.approx(4.0)
    assert card.score("token_accuracy").value == pytest.approx(0.5)
    text_bytes = len("bb bb ccc") + len("bb a a")
    assert card.score("bits_per_byte").value == pytest.approx(6 * 2.0 / text_bytes)
    assert card.pictures.position_loss is not None
    bare = predictions_of(Uniform(), TokenData(ids=ids, vocab=4), None)  # type: ignore[arg-type]
    told = score_predictions(
        [FoldPrediction(number=0, predictions=bare, test_rows=2)],
        EvaluateSpec(resamples=0),
        trainer="t",
        method="",
    )
    assert told.not_computed == ("bits_per_byte",)
