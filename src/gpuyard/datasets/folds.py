"""Cross-validation folds without leakage: steps are fitted on the training part of each fold."""

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
from gpuyard.datasets.data_pass import SaveRows, pruned_pass
from gpuyard.datasets.digests import check_files
from gpuyard.datasets.engines.local import LocalDataEngine
from gpuyard.datasets.fitting import NamedStep, PipelineInput, fit_steps
from gpuyard.datasets.hashing import row_hash
from gpuyard.datasets.passes import FramePasses, StoredPasses
from gpuyard.datasets.prepare import MEMORY_BYTES, named_steps, null_floats, partition_bytes
from gpuyard.datasets.prepared import Arrays, PreparedDataset, arrays_of
from gpuyard.datasets.source.open import open_source
from gpuyard.datasets.spec import DataSpec
from gpuyard.datasets.split import GIVEN, SPLIT, SPLITS, SplitRule, group_hash
from gpuyard.datasets.step import ROW, FittedStep
from gpuyard.datasets.transform import FittedTransform
from gpuyard.datasets.version import version_of
from gpuyard.datasets.writing import features_of, transform_of
from gpuyard.document.encode import load_json
from gpuyard.errors import InputError

FoldKind = Literal["random", "stratified", "grouped", "time"]
_TRAIN, _UNUSED, _TEST = range(len(SPLITS))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fold:
    """Training and test rows of a fold, and the transform fitted on the training rows."""

    number: int
    train: Arrays
    test: Arrays
    transform: FittedTransform


def folds(
    prepared: PreparedDataset, *, count: int, kind: FoldKind | None = None, seed: int = 0
) -> Iterator[Fold]:
    """Yield folds of the training rows, by default as the data is split: by time or by group.

    Data without either is stratified for classes, and random otherwise. By time, every fold tests
    on the rows that follow its training rows.
    """
    manifest = prepared.manifest
    if manifest.kind != "table":
        raise InputError.one(
            str(prepared.folder), f"holds {manifest.kind}", "use a dataset that is a table"
        )
    spec = load_json(manifest.lineage.spec.text, DataSpec)
    kind = kind or _default_kind(spec, manifest.problem)
    first, later = _split_steps(prepared, spec)
    frame = _base_rows(prepared, first, later.columns)
    if not 2 <= count <= frame.height:
        what = f"{count} folds of {frame.height} rows"
        raise InputError.one("folds", what, "write 2 or more, and at most the number of rows")
    numbers = _fold_numbers(frame, spec, kind, count, seed)
    for number in range(count):
        if kind == "time":
            later_blocks = np.where(numbers == number + 1, _TEST, _UNUSED)
            codes = np.where(numbers <= number, _TRAIN, later_blocks)
        else:
            codes = np.where(numbers == number, _TEST, _TRAIN)
        rows = frame.with_columns(pl.Series(GIVEN, codes.astype(np.uint8)))
        yield _fold(prepared, later, rows.filter(pl.col(GIVEN) != _UNUSED), number)


def _default_kind(spec: DataSpec, problem: str | None) -> FoldKind:
    if spec.split.time is not None:
        return "time"
    if spec.split.group is not None:
        return "grouped"
    return "stratified" if problem == "classification" else "random"


def _split_steps(prepared: PreparedDataset, spec: DataSpec) -> tuple[PipelineInput, PipelineInput]:
    """Return the steps before the first that needs statistics, and those from it on."""
    reserved = (spec.label, spec.id, spec.split.group, spec.split.time)
    columns = Columns(
        items=tuple(
            column for column in prepared.manifest.source_schema if column.name not in spec.ignore
        ),
        reserved=tuple(name for name in reserved if name is not None),
        label=spec.label,
    )
    steps = named_steps(spec, columns)
    number, between = _first_fitted(steps, columns)
    first = PipelineInput(spec=spec, steps=steps[:number], columns=columns)
    return first, PipelineInput(spec=spec, steps=steps[number:], columns=between)


def _first_fitted(steps: tuple[NamedStep, ...], columns: Columns) -> tuple[int, Columns]:
    for number, step in enumerate(steps):
        settings = step.settings.bind(columns, step.where)
        if settings.requests(columns):
            return number, columns
        for part in settings.fit_state({}, columns):
            columns = part.after(columns) if isinstance(part, FittedStep) else columns
    return len(steps), columns


def _base_rows(prepared: PreparedDataset, first: PipelineInput, columns: Columns) -> pl.DataFrame:
    """Return the training rows before the first fitted step: saved, or read from the source."""
    shards = [prepared.folder / shard.path for shard in prepared.manifest.base]
    check_files(prepared.folder, prepared.manifest.base)
    if shards:
        return pl.read_parquet(shards, glob=False)
    spec, engine = first.spec, LocalDataEngine()
    with TemporaryDirectory(prefix="gpuyard-folds-") as name:
        work = Path(name)
        source = open_source(
            spec,
            base=Path(prepared.manifest.lineage.base),
            work=work,
            partition_bytes=partition_bytes(spec, MEMORY_BYTES, engine),
        )
        if version_of(spec, source.files) != prepared.manifest.version:
            raise InputError.one(
                spec.source, "changed since the data was prepared", "run `gpuyard data run` again"
            )
        passes = StoredPasses(
            partitions=source.partitions,
            engine=engine,
            folder=work / "passes",
            on_progress=lambda _: None,
            names=[],
        )
        inputs = replace(
            first, file_format=source.file_format, floats=null_floats(spec, source.schema)
        )
        fitted = fit_steps(inputs, passes, memory_bytes=MEMORY_BYTES / 4)
        save = SaveRows(folder=str(work / "base"), columns=columns.names)
        actions = (*fitted.actions, save)
        data_pass = pruned_pass("base", inputs.file_format, actions, inputs.floats)
        passes.run(data_pass, fitted.row_arrays)
        return pl.read_parquet(sorted((work / "base").iterdir()), glob=False)


def _fold_numbers(
    frame: pl.DataFrame, spec: DataSpec, kind: FoldKind, count: int, seed: int
) -> np.ndarray:
    """Return the fold of every row; by time its block, of which there are count + 1."""
    hashes = row_hash(frame[ROW].to_numpy(), seed)
    numbers = np.empty(frame.height, dtype=np.int64)
    if kind == "time":
        column = frame[_required(spec.split.time, "time")]
        times = column.to_physical().cast(pl.Float64).fill_null(0.0).to_numpy()
        numbers[np.lexsort((hashes, times))] = np.arange(frame.height) * (count + 1) // frame.height
        return numbers
    if kind == "grouped":
        return _grouped(frame[_required(spec.split.group, "group")], count, seed)
    if kind == "stratified":
        classes = frame[_required(spec.label, "label")].rank("dense").fill_null(0).to_numpy()
        order = np.lexsort((hashes, classes))
    else:
        order = np.argsort(hashes, kind="stable")
    numbers[order] = np.arange(frame.height) % count
    return numbers


def _required(name: str | None, key: str) -> str:
    if name is None:
        raise InputError.one(
            "folds", f"no {key} is named", f"name its column in the data section ({key}:)"
        )
    return name


def _grouped(column: pl.Series, count: int, seed: int) -> np.ndarray:
    """Assign groups, in the order of their hashes, to the fold with the fewest rows so far."""
    texts = [as_text(value) for value in column]
    sizes: dict[str, int] = {}
    for text in texts:
        sizes[text] = sizes.get(text, 0) + 1
    if len(sizes) < count:
        raise InputError.one("folds", f"{count} folds of {len(sizes)} groups", "write fewer folds")
    rows = [0] * count
    fold_of = {}
    for text in sorted(sizes, key=lambda name: group_hash(name, seed)):
        fold_of[text] = rows.index(min(rows))
        rows[fold_of[text]] += sizes[text]
    return np.array([fold_of[text] for text in texts])


def _fold(
    prepared: PreparedDataset, inputs: PipelineInput, rows: pl.DataFrame, number: int
) -> Fold:
    """Fit the steps on the training part of a fold, and apply them to both parts."""
    passes = FramePasses(frame=rows)
    rule = SplitRule(by="given", seed=number)
    fitted = fit_steps(inputs, passes, memory_bytes=MEMORY_BYTES, rule=rule)
    every_column = SaveRows(folder="", columns=fitted.columns.names)
    data_pass = pruned_pass("fold", "", (*fitted.actions, every_column), frozenset())
    data_pass = replace(data_pass, actions=data_pass.actions[:-1])
    table = passes.after(data_pass, fitted.row_arrays)
    manifest = replace(prepared.manifest, features=features_of(fitted.columns))
    return Fold(
        number=number,
        train=arrays_of(table.filter(pl.col(SPLIT) == _TRAIN), manifest),
        test=arrays_of(table.filter(pl.col(SPLIT) == _TEST), manifest),
        transform=transform_of(fitted, manifest.features, f"{manifest.version}-fold{number}"),
    )
