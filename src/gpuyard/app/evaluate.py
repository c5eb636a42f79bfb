"""`gpuyard evaluate`: how good a pipeline's model is, or a registered one, and whether it beats another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpuyard.app.data import run_data
from gpuyard.app.pipeline import Stages, read_stages
from gpuyard.datasets import Prepared, load_prepared
from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.learn.evaluate import Answer, Comparison, EvaluateSpec, Scorecard, compare, evaluate, judge, measures_of
from gpuyard.learn.evaluate.bundled import bundle_predictions
from gpuyard.learn.evaluate.predictions import Predictions
from gpuyard.learn.evaluate.prepared import TEST, method_of, prepared_parts, problem_of, split_columns
from gpuyard.registry import DESCRIPTION, Registry, read_bundle

__all__ = ["Judged", "compare_models", "evaluate_file", "evaluate_model", "prepared_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A scorecard, and how it compares with another model on the same rows."""

    card: Scorecard
    against: str = ""
    comparisons: tuple[Comparison, ...] = ()


def prepared_of(path: Path, data: Path | None, home: Home) -> Prepared:
    """The prepared data that is named, or that of the workload file, prepared now where it is not yet."""
    return load_prepared(data) if data is not None else run_data(path, out=home.data / path.stem)


def evaluate_file(
    path: Path, *, home: Home, data: Path | None = None, workers: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Judged:  # fmt: skip
    """Trains and judges as the `train` and `evaluate` sections of a workload file say."""
    stages = read_stages(path)
    if stages.train is None:
        raise InputError.one(str(path), "there is no train section", "add train: {trees: {}}, or name a --model")
    prepared, spec = prepared_of(path, data, home), _section(stages)
    parts = prepared_parts(prepared, spec)
    method = method_of(parts, problem_of(prepared))
    version = prepared.manifest.version
    found = evaluate(parts, stages.train, spec, method=method, data=version, workers=workers, progress=progress)
    return Judged(card=found.card)


def evaluate_model(
    path: Path, model: str, *, against: str = "", home: Home, data: Path | None = None, split: str = TEST
) -> Judged:
    """Judges an exported model (NAME@ALIAS, NAME/3 or a bundle's folder) on a split, and another beside it."""
    prepared, spec = prepared_of(path, data, home), _section(read_stages(path))
    folder = _folder(model, home)
    given = bundle_predictions(folder, prepared, split)
    columns = split_columns(prepared, split, spec.slices)
    answer = Answer(number=0, predictions=given, test_rows=given.count, columns=columns)
    card = judge(
        [answer], spec, trainer=read_bundle(folder, verify=False).trainer, method=f"{model} on the {split} split",
        data=prepared.manifest.version,
    )  # fmt: skip
    if not against:
        return Judged(card=card)
    other = bundle_predictions(_folder(against, home), prepared, split)
    return Judged(card=card, against=against, comparisons=compare_models(card, other, given, spec))


def compare_models(
    card: Scorecard, first: Predictions, second: Predictions, spec: EvaluateSpec
) -> tuple[Comparison, ...]:
    """Second against first, by each metric of the scorecard."""
    measures = measures_of([score.metric for score in card.scores], second.problem)
    return tuple(compare(item, first, second, confidence=spec.confidence_ratio, seed=spec.seed) for item in measures)


def _section(stages: Stages) -> EvaluateSpec:
    """The evaluate section, or the usual way."""
    return stages.evaluate or EvaluateSpec()


def _folder(model: str, home: Home) -> Path:
    """The bundle that is meant: a folder, or a version of the registry."""
    place = Path(model)
    return place if (place / DESCRIPTION).is_file() else Registry(home=home).get(model).path
