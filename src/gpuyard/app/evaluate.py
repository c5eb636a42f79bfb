"""`gpuyard evaluate`: score a pipeline's model or a registered one, and compare two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from gpuyard.app.data import run_data
from gpuyard.app.stages import Stages, read_stages, train_in
from gpuyard.datasets.prepared import PreparedDataset, load_prepared
from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.learn.evaluate.bundled import bundle_predictions
from gpuyard.learn.evaluate.compare import Comparison, compare
from gpuyard.learn.evaluate.evaluation import evaluate, score_predictions
from gpuyard.learn.evaluate.fold import FoldPrediction
from gpuyard.learn.evaluate.language_bundle import language_predictions
from gpuyard.learn.evaluate.metric_table import metrics_named
from gpuyard.learn.evaluate.predictions import Predictions
from gpuyard.learn.evaluate.prepared import (
    TEST,
    method_of,
    prepared_splits,
    problem_of,
    split_columns,
)
from gpuyard.learn.evaluate.scorecard import Scorecard
from gpuyard.learn.evaluate.spec import EvaluateSpec
from gpuyard.learn.fit import fit
from gpuyard.learn.spec import TrainSpec, trainer_of
from gpuyard.learn.task import TrainTask
from gpuyard.learn.trainer import TokenData
from gpuyard.learn.training_data import split_data
from gpuyard.registry.bundle import DESCRIPTION, read_bundle
from gpuyard.registry.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationReport:
    """A scorecard, and the comparison with another model on the same rows."""

    card: Scorecard
    against: str = ""
    comparisons: tuple[Comparison, ...] = ()


def prepared_of(path: Path, data: Path | None, home: Home) -> PreparedDataset:
    """Load the named prepared data, or prepare that of the workload file."""
    return load_prepared(data) if data is not None else run_data(path, out=home.data / path.stem)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedModel:
    """The bundle that the train stage of a run left, and the folder of its workload file."""

    bundle: Path
    base: Path


def evaluate_file(
    path: Path,
    *,
    home: Home,
    data: Path | None = None,
    trained: TrainedModel | None = None,
    workers: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> EvaluationReport:
    """Evaluate as a workload file says; a `trained` model is judged on the test split as it is."""
    stages = read_stages(path)
    if stages.train is None:
        raise InputError.one(
            str(path), "there is no train section", "add train: {trees: {}}, or name a --model"
        )
    prepared, spec = prepared_of(path, data, home), _section(stages)
    train = train_in(stages.train, path.parent if trained is None else trained.base)
    parts = prepared_splits(prepared, spec)
    method = method_of(parts, problem_of(prepared))
    if not parts.folds and not spec.learning_curve:
        if trained is not None:
            return _held_out(trained.bundle, train, prepared, spec, method)
        if train.command is not None:  # it leaves a bundle, and nothing else to predict with
            with TemporaryDirectory(prefix="gpuyard-evaluate-") as out:
                fit(TrainTask(train=train, data=str(prepared.folder), out=out))
                return _held_out(Path(out) / "bundle", train, prepared, spec, method)
    evaluation = evaluate(
        parts,
        train,
        spec,
        method=method,
        data=prepared.manifest.version,
        workers=workers,
        progress=progress,
    )
    return EvaluationReport(card=evaluation.card)


def _held_out(
    bundle: Path, train: TrainSpec, prepared: PreparedDataset, spec: EvaluateSpec, method: str
) -> EvaluationReport:
    """Score a bundle on the test split of the data that it was trained on."""
    if not bundle.is_dir():
        raise InputError.one(
            "evaluate",
            "the training program left no model",
            "write model.onnx into $GPUYARD_BUNDLE, or leave out evaluate",
        )
    if prepared.manifest.kind == "tokens":
        test = split_data(prepared, TEST)
        assert isinstance(test, TokenData)
        predictions = language_predictions(bundle, train, test)
    else:
        predictions = bundle_predictions(bundle, prepared, TEST)
    card = _card(predictions, prepared, spec, trainer=trainer_of(train), method=method)
    return EvaluationReport(card=card)


def _card(
    predictions: Predictions,
    prepared: PreparedDataset,
    spec: EvaluateSpec,
    *,
    trainer: str,
    method: str,
    split: str = TEST,
) -> Scorecard:
    answer = FoldPrediction(
        number=0,
        predictions=predictions,
        test_rows=predictions.count,
        columns=split_columns(prepared, split, spec.slices),
    )
    version = prepared.manifest.version
    return score_predictions([answer], spec, trainer=trainer, method=method, data=version)


def evaluate_model(
    path: Path,
    model: str,
    *,
    against: str = "",
    home: Home,
    data: Path | None = None,
    split: str = TEST,
) -> EvaluationReport:
    """Evaluate an exported model (NAME@ALIAS, NAME/3 or a bundle folder) on a split."""
    prepared, spec = prepared_of(path, data, home), _section(read_stages(path))
    folder = _folder(model, home)
    given = bundle_predictions(folder, prepared, split)
    trainer = read_bundle(folder, verify=False).trainer
    method = f"{model} on the {split} split"
    card = _card(given, prepared, spec, trainer=trainer, method=method, split=split)
    if not against:
        return EvaluationReport(card=card)
    other = bundle_predictions(_folder(against, home), prepared, split)
    return EvaluationReport(
        card=card, against=against, comparisons=compare_models(card, other, given, spec)
    )


def compare_models(
    card: Scorecard, first: Predictions, second: Predictions, spec: EvaluateSpec
) -> tuple[Comparison, ...]:
    """Compare two models by each metric of the scorecard."""
    measures = metrics_named([score.metric for score in card.scores], second.problem)
    return tuple(
        compare(item, first, second, confidence=spec.confidence_ratio, seed=spec.seed)
        for item in measures
    )


def _section(stages: Stages) -> EvaluateSpec:
    return stages.evaluate or EvaluateSpec()


def _folder(model: str, home: Home) -> Path:
    place = Path(model)
    return place if (place / DESCRIPTION).is_file() else Registry(home=home).get(model).path
