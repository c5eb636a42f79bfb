"""Folds for cross-validation without leakage: in each, every step is fitted on its training part alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np
import polars as pl

from gpuyard.datasets.aggregates import as_text
from gpuyard.datasets.columns import Columns
from gpuyard.datasets.engines import LocalEngine
from gpuyard.datasets.fitting import NamedStep, fit_steps
from gpuyard.datasets.hashing import row_hash
from gpuyard.datasets.job import Keep, pruned
from gpuyard.datasets.passes import FramePasses, StoredPasses
from gpuyard.datasets.prepare import MEMORY_BYTES, named_steps, null_floats, partition_bytes
from gpuyard.datasets.prepared import Arrays, Prepared, arrays_of
from gpuyard.datasets.source import open_source
from gpuyard.datasets.spec import DataSpec
from gpuyard.datasets.split import GIVEN, SPLIT, SplitRule, group_hash
from gpuyard.datasets.step import ROW, FittedStep
from gpuyard.datasets.transform import FittedTransform
from gpuyard.datasets.version import version_of
from gpuyard.datasets.writing import features_of, transform_from
from gpuyard.document import load_json
from gpuyard.errors import InputError

__all__ = ["Fold", "FoldKind", "folds"]

FoldKind = Literal["random", "stratified", "grouped", "time"]
_TRAIN, _TEST = 0, 2  # places in SPLITS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fold:
    """One fold: what to learn from, what to test on, and the transform that only saw the former."""

    number: int
    train: Arrays
    test: Arrays
    transform: FittedTransform


def folds(prepared: Prepared, *, count: int, kind: FoldKind | None = None, seed: int = 0) -> Iterator[Fold]:
    """Folds of the training rows; by default stratified for classes, random otherwise.

    By time every fold tests on the rows that follow those it learnt from.
    """
    manifest = prepared.manifest
    if manifest.kind != "table":
        raise InputError.one(str(prepared.folder), f"holds {manifest.kind}", "folds are made of tables")
    spec = load_json(manifest.lineage.spec.text, DataSpec)
    kind = kind or ("stratified" if manifest.problem == "classification" else "random")
    first, later, columns = _halves(prepared, spec)
    frame = _base(prepared, spec, first, columns)
    if not 2 <= count <= frame.height:
        raise InputError.one(
            "folds", f"{count} folds of {frame.height} rows", "write 2 or more, and not above the rows"
        )
    numbers = _numbers(frame, spec, kind, count, seed)
    for number in range(count):
        if kind == "time":
            given = np.where(numbers <= number, _TRAIN, np.where(numbers == number + 1, _TEST, 1))
        else:
            given = np.where(numbers == number, _TEST, _TRAIN)
        rows = frame.with_columns(pl.Series(GIVEN, given.astype(np.uint8))).filter(pl.col(GIVEN) != 1)
        yield _fold(prepared, spec, later, columns, rows, number)


def _source_columns(prepared: Prepared, spec: DataSpec) -> Columns:
    """The columns of the source, as the manifest tells them."""
    reserved = (spec.label, spec.id, spec.split.group, spec.split.time)
    return Columns(
        items=tuple(column for column in prepared.manifest.source_schema if column.name not in spec.ignore),
        reserved=tuple(name for name in reserved if name is not None),
        label=spec.label,
    )


def _halves(prepared: Prepared, spec: DataSpec) -> tuple[tuple[NamedStep, ...], tuple[NamedStep, ...], Columns]:
    """The steps before the first that learns, those from it, and the columns between."""
    columns = _source_columns(prepared, spec)
    steps = named_steps(spec, columns)
    for number, step in enumerate(steps):
        settings = step.settings.bound(columns, step.where)
        if settings.needs(columns):
            return steps[:number], steps[number:], columns
        for part in settings.fitted({}, columns):
            columns = part.after(columns) if isinstance(part, FittedStep) else columns
    return steps, (), columns


def _base(prepared: Prepared, spec: DataSpec, first: tuple[NamedStep, ...], columns: Columns) -> pl.DataFrame:
    """The training rows before the first step that learns; read from the source where there were too many to keep."""
    shards = [prepared.folder / shard.path for shard in prepared.manifest.base]
    if shards:
        return pl.read_parquet(shards, glob=False)
    with TemporaryDirectory(prefix="gpuyard-folds-") as name:
        work, base = Path(name), Path(prepared.manifest.lineage.base)
        source = open_source(
            spec, base=base, work=work, partition_bytes=partition_bytes(spec, MEMORY_BYTES, LocalEngine())
        )
        if version_of(spec, source.files) != prepared.manifest.version:
            raise InputError.one(spec.source, "changed since the data was prepared", "run `gpuyard data run` again")
        passes = StoredPasses(
            partitions=source.partitions, engine=LocalEngine(), folder=work / "passes", tell=lambda _: None, names=[]
        )
        floats = null_floats(spec, source.schema)
        start = _source_columns(prepared, spec)
        plan = fit_steps(spec, first, start, passes, form=source.form, floats=floats, memory_bytes=MEMORY_BYTES / 4)
        keep = Keep(folder=str(work / "base"), columns=columns.names)
        passes.run(pruned("base", source.form, (*plan.actions, keep), floats), plan.doomed)
        return pl.read_parquet(sorted((work / "base").iterdir()), glob=False)


def _numbers(frame: pl.DataFrame, spec: DataSpec, kind: FoldKind, count: int, seed: int) -> np.ndarray:
    """The fold of every row; by time the block of every row, of which there is one more."""
    hashes = row_hash(frame[ROW].to_numpy(), seed)
    numbers = np.empty(frame.height, dtype=np.int64)
    if kind == "time":
        times = frame[_named(spec.split.time, "time")].to_physical().cast(pl.Float64).fill_null(0.0).to_numpy()
        numbers[np.lexsort((hashes, times))] = np.arange(frame.height) * (count + 1) // frame.height
        return numbers
    if kind == "grouped":
        return _grouped(frame[_named(spec.split.group, "group")], count, seed)
    if kind == "stratified":
        classes = frame[_named(spec.label, "label")].rank("dense").fill_null(0).to_numpy()
        order = np.lexsort((hashes, classes))
    else:
        order = np.argsort(hashes, kind="stable")
    numbers[order] = np.arange(frame.height) % count
    return numbers


def _named(name: str | None, key: str) -> str:
    """The column that a kind of folds goes by."""
    if name is None:
        raise InputError.one("folds", f"no {key} is named", f"name its column in the data section ({key}:)")
    return name


def _grouped(column: pl.Series, count: int, seed: int) -> np.ndarray:
    """Whole groups, in the order of their hashes, each to the fold with the fewest rows so far."""
    texts = [as_text(value) for value in column]
    sizes: dict[str, int] = {}
    for text in texts:
        sizes[text] = sizes.get(text, 0) + 1
    if len(sizes) < count:
        raise InputError.one("folds", f"{count} folds of {len(sizes)} groups", "write fewer folds")
    rows, home = [0] * count, {}
    for text in sorted(sizes, key=lambda name: group_hash(name, seed)):
        home[text] = rows.index(min(rows))
        rows[home[text]] += sizes[text]
    return np.array([home[text] for text in texts])


def _fold(
    prepared: Prepared, spec: DataSpec, steps: tuple[NamedStep, ...], columns: Columns, rows: pl.DataFrame, number: int
) -> Fold:
    """One fold: the steps fitted on its training part, and both parts after them."""
    passes = FramePasses(frame=rows)
    rule = SplitRule(by="given", seed=number)
    plan = fit_steps(spec, steps, columns, passes, form="", floats=set(), memory_bytes=MEMORY_BYTES, rule=rule)
    keep = Keep(folder="", columns=plan.columns.names)
    job = pruned("fold", "", (*plan.actions, keep), set())
    done = passes.after(replace(job, actions=job.actions[:-1]), plan.doomed)
    manifest = replace(prepared.manifest, features=features_of(plan.columns))
    transform = transform_from(plan, steps, columns, manifest.features, f"{manifest.version}-fold{number}")
    return Fold(
        number=number,
        train=arrays_of(done.filter(pl.col(SPLIT) == _TRAIN), manifest),
        test=arrays_of(done.filter(pl.col(SPLIT) == _TEST), manifest),
        transform=transform,
    )
