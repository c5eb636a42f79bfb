"""`gy.prepare`, `train`, `evaluate`, `select`, `predict` and `serve`: data and models in Python."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence, Sized
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from gpuyard.api.keywords import check_type, decode_keywords, plain
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
from gpuyard.errors import Infeasible, InputError
from gpuyard.home import Home
from gpuyard.learn.evaluate.bundle_model import BundleModel
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
from gpuyard.registry.registry import Registry

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    Frame: TypeAlias = pd.DataFrame | pl.DataFrame | pl.LazyFrame | pa.Table
    Rows: TypeAlias = Frame | Mapping[str, object] | Sequence[Mapping[str, object]]

DEFAULT_HOME = Path(".gpuyard")
FRAME_TYPES = ("DataFrame", "LazyFrame", "Table")


def prepare(
    source: Rows | str | Path,
    *,
    label: str | None = None,
    steps: Sequence[Mapping[str, object]] = (),
    split: Mapping[str, object] | None = None,
    home: str | Path = DEFAULT_HOME,
    **spec: object,
) -> DatasetResult:
    """Prepare data for training.

    Args:
        source: a DataFrame (pandas, Polars, Arrow), a `datasets.Dataset`, a mapping of columns, a
            list of rows, a file, folder, glob or address, or a mapping with the keys of
            `pipeline.data` (`source` among them).
        label: the column to predict.
        steps: steps such as `{"impute": {"value": "median"}}`, in order.
        split: such as `{"test": "20%", "stratify": True}`.
        home: state directory; equal requests share one prepared dataset.
        spec: further keys of `pipeline.data`.
    """
    state = Home(path=Path(home).resolve())
    tree: dict[str, object] = dict(spec)
    if isinstance(source, Mapping) and "source" in source:
        tree |= source
    elif isinstance(source, str | Path):
        tree["source"] = str(source)
    else:
        tree["source"] = _saved_frame(_rows(source), state)
    for key, value in (("label", label), ("steps", list(steps)), ("split", split)):
        if value:
            tree[key] = value
    text = json.dumps(plain(tree), sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode()).hexdigest()
    data = decode_keywords(tree, DataSpec, "prepare()")
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
    spec = decode_keywords({trainer: parameters}, TrainSpec, "train()")
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
    metrics: str | Sequence[str] = (),
    split: str = "test",
    home: str | Path = DEFAULT_HOME,
) -> ScorecardResult:
    """Evaluate a trained model on a split, or a trainer by cross-validation.

    Args:
        model: a trained model, a registered one (`NAME@champion`), or a trainer with its
            hyperparameters (`{"trees": {"rounds": 50}}`), which is cross-validated.
        data: prepared data.
        folds: folds of the cross-validation.
        metrics: one metric or several; default: those of the problem.
        split: the split that a trained model is evaluated on.
        home: state directory of registered models.
    """
    prepared = _prepared(data)
    names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    spec = EvaluateSpec(folds=folds, metrics=names)
    if isinstance(model, Mapping):
        train_spec = decode_keywords(model, TrainSpec, "evaluate()")
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
    chosen = decode_keywords(tree, SelectSpec, "select()")

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
    rows: Rows,
    *,
    home: str | Path = DEFAULT_HOME,
    allow_code: bool = False,
) -> pl.DataFrame:
    """Predict rows; one row of predictions per row: `prediction`, and p(CLASS) of every class.

    Args:
        model: a trained model, a selection, a bundle folder or a registered model.
        rows: a DataFrame, a mapping of columns, or a list of rows, with the columns of the
            source, before the transform.
        home: state directory of registered models.
        allow_code: run Python code that is part of a model from a folder or the registry.
    """
    frame = _rows(rows)
    if frame.is_empty():
        raise InputError.one("rows", "there are none", "give at least one row")
    allow_code = allow_code or not isinstance(model, str | Path)  # trained in this process
    return BundleModel(_model(model, home).folder, allow_code=allow_code).answers(frame)


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
    if isinstance(data, DatasetResult):
        return data.prepared
    fix = "prepare it: gy.prepare(frame, label=...)"
    check_type(data, (str, Path), "data", "prepared data", fix)
    return load_prepared(Path(data))


def _model(model: ModelResult | SelectionResult | str | Path, home: str | Path) -> ModelResult:
    if isinstance(model, SelectionResult):
        return model.model
    if isinstance(model, ModelResult):
        return model
    fix = "give gy.train(...), a bundle folder or a name"
    check_type(model, (str, Path), "model", "a model", fix)
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


def _saved_frame(table: pl.DataFrame, home: Home) -> str:
    """The frame as a Parquet file in the state directory, named by its contents."""
    digest = hashlib.sha256(table.hash_rows(seed=0).to_numpy().tobytes())
    digest.update(repr(table.schema).encode())
    path = home.data / "frames" / f"{digest.hexdigest()[:16]}.parquet"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        table.write_parquet(path)
    return str(path)


def _rows(rows: Rows) -> pl.DataFrame:
    """Rows to predict as a frame."""
    import polars as pl

    if _is_frame(rows):
        return _polars(rows)
    if isinstance(rows, Mapping):
        columns = (
            isinstance(value, Sized) and not isinstance(value, str) for value in rows.values()
        )
        return pl.DataFrame(dict(rows) if any(columns) else [rows])
    if isinstance(rows, Sequence) and not isinstance(rows, str):
        return pl.DataFrame(rows)
    what = f"a {type(rows).__name__} holds no rows"
    raise InputError.one("rows", what, "give a DataFrame, a mapping of columns or a list of rows")
