"""The bundle of a trained model: exported files, transform, metrics and lineage."""

from __future__ import annotations

import importlib.metadata
import json
import math
import platform
import shutil
from pathlib import Path

from gpuyard import __version__
from gpuyard.datasets.columns import Column
from gpuyard.datasets.transform import FittedTransform
from gpuyard.document.encode import dump_json, plain
from gpuyard.errors import ExternalError, external_error_from
from gpuyard.learn.spec import TrainSpec, trainer_of
from gpuyard.learn.task import TrainTask
from gpuyard.learn.trainer import Exported, FittedModel, TabularData
from gpuyard.learn.training_data import LoadedDataset
from gpuyard.registry.bundle import (
    TRANSFORM,
    Metric,
    ModelBundle,
    ModelLineage,
    Tag,
    Tensor,
    write_bundle,
)
from gpuyard.registry.feature_profile import PROFILE, profile_of

# Packages whose version can change the numbers of a trained model.
PACKAGES = (
    "numpy",
    "lightgbm",
    "scikit-learn",
    "jax",
    "jaxlib",
    "torch",
    "torch_xla",
    "transformers",
    "peft",
    "accelerate",
    "onnx",
)


def write_model(fitted: FittedModel, task: TrainTask, loaded: LoadedDataset) -> Path | None:
    """Write the bundle atomically and return its folder; None if there is no model to export."""
    folder = Path(task.out) / "bundle"
    unfinished = Path(task.out) / ".bundle"  # renamed when it is complete
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        exported = fitted.export(unfinished)
        if exported is None:
            shutil.rmtree(unfinished)
            return None
        transform = _transform_before(exported, loaded)
        if transform is not None:
            transform.save(unfinished / TRANSFORM)
        _write_profile(unfinished / PROFILE, loaded)
        write_bundle(unfinished, _describe(fitted, exported, task, loaded))
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
    except Exception as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        external = external_error_from(error, str(folder), "then resume the run")
        if external is None:
            raise
        raise ExternalError(
            str(folder), f"cannot be written: {external.problem.what}", external.problem.fix
        ) from error
    return folder


def _write_profile(path: Path, loaded: LoadedDataset) -> None:
    """Write what serving compares its inputs with, for features that are rows of numbers."""
    train = loaded.training.train
    profile = profile_of(train.names, train.x) if isinstance(train, TabularData) else None
    if profile is not None:
        path.write_text(dump_json(profile), encoding="utf-8")


def _transform_before(exported: Exported, loaded: LoadedDataset) -> FittedTransform | None:
    """Return the transform if its features are what the model takes.

    Images, tokens and programs that build other inputs are served with the model's own inputs.
    """
    transform = loaded.transform
    if transform is None or not transform.outputs or len(exported.inputs) != 1:
        return None
    (tensor,) = exported.inputs
    fits = tensor.dtype == "float32" and tensor.shape[1:] == (len(transform.outputs),)
    return transform if fits else None


def _describe(
    fitted: FittedModel, exported: Exported, task: TrainTask, loaded: LoadedDataset
) -> ModelBundle:
    summary = fitted.summary
    transform, before = loaded.transform, _transform_before(exported, loaded)
    train = loaded.training.train
    inputs = exported.inputs
    if before is not None:
        inputs = tuple(
            Tensor(name=column.name, dtype=_numpy_name(column)) for column in before.inputs
        )
    losses = (("loss", summary.loss), ("validation_loss", summary.validation_loss))
    return ModelBundle(
        kind=exported.kind,
        trainer=trainer_of(task.train),
        framework=exported.framework,
        inputs=inputs,
        outputs=exported.outputs,
        classes=exported.classes,
        features=train.names if isinstance(train, TabularData) else (),
        parameters_count=int(summary.parameters_count),
        sample_bytes=int(train.x[:1].nbytes) if isinstance(train, TabularData) else 0,
        metrics=tuple(
            Metric(name=name, value=value)
            for name, value in losses
            if value is not None and math.isfinite(value)
        ),
        lineage=ModelLineage(
            data=loaded.version,
            transform="" if transform is None else transform.version,
            code=f"gpuyard {__version__}",
            label=loaded.label,
            parameters=parameters_of(task.train),
            environment=_environment(),
        ),
    )


def _numpy_name(column: Column) -> str:
    return {"number": column.dtype.lower(), "bool": "bool"}.get(column.kind, "str")


def parameters_of(spec: TrainSpec) -> tuple[Tag, ...]:
    """Return the trainer's settings as flat tags such as `trees.rounds`."""
    tags: list[Tag] = []

    def walk(prefix: str, value: object) -> None:
        if isinstance(value, dict):
            for name, item in value.items():
                walk(f"{prefix}.{name}" if prefix else str(name), item)
        else:
            tags.append(
                Tag(name=prefix, value=value if isinstance(value, str) else json.dumps(value))
            )

    walk("", plain(spec))
    return tuple(tags)


def _environment() -> tuple[Tag, ...]:
    tags = [Tag(name="python", value=platform.python_version())]
    for package in PACKAGES:
        try:
            tags.append(Tag(name=package, value=importlib.metadata.version(package)))
        except importlib.metadata.PackageNotFoundError:
            continue
    return tuple(tags)
