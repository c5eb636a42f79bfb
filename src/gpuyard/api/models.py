"""`gy.prepare`, `train`, `evaluate`, `select`, `predict` and `serve`: data and models in Python."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from gpuyard.api.model_results import (
    DatasetResult,
    EndpointResult,
    ModelResult,
    ScorecardResult,
    SelectionResult,
)
from gpuyard.app.serve import ServeOptions, deploy_models
from gpuyard.datasets.prepare import prepare as prepare_data
from gpuyard.datasets.prepared import PreparedDataset, load_prepared
from gpuyard.datasets.spec import DataSpec
from gpuyard.datasets.transform import load_transform
from gpuyard.document.decode import decode
from gpuyard.document.field_types import Keys
from gpuyard.document.read import read_yaml
from gpuyard.errors import Infeasible, InputError
from gpuyard.home import Home
from gpuyard.learn.evaluate.bundled import bundle_predictions
from gpuyard.learn.evaluate.evaluation import evaluate as cross_validate
from gpuyard.learn.evaluate.evaluation import score_predictions
from gpuyard.learn.evaluate.fold import FoldPrediction
from gpuyard.learn.evaluate.prepared import (
    method_of,
    prepared_splits,
    problem_of,
    search_splits,
    split_columns,
)
from gpuyard.learn.evaluate.spec import EvaluateSpec
from gpuyard.learn.fit import fit
from gpuyard.learn.select.search import SearchOptions
from gpuyard.learn.select.select_model import select as select_model
from gpuyard.learn.select.spec import SelectSpec
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.task import TrainTask
from gpuyard.registry.bundle import ONNX, TRANSFORM
from gpuyard.registry.registry import Registry
from gpuyard.serving.onnx_model import LoadedModel

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    Frame: TypeAlias = pd.DataFrame | pl.DataFrame | pa.Table

T = TypeVar("T")
DEFAULT_HOME = Path(".gpuyard")
FRAME_TYPES = ("DataFrame", "LazyFrame", "Table")


def prepare(
    source: Frame | str | Path | Mapping[str, object],
    *,
    label: str | None = None,
    steps: Sequence[Mapping[str, object]] = (),
    split: Mapping[str, object] | None = None,
    home: str | Path = DEFAULT_HOME,
    **spec: object,
) -> DatasetResult:
    """Prepare data for training.

    Args:
        source: a DataFrame (pandas, Polars, Arrow), a `datasets.Dataset`, a file, folder, glob or
            address, or a mapping with the keys of `pipeline.data`.
        label: the column to predict.
        steps: steps such as `{"impute": {"value": "median"}}`, in order.
        split: such as `{"test": "20%", "stratify": True}`.
        home: state directory; equal requests share one prepared dataset.
        spec: further keys of `pipeline.data`.
    """
    state = Home(path=Path(home).resolve())
    tree: dict[str, object] = dict(source) if isinstance(source, Mapping) else dict(spec)
    if not isinstance(source, Mapping):
        tree["source"] = _saved_frame(source, state) if _is_frame(source) else str(source)
    for key, value in (("label", label), ("steps", list(steps)), ("split", split)):
        if value:
            tree[key] = value
    digest = hashlib.sha256(json.dumps(tree, sort_keys=True, default=str).encode()).hexdigest()
    data = _decode(tree, DataSpec, "prepare()")
    return DatasetResult(prepare_data(data, base=Path(), out=state.data / digest[:12]))


def train(
    data: DatasetResult | str | Path,
    trainer: str = "trees",
    *,
    name: str = "model",
    home: str | Path = DEFAULT_HOME,
    **parameters: object,
) -> ModelResult:
    """Train a model on prepared data, in this process.

    Args:
        data: the result of `gy.prepare`, or the folder of prepared data.
        trainer: "trees", "jax_mlp", "torch_mlp", …, a key of `pipeline.train`.
        name: name of the model.
        home: state directory.
        parameters: hyperparameters of the trainer.
    """
    spec = _decode({trainer: parameters}, TrainSpec, "train()")
    return _trained(_prepared(data), spec, name, Path(home))


def _trained(prepared: PreparedDataset, spec: TrainSpec, name: str, home: Path) -> ModelResult:
    key = f"{prepared.manifest.version}{spec!r}{name}"
    out = home.resolve() / "trained" / hashlib.sha256(key.encode()).hexdigest()[:12]
    task = TrainTask(train=spec, data=str(prepared.folder), out=str(out), name=name)
    result = fit(task)
    assert result.bundle is not None
    return ModelResult(Path(result.bundle), result)


def evaluate(
    model: ModelResult | str | Mapping[str, object],
    data: DatasetResult | str | Path,
    *,
    folds: int = 5,
    metrics: Sequence[str] = (),
    split: str = "test",
    home: str | Path = DEFAULT_HOME,
) -> ScorecardResult:
    """Evaluate a trained model on a split, or a trainer by cross-validation.

    Args:
        model: a trained model, a registered one (`NAME@champion`), or a trainer with its
            hyperparameters (`{"trees": {"rounds": 50}}`), which is cross-validated.
        data: prepared data.
        folds: folds of the cross-validation.
        metrics: names of metrics; default: those of the problem.
        split: the split that a trained model is evaluated on.
        home: state directory of registered models.
    """
    prepared = _prepared(data)
    spec = EvaluateSpec(folds=folds, metrics=tuple(metrics))
    if isinstance(model, Mapping):
        train_spec = _decode(dict(model), TrainSpec, "evaluate()")
        parts = prepared_splits(prepared, spec)
        method = method_of(parts, problem_of(prepared))
        version = prepared.manifest.version
        done = cross_validate(parts, train_spec, spec, method=method, data=version)
        return ScorecardResult(done.card)
    bundle = _model(model, home)
    predictions = bundle_predictions(bundle.folder, prepared, split)
    answer = FoldPrediction(
        number=0,
        predictions=predictions,
        test_rows=predictions.count,
        columns=split_columns(prepared, split, ()),
    )
    card = score_predictions(
        [answer],
        spec,
        trainer=bundle.bundle.trainer,
        method=f"{split} split",
        data=prepared.manifest.version,
    )
    return ScorecardResult(card)


def select(
    data: DatasetResult | str | Path,
    candidates: Sequence[Mapping[str, object]] = (),
    *,
    metric: str,
    trials: int = 20,
    folds: int = 5,
    name: str = "model",
    home: str | Path = DEFAULT_HOME,
    **spec: object,
) -> SelectionResult:
    """Search trainers and hyperparameters by cross-validation; train the winner.

    Args:
        data: prepared data.
        candidates: trainers with values or ranges: `{"trees": {"rounds": {"from": 5, "to": 50}}}`;
            default: those of `gpuyard select`.
        metric: the metric that decides.
        trials: number of settings to try.
        folds: folds of the cross-validation.
        name: name of the winner's model.
        home: state directory.
        spec: further keys of `pipeline.select`: search, prune, limits, seed, …
    """
    prepared = _prepared(data)
    tree = {"metric": metric, "trials": trials, **spec}
    if candidates:
        tree["candidates"] = list(candidates)
    chosen = _decode(tree, SelectSpec, "select()")

    def export(spec: TrainSpec, folder: Path) -> Path:
        task = TrainTask(train=spec, data=str(prepared.folder), out=str(folder), name=name)
        bundle = fit(task).bundle
        assert bundle is not None
        return Path(bundle)

    state = Path(home).resolve()
    state.mkdir(parents=True, exist_ok=True)
    selection = select_model(
        search_splits(prepared, EvaluateSpec(folds=folds)),
        chosen,
        problem_of(prepared),
        export=export,
        options=SearchOptions(storage=state / "selection.db", data=prepared.manifest.version),
    )
    if isinstance(selection, Infeasible):
        raise InputError.one(selection.binding, f"infeasible: {selection.what}", selection.fix)
    return SelectionResult(selection, _trained(prepared, selection.train, name, state))


def predict(
    model: ModelResult | SelectionResult | str | Path,
    rows: Frame | Mapping[str, Sequence[object]],
    *,
    home: str | Path = DEFAULT_HOME,
) -> pl.DataFrame:
    """Predict rows given as columns before the transform; one row of predictions per row."""
    import polars as pl

    loaded = _model(model, home)
    columns = _columns(rows)
    engine = LoadedModel(loaded.folder / ONNX, [output.name for output in loaded.bundle.outputs])
    path = loaded.folder / TRANSFORM
    if path.exists():
        matrix = load_transform(path).matrix(columns)
    else:
        matrix = np.column_stack([np.asarray(columns[name]) for name in loaded.bundle.features])
    outputs = engine.run(matrix.astype(np.float32))
    frame: dict[str, object] = {}
    classes = loaded.bundle.classes
    for output, values in zip(loaded.bundle.outputs, outputs, strict=True):
        if output.name == "probabilities":
            frame |= {f"p({label})": values[:, index] for index, label in enumerate(classes)}
            frame["prediction"] = [classes[index] for index in values.argmax(axis=1)]
        elif output.name == "value":
            frame["prediction"] = values.reshape(-1)
    return pl.DataFrame(frame)


def serve(
    model: ModelResult | SelectionResult | str | Path,
    *,
    name: str = "",
    port: int = 0,
    workers: int = 1,
    home: str | Path = DEFAULT_HOME,
) -> EndpointResult:
    """Serve a model in the background (Open Inference Protocol) and return its endpoint.

    The result is a context manager that stops the service on exit.
    """
    state = Home(path=Path(home).resolve())
    if isinstance(model, SelectionResult):
        model = model.model
    reference = str(model.folder.resolve()) if isinstance(model, ModelResult) else str(model)
    source = f"{name}={reference}" if name else reference
    options = ServeOptions(models=(source,), home=state, name=name, port=port, workers=workers)
    return EndpointResult(deploy_models(options))


def _prepared(data: DatasetResult | str | Path) -> PreparedDataset:
    return data.prepared if isinstance(data, DatasetResult) else load_prepared(Path(data))


def _model(model: ModelResult | SelectionResult | str | Path, home: str | Path) -> ModelResult:
    if isinstance(model, SelectionResult):
        return model.model
    if isinstance(model, ModelResult):
        return model
    if Path(model).is_dir():
        return ModelResult(Path(model))
    return ModelResult(Registry(home=Home(path=Path(home).resolve())).get(str(model)).path)


def _is_frame(source: object) -> bool:
    return type(source).__name__ in FRAME_TYPES or _is_dataset(source)


def _is_dataset(source: object) -> bool:
    """Whether it is a `datasets.Dataset` of Hugging Face."""
    return type(source).__name__ == "Dataset" and type(source).__module__.startswith("datasets.")


def _polars(frame: object) -> pl.DataFrame:
    """A pandas, Polars or Arrow frame as a Polars one."""
    import polars as pl

    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    if isinstance(frame, pl.DataFrame):
        return frame
    if type(frame).__module__.startswith("pandas"):
        return pl.from_pandas(frame)
    if _is_dataset(frame):
        frame = frame.with_format("arrow")[:]  # type: ignore[attr-defined]
    converted = pl.from_arrow(frame)
    assert isinstance(converted, pl.DataFrame)
    return converted


def _saved_frame(frame: object, home: Home) -> str:
    """The frame as a Parquet file in the state directory, named by its contents."""
    table = _polars(frame)
    digest = hashlib.sha256(table.hash_rows(seed=0).to_numpy().tobytes())
    digest.update(repr(table.schema).encode())
    path = home.data / "frames" / f"{digest.hexdigest()[:16]}.parquet"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        table.write_parquet(path)
    return str(path)


def _columns(rows: object) -> Mapping[str, Sequence[object] | np.ndarray]:
    if isinstance(rows, Mapping):
        return rows
    return {name: values.to_list() for name, values in _polars(rows).to_dict().items()}


def _decode(tree: Mapping[str, object], record: type[T], where: str) -> T:
    """Decode keyword arguments as the keys of a pipeline section."""
    return decode(read_yaml(json.dumps(tree, default=str), where).root, record, Keys.BARE)
