"""Gradient boosting with LightGBM, in blocks of rounds that resume to the same trees."""

from __future__ import annotations

import functools
import json
import math
import statistics
import time
import typing
from collections.abc import Callable
from pathlib import Path

import lightgbm as lgb
import numpy as np

from gpuyard.errors import InputError
from gpuyard.learn.arrays import Array
from gpuyard.learn.memory import peak_bytes
from gpuyard.learn.metrics_log import StepMetrics
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import (
    Exported,
    StoppedError,
    TabularData,
    TrainingContext,
    TrainingInputs,
    TrainingSummary,
)
from gpuyard.learn.trainers.trees.onnx_trees import export_trees
from gpuyard.learn.trainers.trees.structure import additions, leaves, nodes_of
from gpuyard.learn.trainers.trees.trees_settings import TreesSpec

WHERE = "train: trees"
MODEL = "booster.txt"
NOTES = "notes.json"
# LightGBM samples rows and columns from a state that is not part of a saved model. With sampling,
# each block of rounds therefore starts from a saved model and its own seed, so that a resumed run
# grows the same trees.
BLOCK = 50
NDCG_AT = 5


class TreesTrainer:
    """Trains gradient-boosted trees with LightGBM."""

    def __init__(self, train: TrainSpec, spec: TreesSpec) -> None:
        self.train, self.spec = train, spec

    def fit(self, data: TrainingInputs, run: TrainingContext) -> FittedTrees:
        table = _checked(data.train, self.spec)
        if run.ranks.world > 1:
            raise InputError.one(
                WHERE, "trains in one process", "set one process; it uses all cores of the host"
            )
        validation = None if data.validation is None else _checked(data.validation, self.spec)
        if self.spec.early_stopping is not None and validation is None:
            raise InputError.one(
                f"{WHERE}: early_stopping",
                "there are no validation rows",
                "set split: validation in data, or train: validation",
            )
        boosting = _Boosting(self.train, self.spec, run, table, validation)
        boosting.restore()
        while not boosting.over:
            boosting.block()
        return FittedTrees(boosting.model(), table, lambda: boosting.summary)


class _Boosting:
    # The state between blocks of rounds.
    def __init__(
        self,
        train: TrainSpec,
        spec: TreesSpec,
        run: TrainingContext,
        table: TabularData,
        validation: TabularData | None,
    ) -> None:
        self.train = train
        self.spec = spec
        self.run = run
        self.table = table
        self.targets = len(table.classes) if len(table.classes) > 2 else 1
        self.sampled = spec.rows_ratio < 1 or spec.columns_ratio < 1
        self.data = _dataset(table)
        self.validation = None if validation is None else _dataset(validation, self.data)
        self.text: str | None = None  # the model so far
        self.round = 0
        self.best_loss = math.inf
        self.best_round = 0
        self.loss = math.nan
        self.validation_loss = math.nan
        self.ended = False
        self.resumed: int | None = None
        self.seconds: list[float] = []
        self.began = time.perf_counter()

    @property
    def over(self) -> bool:
        return self.ended or self.round >= self.spec.rounds

    def block(self) -> None:
        # Up to the next block, or to the end without sampling.
        started, rounds = self.round, self.spec.rounds
        block = started // BLOCK
        ends = min(rounds, (block + 1) * BLOCK) if self.sampled else rounds
        self.began = time.perf_counter()
        booster = lgb.train(
            _parameters(self.spec, self.table, self.train.seed + 1000003 * block * self.sampled),
            self.data,
            ends - self.round,
            valid_sets=[self.validation] if self.validation is not None else None,
            valid_names=["validation"] if self.validation is not None else None,
            init_model=None if self.text is None else lgb.Booster(model_str=self.text),
            callbacks=[self.after_round],
            keep_training_booster=True,
        )
        self.text = booster.model_to_string(num_iteration=-1)
        if self.sampled and not self.ended:
            # A round in which no leaf can be split adds no tree; the next block counts from here.
            self.round = booster.current_iteration()
            self.ended = self.round <= started
        if self.sampled and not self.over:
            self.save()

    def after_round(self, env: typing.Any) -> None:  # callback of LightGBM
        now = time.perf_counter()
        self.seconds.append(now - self.began)
        self.round = env.iteration + 1
        if env.evaluation_result_list:
            self.validation_loss = _loss(env.evaluation_result_list[0])
            if self.validation_loss < self.best_loss:
                self.best_loss, self.best_round = self.validation_loss, self.round
        last = self.round == self.spec.rounds
        patience = self.spec.early_stopping
        self.ended = patience is not None and self.round - self.best_round >= patience
        if self.round == 1 or last or self.ended or self.round % self.train.log_every == 0:
            self.loss = _loss(env.model.eval_train()[0])
            self.ended |= self.run.record(self.metrics())
        stopping = self.run.stop()
        due = stopping or self.round % self.train.checkpoint_every == 0 or last or self.ended
        if due and not self.sampled and self.run.checkpoints is not None:
            self.text = env.model.model_to_string(num_iteration=-1)
            self.save()
        if stopping:
            raise StoppedError(f"stopped after round {self.round} of {self.spec.rounds}")
        if self.ended:
            raise lgb.callback.EarlyStopException(self.round - 1, [])
        self.began = time.perf_counter()

    def metrics(self) -> StepMetrics:
        rows, step_s = len(self.table.x), self.seconds[-1]
        return StepMetrics(
            step=self.round,
            steps=self.spec.rounds,
            epoch=float(self.round),
            loss=self.loss,
            validation_loss=None if math.isnan(self.validation_loss) else self.validation_loss,
            learning_rate=self.spec.learning_rate,
            step_s=step_s,
            samples_per_s=rows / step_s,
            memory_bytes=peak_bytes(),
        )

    def save(self) -> None:
        names = ("best_loss", "best_round", "loss", "validation_loss", "ended")
        notes = {name: getattr(self, name) for name in names} | {"step_s": self.step_s}

        def write(folder: Path) -> None:
            (folder / MODEL).write_text(self.text or "", encoding="utf-8")
            (folder / NOTES).write_text(json.dumps(notes), encoding="utf-8")

        if self.run.checkpoints is not None:
            self.run.checkpoints.save(self.round, write)

    def restore(self) -> None:
        if self.run.checkpoints is None:
            return
        checkpoint = self.run.checkpoints.restore(lambda folder: (folder / MODEL, folder / NOTES))
        if checkpoint is None:
            return
        self.round, (model, notes) = checkpoint
        self.resumed, self.text = self.round, model.read_text(encoding="utf-8")
        saved = json.loads(notes.read_text(encoding="utf-8"))
        self.seconds.append(saved.pop("step_s"))
        for name, value in saved.items():
            setattr(self, name, value)
        if lgb.Booster(model_str=self.text).num_feature() != self.table.x.shape[1]:
            raise InputError.one(
                str(model), "checkpoint was trained on different columns", "use another folder"
            )

    def model(self) -> lgb.Booster:
        # With early stopping, the trees up to the best round.
        booster = lgb.Booster(model_str=self.text)
        if self.spec.early_stopping is None or self.best_round == self.round:
            return booster
        return lgb.Booster(model_str=booster.model_to_string(num_iteration=self.best_round))

    @property
    def step_s(self) -> float:
        return statistics.median(self.seconds or [0.0])

    @property
    def summary(self) -> TrainingSummary:
        nodes = tuple(nodes_of(lgb.Booster(model_str=self.text).dump_model(num_iteration=-1)))
        columns = self.table.x.shape[1] * self.spec.columns_ratio
        best = self.best_loss if self.spec.early_stopping is not None else self.validation_loss
        return TrainingSummary(
            steps=self.round,
            step_s=self.step_s,
            samples_per_s=len(self.table.x) / self.step_s if self.step_s > 0 else 0.0,
            memory_bytes=peak_bytes(),
            model_flop_per_step=additions(nodes, columns) / max(1, self.round),
            parameters_count=float(leaves(nodes)),
            device="cpu",
            loss=self.loss if math.isfinite(self.loss) else None,
            validation_loss=best if math.isfinite(best) else None,
            resumed_step=self.resumed,
        )


class FittedTrees:
    """Trained trees."""

    def __init__(
        self, booster: lgb.Booster, table: TabularData, summary: Callable[[], TrainingSummary]
    ) -> None:
        self.booster, self.table, self._summary = booster, table, summary

    @functools.cached_property
    def summary(self) -> TrainingSummary:
        """Outcome of the training run; computed on demand because walking the trees is slow."""
        return self._summary()

    def predict(self, rows: Array) -> Array:
        """Return probabilities [n, c], or values [n]."""
        outputs: Array = np.asarray(self.booster.predict(rows))
        if self.table.problem == "classification" and outputs.ndim == 1:
            return np.stack([1.0 - outputs, outputs], axis=1)
        return outputs

    def export(self, folder: Path) -> Exported:
        """Write model.onnx."""
        nodes = tuple(nodes_of(self.booster.dump_model(num_iteration=-1)))
        targets = self.booster.num_model_per_iteration()
        return export_trees(nodes, self.table, targets, folder, f"lightgbm {lgb.__version__}")


def _checked(data: object, spec: TreesSpec) -> TabularData:
    if not isinstance(data, TabularData):
        raise InputError.one(
            WHERE, "requires a table, but the data is tokens", "use a transformer or lora"
        )
    if data.y is None:
        raise InputError.one(
            WHERE, "the data has no label", "set the label column under data: label"
        )
    if spec.ranking and data.groups is None:
        raise InputError.one(
            f"{WHERE}: ranking", "the data has no groups", "set the group column under data"
        )
    if spec.ranking and data.groups is not None:
        ordered = data.take(np.argsort(data.groups, kind="stable"))  # LightGBM: contiguous groups
        return TabularData(
            x=ordered.x, y=ordered.y, names=data.names, problem="ranking", groups=ordered.groups
        )
    return data


def _dataset(table: TabularData, reference: lgb.Dataset | None = None) -> lgb.Dataset:
    group = None
    if table.problem == "ranking" and table.groups is not None:
        _, group = np.unique(table.groups, return_counts=True)
    quiet = {"verbosity": -1, "feature_pre_filter": False}
    # The rows stay in memory: the next block of rounds needs them.
    return lgb.Dataset(
        table.x, table.y, group=group, reference=reference, params=quiet, free_raw_data=False
    )


def _loss(result: tuple[typing.Any, ...]) -> float:
    # A row of LightGBM's evaluation: dataset, metric, value, whether higher is better.
    return 1.0 - float(result[2]) if result[3] else float(result[2])


def _parameters(spec: TreesSpec, table: TabularData, seed: int) -> dict[str, object]:
    objectives: dict[str, dict[str, object]] = {
        "regression": {"objective": "regression", "metric": "l2"},
        "ranking": {"objective": "lambdarank", "metric": "ndcg", "eval_at": [NDCG_AT]},
        "classification": {"objective": "binary", "metric": "binary_logloss"},
    }
    multiclass = {
        "objective": "multiclass",
        "metric": "multi_logloss",
        "num_class": len(table.classes),
    }
    return (multiclass if len(table.classes) > 2 else objectives[table.problem]) | {
        "num_leaves": spec.leaves,
        "max_depth": spec.depth if spec.depth is not None else -1,
        "learning_rate": spec.learning_rate,
        "min_data_in_leaf": spec.min_rows,
        "lambda_l1": spec.l1,
        "lambda_l2": spec.l2,
        "bagging_fraction": spec.rows_ratio,
        "bagging_freq": int(spec.rows_ratio < 1),
        "feature_fraction": spec.columns_ratio,
        "num_threads": spec.threads,
        "seed": seed % 2**31,
        "deterministic": True,
        "force_col_wise": True,  # otherwise chosen by timing
        "verbosity": -1,
    }


def make(spec: TrainSpec) -> TreesTrainer:
    """Return the trainer of a spec."""
    assert spec.trees is not None
    return TreesTrainer(spec, spec.trees)
