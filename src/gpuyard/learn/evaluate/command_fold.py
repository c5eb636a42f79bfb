"""Run the user's own program on the training rows of one fold, and predict with what it leaves.

The program sees a prepared folder that holds the fold's training rows alone, and runs as one
process: folds already run in parallel.
"""

from __future__ import annotations

import contextlib
import dataclasses
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from gpuyard.datasets.execute import write_shard
from gpuyard.datasets.manifest import DatasetManifest, Split
from gpuyard.datasets.saved_manifest import load_manifest, save_manifest
from gpuyard.learn.metrics_log import StepMetrics
from gpuyard.learn.ranks import Ranks
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import FittedModel, TabularData, TrainingContext, TrainingInputs
from gpuyard.learn.trainer_list import trainer_for

TRAIN = "train"


@contextlib.contextmanager
def fitted_command(
    spec: TrainSpec, train: TabularData, prepared: Path, watch: Callable[[StepMetrics], bool]
) -> Iterator[FittedModel]:
    """Run the program on these rows; the model and its files exist until the block ends."""
    with TemporaryDirectory(prefix="gpuyard-fold-") as name:
        data, out = Path(name) / "data", Path(name) / "task"
        _write_rows(train, load_manifest(prepared), data)
        run = TrainingContext(ranks=Ranks(port=_free_port()), watch=watch, folder=out)
        yield trainer_for(spec).fit(TrainingInputs(train=train, folder=data), run)


def _write_rows(train: TabularData, manifest: DatasetManifest, folder: Path) -> None:
    """Write the rows as a prepared folder: features and label, as one shard."""
    frame = pl.DataFrame(train.x, schema=list(train.names))
    types = {column.name: column.dtype for column in manifest.schema}
    if train.y is not None and manifest.label is not None:
        label = pl.Series(manifest.label, train.y)
        if train.problem == "classification":
            texts = pl.Series(manifest.label, [train.classes[int(index)] for index in train.y])
            is_text = types[manifest.label] in ("String", "Categorical", "Enum")
            is_bool = types[manifest.label] == "Boolean"
            label = texts if is_text else texts == "true" if is_bool else texts.cast(pl.Int64)
        frame = frame.with_columns(label)
    shard = write_shard(frame, folder / TRAIN / "part-000000.parquet", TRAIN)
    columns = tuple(
        column for column in manifest.schema if column.name in (*train.names, manifest.label)
    )
    fold = dataclasses.replace(
        manifest,
        splits=(Split(name=TRAIN, rows=shard.rows, shards=(shard,)),),
        schema=columns,
        features=train.names,
        base=(),
        quarantine=(),
        other_files=(),
    )
    save_manifest(folder, fold)


def _free_port() -> int:
    with socket.socket() as probe:  # two folds at once must not meet at one rendezvous
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
