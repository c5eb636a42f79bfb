"""The bundle of a trained model: what it exports, the transform in front of it, and where it came from."""

from __future__ import annotations

import importlib.metadata
import json
import math
import platform
import shutil
from pathlib import Path

from gpuyard import __version__
from gpuyard.datasets import Column
from gpuyard.document import plain
from gpuyard.errors import RefusedError, refusal
from gpuyard.learn.spec import TrainSpec, trainer_of
from gpuyard.learn.task import TrainTask
from gpuyard.learn.trainer import Exported, Fitted, Table
from gpuyard.learn.training_data import Loaded
from gpuyard.registry import TRANSFORM, Bundle, Lineage, Metric, Pair, Tensor, write_bundle

__all__ = ["write_model"]

# What can change a trained model's numbers, where it is installed.
PACKAGES = ("numpy", "lightgbm", "jax", "jaxlib", "torch", "torch_xla", "transformers", "onnx")


def write_model(fitted: Fitted, task: TrainTask, loaded: Loaded) -> Path | None:
    """Writes the bundle beside and renames it, so that a reader finds a whole one or none; gives its folder.

    None when there is nothing to export: the user's own command left no model.
    """
    folder, beside = Path(task.out) / "bundle", Path(task.out) / ".bundle"
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        exported = fitted.export(beside)
        if exported is None:
            shutil.rmtree(beside)
            return None
        if loaded.transform is not None:
            loaded.transform.save(beside / TRANSFORM)
        write_bundle(beside, _described(fitted, exported, task, loaded))
        shutil.rmtree(folder, ignore_errors=True)
        beside.rename(folder)
    except Exception as error:
        shutil.rmtree(beside, ignore_errors=True)
        found = refusal(error, str(folder), "then resume the run")
        if found is None:
            raise
        raise RefusedError(str(folder), f"cannot be written: {found.problem.what}", found.problem.fix) from error
    return folder


def _described(fitted: Fitted, exported: Exported, task: TrainTask, loaded: Loaded) -> Bundle:
    """The model.json of a trained model."""
    summary, transform, train = fitted.summary, loaded.transform, loaded.training.train
    inputs = exported.inputs
    if transform is not None:
        inputs = tuple(Tensor(name=column.name, dtype=_numpy_name(column)) for column in transform.inputs)
    losses = (("loss", summary.loss), ("validation_loss", summary.validation_loss))
    return Bundle(
        kind=exported.kind,
        trainer=trainer_of(task.train),
        framework=exported.framework,
        inputs=inputs,
        outputs=exported.outputs,
        classes=exported.classes,
        features=train.names if isinstance(train, Table) else (),
        parameters_count=int(summary.parameters_count),
        sample_bytes=int(train.x[:1].nbytes) if isinstance(train, Table) else 0,
        metrics=tuple(
            Metric(name=name, value=value) for name, value in losses if value is not None and math.isfinite(value)
        ),
        lineage=Lineage(
            data=loaded.version,
            transform="" if transform is None else transform.version,
            code=f"gpuyard {__version__}",
            parameters=parameters_of(task.train),
            environment=_environment(),
        ),
    )


def _numpy_name(column: Column) -> str:
    """The column's type as NumPy names it."""
    return {"number": column.dtype.lower(), "bool": "bool"}.get(column.kind, "str")


def parameters_of(spec: TrainSpec) -> tuple[Pair, ...]:
    """What the trainer was given, flat: `trees.rounds` and its value."""
    pairs: list[Pair] = []

    def walk(prefix: str, value: object) -> None:
        """Adds the pairs below a value."""
        if isinstance(value, dict):
            for name, item in value.items():
                walk(f"{prefix}.{name}" if prefix else str(name), item)
        else:
            pairs.append(Pair(name=prefix, value=value if isinstance(value, str) else json.dumps(value)))

    walk("", plain(spec))
    return tuple(pairs)


def _environment() -> tuple[Pair, ...]:
    """Versions of Python and of the packages that are installed."""
    found = [Pair(name="python", value=platform.python_version())]
    for package in PACKAGES:
        try:
            found.append(Pair(name=package, value=importlib.metadata.version(package)))
        except importlib.metadata.PackageNotFoundError:
            continue
    return tuple(found)
