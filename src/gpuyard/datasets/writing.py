"""What a run leaves behind: the last pass, the manifest and the fitted transform."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import polars as pl

from gpuyard import __version__
from gpuyard.datasets.aggregates import Distinct, DistinctNeed
from gpuyard.datasets.columns import Column, Columns
from gpuyard.datasets.fitting import NamedStep, Plan
from gpuyard.datasets.job import Action, Gather, Job, Keep, Result, Write, pruned
from gpuyard.datasets.manifest import Counted, Lineage, Manifest, Shard, Split
from gpuyard.datasets.passes import merged
from gpuyard.datasets.source import Source
from gpuyard.datasets.spec import DataSpec
from gpuyard.datasets.split import SPLITS
from gpuyard.datasets.step import Writer
from gpuyard.datasets.transform import FittedTransform, TransformRecord, needed_parts, saved_part
from gpuyard.datasets.version import code_version
from gpuyard.document import Settings, plain

__all__ = ["BASE_ROWS", "Made", "classes_of", "features_of", "manifest_of", "transform_of", "write_job", "writer_of"]

BASE_ROWS = 5_000_000  # up to this many rows are kept for folds; beyond, folds read the source again
MAX_CLASSES = 1000
FEW_CLASSES = 50  # whole numbers up to this many are classes, beyond quantities


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Made:
    """A run that is through its last pass."""

    spec: DataSpec
    base: Path
    source: Source
    steps: tuple[NamedStep, ...]
    plan: Plan
    results: tuple[Result, ...]
    engine: str
    passes: tuple[str, ...]
    version: str


def writer_of(plan: Plan) -> Writer | None:
    """The writer that the last step brings; None for Parquet."""
    makers = [part for _, part in plan.parts if hasattr(part, "writer")]
    return cast(Writer, makers[-1].writer()) if makers else None


def features_of(columns: Columns) -> tuple[str, ...]:
    """The columns of numbers that are not reserved."""
    items = (column for column in columns.items if column.name not in columns.reserved)
    return tuple(column.name for column in items if column.kind in ("number", "bool"))


def write_job(spec: DataSpec, plan: Plan, source: Source, out: Path, floats: set[str]) -> Job:
    """The last pass: all parts, the split, the shards."""
    writer, features = writer_of(plan), set(features_of(plan.columns))
    names = spec.output.keep or plan.columns.names
    rounded = tuple(
        column.name for column in plan.columns.items if column.name in features and column.dtype == "Float64"
    )
    actions: list[Action] = list(plan.actions)
    if writer is None and source.rows <= BASE_ROWS:
        later = pruned("fold", source.form, (*plan.actions[plan.assign_at :], *_kept(plan)), floats)
        actions.insert(plan.assign_at + 1, Keep(folder=str(out / "base"), columns=later.columns))
    label = plan.columns.get(spec.label or "")
    if label is not None:
        actions.append(Gather(needs=(DistinctNeed(column=label.name, most=MAX_CLASSES),), every_row=True))
    actions.append(Write(folder=str(out), columns=tuple(names), floats=rounded, output=spec.output, writer=writer))
    return pruned("write", source.form, tuple(actions), floats, quarantine=str(out / "quarantine"))


def _kept(plan: Plan) -> tuple[Action, ...]:
    """What a fold will want at the end: all columns."""
    return (Keep(folder="", columns=plan.columns.names),)


def classes_of(
    problem: str | None, label: Column | None, found: Distinct | None
) -> tuple[Literal["classification", "regression"] | None, tuple[str, ...]]:
    """What kind of problem the label makes, and its classes."""
    if label is None or found is None:
        return None, ()
    whole = label.dtype.startswith(("Int", "UInt"))
    guess = label.kind in ("text", "bool") or (whole and len(found.values) <= FEW_CLASSES)
    if problem == "regression" or (problem is None and not guess) or not found.few:
        return "regression", ()
    texts = label.kind == "text"
    return "classification", tuple(sorted(found.values) if texts else sorted(found.values, key=float))


def _split(name: str, results: Sequence[Result]) -> tuple[Shard, ...]:
    """The shards of one split, in order."""
    return tuple(shard for result in results for split, shard in result.shards if split == name)


def _counts(made: Made) -> tuple[Counted, ...]:
    """What every step did to how many rows."""
    dropped: Counter[int] = Counter()
    apart: Counter[int] = Counter()
    for result in made.results:
        for number, gone, kept in result.counts:
            dropped[number] += gone
            apart[number] += kept
    rows = made.source.rows
    counts = [
        Counted(
            step="read", rows_in=rows + made.source.quarantined, rows_out=rows, dropped=0,
            quarantined=made.source.quarantined, columns_out=len(made.source.schema),
        )
    ]  # fmt: skip
    for number, step in enumerate(made.steps):
        left = rows - dropped[number] - apart[number]
        counts.append(
            Counted(
                step=step.name, rows_in=rows, rows_out=left, dropped=dropped[number], quarantined=apart[number],
                columns_out=made.plan.widths[number],
            )
        )  # fmt: skip
        rows = left
    return tuple(counts)


def manifest_of(made: Made, out: Path) -> Manifest:
    """The manifest of a run."""
    spec, plan, results = made.spec, made.plan, made.results
    writer, label = writer_of(plan), plan.columns.get(spec.label or "")
    found = merged(results)
    problem, classes = classes_of(spec.problem, label, cast(Distinct, found[0]) if found else None)
    names = set(spec.output.keep or plan.columns.names)
    wide = "Float32" if spec.output.precision == "float32" else "Float64"
    features = tuple(name for name in features_of(plan.columns) if name in names)
    schema = tuple(
        Column(name=one.name, dtype=wide if one.name in features and one.dtype == "Float64" else one.dtype)
        for one in plan.columns.items
        if one.name in names
    )
    wanted = [name for name in SPLITS if name == "train" or getattr(spec.split, f"{name}_ratio") > 0]
    splits = tuple(
        Split(name=name, rows=sum(shard.rows for shard in shards), shards=shards)
        for name in wanted
        for shards in (_split(name, results),)
    )
    quarantine = (*_moved(made.source.quarantine, out), *_split("quarantine", results))
    return Manifest(
        version=made.version, kind=writer.kind if writer else "table", splits=splits, schema=schema,
        source_schema=tuple(Column(name=name, dtype=str(dtype)) for name, dtype in made.source.schema.items()),
        features=features, counts=_counts(made), lineage=_lineage(made), label=spec.label,
        problem="language" if writer is not None and writer.kind == "tokens" else problem, classes=classes,
        quarantine=quarantine, base=_split("base", results),
        sequence_tokens=getattr(writer, "sequence_tokens", None),
    )  # fmt: skip


def _moved(paths: tuple[str, ...], out: Path) -> tuple[Shard, ...]:
    """Rows that could not be read, beside the others of the quarantine."""
    shards = []
    for number, path in enumerate(paths):
        target = out / "quarantine" / f"read-{number:06d}.parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        rows = int(pl.scan_parquet(target).select(pl.len()).collect().item())
        shards.append(Shard(path=f"quarantine/{target.name}", rows=rows, size_bytes=target.stat().st_size, sha256=""))
    return tuple(shards)


def _lineage(made: Made) -> Lineage:
    """Where it came from."""
    return Lineage(
        source=made.spec.source, base=str(made.base.resolve()), files=made.source.files,
        spec=Settings.of(plain(made.spec)), code=code_version(), gpuyard=__version__, polars=pl.__version__,
        engine=made.engine, partitions=len(made.source.partitions), passes=made.passes,
    )  # fmt: skip


def transform_of(made: Made, columns: Columns, manifest: Manifest) -> FittedTransform:
    """The fitted transform: the parts that the features depend on, and the columns they start from."""
    return transform_from(made.plan, made.steps, columns, manifest.features, manifest.version)


def transform_from(
    plan: Plan, steps: Sequence[NamedStep], columns: Columns, features: tuple[str, ...], version: str
) -> FittedTransform:
    """The fitted transform of a plan."""
    parts, needed = needed_parts([part for _, part in plan.parts], features)
    names = {id(part): steps[step].name for step, part in plan.parts}
    inputs = tuple(column for column in columns.items if column.name in needed)
    record = TransformRecord(
        version=version, inputs=inputs, outputs=features,
        parts=tuple(saved_part(names[id(part)], part) for part in parts),
    )  # fmt: skip
    return FittedTransform(record)
