"""Outputs of a run: the last pass, the manifest and the fitted transform."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import polars as pl

from gpuyard import __version__
from gpuyard.datasets.aggregates import Distinct, DistinctRequest
from gpuyard.datasets.columns import Column, Columns, schema_columns
from gpuyard.datasets.data_pass import (
    Action,
    DataPass,
    Gather,
    Result,
    SaveRows,
    Write,
    pruned_pass,
)
from gpuyard.datasets.fitting import FittedPipeline
from gpuyard.datasets.manifest import DataLineage, DatasetManifest, Shard, Split, StepCounts
from gpuyard.datasets.passes import merge_results
from gpuyard.datasets.source.open import DataSource
from gpuyard.datasets.split import SPLITS
from gpuyard.datasets.step import ShardWriter
from gpuyard.datasets.transform import FittedTransform, TransformRecord, needed_parts, saved_part
from gpuyard.datasets.version import code_version
from gpuyard.document.encode import plain
from gpuyard.document.frozen_json import FrozenJson

BASE_ROWS = 5_000_000  # up to here rows are saved for folds; beyond, folds read the source again
MAX_CLASSES = 1000
MAX_INTEGER_CLASSES = 50  # an integer label with more values is a quantity


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WriteResult:
    """Results of the last pass, and what produced them."""

    pipeline: FittedPipeline
    base: Path
    source: DataSource
    results: tuple[Result, ...]
    engine: str
    passes: tuple[str, ...]
    version: str


def writer_of(pipeline: FittedPipeline) -> ShardWriter | None:
    """Return the shard writer of the last step that has one; None for Parquet."""
    makers = [part for _, part in pipeline.parts if hasattr(part, "writer")]
    return cast(ShardWriter, makers[-1].writer()) if makers else None


def features_of(columns: Columns) -> tuple[str, ...]:
    """Return the number columns that are not reserved."""
    return tuple(
        column.name
        for column in columns.items
        if column.name not in columns.reserved and column.kind in ("number", "bool")
    )


def write_pass(pipeline: FittedPipeline, rows: int, out: Path) -> DataPass:
    """Return the last pass: all parts, the split, the shards."""
    source, spec = pipeline.source, pipeline.source.spec
    writer, features = writer_of(pipeline), features_of(pipeline.columns)
    actions: list[Action] = list(pipeline.actions)
    if writer is None and rows <= BASE_ROWS:
        # a fold runs the steps after the split, so it needs the columns that these read
        later = pipeline.actions[pipeline.assign_at :]
        every = SaveRows(folder="", columns=pipeline.columns.names)
        needed = pruned_pass("fold", source.file_format, (*later, every), source.floats).columns
        save = SaveRows(folder=str(out / "base"), columns=needed)
        actions.insert(pipeline.assign_at + 1, save)
    label = pipeline.columns.get(spec.label or "")
    if label is not None:
        classes = DistinctRequest(column=label.name, limit=MAX_CLASSES)
        actions.append(Gather(requests=(classes,), every_row=True))
    rounded = tuple(
        column.name
        for column in pipeline.columns.items
        if column.name in features and column.dtype == "Float64"
    )
    actions.append(
        Write(
            folder=str(out),
            columns=spec.output.keep or pipeline.columns.names,
            floats=rounded,
            output=spec.output,
            writer=writer,
        )
    )
    return pruned_pass(
        "write",
        source.file_format,
        tuple(actions),
        source.floats,
        quarantine=str(out / "quarantine"),
    )


def classes_of(
    problem: str | None, label: Column | None, distinct: Distinct | None
) -> tuple[Literal["classification", "regression"] | None, tuple[str, ...]]:
    """Return the kind of problem that the label poses, and its classes."""
    if label is None or distinct is None:
        return None, ()
    integer = label.dtype.startswith(("Int", "UInt"))
    few = integer and len(distinct.values) <= MAX_INTEGER_CLASSES
    classification = problem == "classification" or label.kind in ("text", "bool") or few
    if problem == "regression" or not classification or not distinct.complete:
        return "regression", ()
    key = None if label.kind == "text" else float
    return "classification", tuple(sorted(distinct.values, key=key))


def _shards(name: str, results: Sequence[Result]) -> tuple[Shard, ...]:
    return tuple(shard for result in results for split, shard in result.shards if split == name)


def _step_counts(written: WriteResult) -> tuple[StepCounts, ...]:
    dropped: Counter[int] = Counter()
    quarantined: Counter[int] = Counter()
    for result in written.results:
        for number, drop_count, quarantine_count in result.counts:
            dropped[number] += drop_count
            quarantined[number] += quarantine_count
    source, pipeline = written.source, written.pipeline
    rows = source.rows
    counts = [
        StepCounts(
            step="read",
            rows_in=rows + source.quarantined,
            rows_out=rows,
            dropped=0,
            quarantined=source.quarantined,
            columns_out=len(source.schema),
        )
    ]
    for number, step in enumerate(pipeline.source.steps):
        rows_out = rows - dropped[number] - quarantined[number]
        counts.append(
            StepCounts(
                step=step.name,
                rows_in=rows,
                rows_out=rows_out,
                dropped=dropped[number],
                quarantined=quarantined[number],
                columns_out=pipeline.widths[number],
            )
        )
        rows = rows_out
    return tuple(counts)


def manifest_of(written: WriteResult, out: Path) -> DatasetManifest:
    """Return the manifest of a run."""
    pipeline, results = written.pipeline, written.results
    spec, columns = pipeline.source.spec, pipeline.columns
    writer = writer_of(pipeline)
    statistics = merge_results(results)
    distinct = cast(Distinct, statistics[0]) if statistics else None
    problem, classes = classes_of(spec.problem, columns.get(spec.label or ""), distinct)
    names = set(spec.output.keep or columns.names)
    features = tuple(name for name in features_of(columns) if name in names)
    float_type = "Float32" if spec.output.precision == "float32" else "Float64"
    rounded = {name: float_type for name in features if _is_double(columns, name)}
    schema = columns.with_columns(rounded, drop=set(columns.names) - names).items
    splits = []
    for name in SPLITS:
        if name == "train" or getattr(spec.split, f"{name}_ratio") > 0:
            shards = _shards(name, results)
            splits.append(Split(name=name, rows=sum(shard.rows for shard in shards), shards=shards))
    return DatasetManifest(
        version=written.version,
        kind=writer.kind if writer else "table",
        splits=tuple(splits),
        schema=schema,
        source_schema=schema_columns(written.source.schema),
        features=features,
        counts=_step_counts(written),
        lineage=_lineage(written),
        label=spec.label,
        problem="language" if writer is not None and writer.kind == "tokens" else problem,
        classes=classes,
        quarantine=(*_copy_unreadable(written.source, out), *_shards("quarantine", results)),
        base=_shards("base", results),
        sequence_tokens=getattr(writer, "sequence_tokens", None),
    )


def _is_double(columns: Columns, name: str) -> bool:
    column = columns.get(name)
    return column is not None and column.dtype == "Float64"


def _copy_unreadable(source: DataSource, out: Path) -> tuple[Shard, ...]:
    """Copy rows that could not be read to the quarantine of the dataset."""
    shards = []
    for number, path in enumerate(source.quarantine):
        target = out / "quarantine" / f"read-{number:06d}.parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        rows = int(pl.scan_parquet(target).select(pl.len()).collect().item())
        size_bytes = target.stat().st_size
        name = f"quarantine/{target.name}"
        shards.append(Shard(path=name, rows=rows, size_bytes=size_bytes, sha256=""))
    return tuple(shards)


def _lineage(written: WriteResult) -> DataLineage:
    spec = written.pipeline.source.spec
    return DataLineage(
        source=spec.source,
        base=str(written.base.resolve()),
        files=written.source.files,
        spec=FrozenJson.of(plain(spec)),
        code=code_version(),
        gpuyard=__version__,
        polars=pl.__version__,
        engine=written.engine,
        partitions=len(written.source.partitions),
        passes=written.passes,
    )


def transform_of(
    pipeline: FittedPipeline, features: tuple[str, ...], version: str
) -> FittedTransform:
    """Return the transform: the parts that the features depend on, and their input columns."""
    source = pipeline.source
    parts, needed = needed_parts([part for _, part in pipeline.parts], features)
    names = {id(part): source.steps[step].name for step, part in pipeline.parts}
    record = TransformRecord(
        version=version,
        inputs=tuple(column for column in source.columns.items if column.name in needed),
        outputs=features,
        parts=tuple(saved_part(names[id(part)], part) for part in parts),
    )
    return FittedTransform(record)
