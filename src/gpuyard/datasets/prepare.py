"""Preparing data: open the source, fit the steps, write the shards, the transform and the manifest. Resumable."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl

from gpuyard.datasets.columns import Columns, columns_of
from gpuyard.datasets.engines import Engine, LocalEngine
from gpuyard.datasets.fitting import NamedStep, fit_steps
from gpuyard.datasets.manifest import Manifest
from gpuyard.datasets.passes import Progress, StoredPasses
from gpuyard.datasets.prepared import Prepared, load_prepared
from gpuyard.datasets.source import open_source
from gpuyard.datasets.spec import DataSpec, check_spec, located
from gpuyard.datasets.split import SPLITS
from gpuyard.datasets.steps.rows import DropNulls, Infinite
from gpuyard.datasets.version import version_of
from gpuyard.datasets.writing import Made, manifest_of, transform_of, write_job
from gpuyard.document import dump_json, load_json, read_text
from gpuyard.errors import InputError, Problem, RefusedError, nearest, one_of
from gpuyard.home import write_whole

__all__ = ["MEMORY_BYTES", "named_steps", "null_floats", "partition_bytes", "prepare", "source_columns"]

MEMORY_BYTES = 2e9  # unless another cap is named
_BASELINE_BYTES = 250e6  # the interpreter with Polars, Arrow and NumPy
_COMPILED = ("near_duplicates", "hash_words", "tfidf")  # their loops are compiled the first time they run,
_COMPILER_BYTES = 160e6  # which takes so much more: measured on 75,000 texts of 60 MB
_SHARE = 14  # a partition is this part of the memory: it is read, changed and written, and freed pages stay a while
_LEAST_BYTES = 2e6
MOST_BYTES = 50e6  # measured: memory is used again while it is warm, and larger ones are no faster


def prepare(
    spec: DataSpec, *, base: Path, out: Path, engine: Engine | None = None, memory_bytes: float = MEMORY_BYTES,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Prepared:  # fmt: skip
    """The data of a pipeline, prepared in the folder `out`; what an earlier run finished is used again."""
    check_spec(spec)
    with _alone(out):
        return _prepared(located(spec, base), base, out, engine or LocalEngine(), memory_bytes, progress)


@contextlib.contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Waits for another process that prepares the same folder; the kernel releases the lock of a dead one."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        folder = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise RefusedError(str(out), error.strerror or str(error), "name another folder") from error
    try:
        with contextlib.suppress(OSError):  # some network file systems lock no folder
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            out.rmdir()  # nothing is left of what could not begin
        raise
    finally:
        os.close(folder)


def _prepared(
    spec: DataSpec, base: Path, out: Path, engine: Engine, memory_bytes: float, progress: Callable[[Progress], None]
) -> Prepared:
    """The data, prepared in a folder that no other process works in."""
    work = out / ".work"
    _own_folder(out, work)
    source = open_source(spec, base=base, work=work, partition_bytes=partition_bytes(spec, memory_bytes, engine))
    if not source.partitions:
        raise InputError.one(spec.source, "no row could be read; all are in quarantine", "look at the reasons there")
    version = version_of(spec, source.files)
    if (done := _finished(out, version)) is not None:
        shutil.rmtree(work, ignore_errors=True)
        return done
    folder = work / hashlib.sha256(f"{version}{source.partitions}".encode()).hexdigest()[:12]
    if not folder.is_dir():
        _clear(out)
        folder.mkdir(parents=True)
    passes = StoredPasses(partitions=source.partitions, engine=engine, folder=folder, tell=progress, names=[])
    columns = source_columns(spec, source.schema)
    steps, floats = named_steps(spec, columns), null_floats(spec, source.schema)
    plan = fit_steps(spec, steps, columns, passes, form=source.form, floats=floats, memory_bytes=memory_bytes / 4)
    job = write_job(spec, plan, source, out, floats)
    made = Made(
        spec=spec, base=base, source=source, steps=steps, plan=plan, results=tuple(passes.run(job, plan.doomed)),
        engine=engine.name, passes=tuple(passes.names), version=version,
    )  # fmt: skip
    return _finish(made, columns, out, work)


def _finish(made: Made, columns: Columns, out: Path, work: Path) -> Prepared:
    """Writes the transform and, last, the manifest; the folder of the run is not needed any more."""
    manifest = manifest_of(made, out)
    transform_of(made, columns, manifest).save(out / "transform.json")
    write_whole(out / "manifest.json", dump_json(manifest))
    shutil.rmtree(work, ignore_errors=True)
    return load_prepared(out)


def partition_bytes(spec: DataSpec, memory_bytes: float, engine: Engine) -> float:
    """How large a partition may be in memory, so that those in flight stay below the cap."""
    compiled = [name for name in _COMPILED if any(getattr(step, name) is not None for step in spec.steps)]
    taken = _BASELINE_BYTES + (_COMPILER_BYTES if compiled else 0.0)
    free = memory_bytes - taken
    if free < 10 * _LEAST_BYTES:
        least, why = f"{(taken + 10 * _LEAST_BYTES) / 1e6:.0f}MB", f" with {compiled[0]}" if compiled else ""
        raise InputError.one(
            "--memory", f"{memory_bytes / 1e6:.0f}MB is too little to work in{why}", f"give {least} or more"
        )
    return max(_LEAST_BYTES, min(spec.output.shard_bytes, MOST_BYTES, free / _SHARE / max(1, engine.in_flight)))


def _own_folder(out: Path, work: Path) -> None:
    """Refuses a folder with other things in it."""
    if out.is_dir() and any(out.iterdir()) and not (out / "manifest.json").is_file() and not work.is_dir():
        raise InputError.one(str(out), "holds other files", "name a folder that is empty or new")


def _clear(out: Path) -> None:
    """Takes away what another pipeline prepared here."""
    (out / "manifest.json").unlink(missing_ok=True)
    for name in (*SPLITS, "base", "quarantine"):
        shutil.rmtree(out / name, ignore_errors=True)


def _finished(out: Path, version: str) -> Prepared | None:
    """What stands in the folder already, if it is the same and whole."""
    file = out / "manifest.json"
    if not file.is_file():
        return None
    try:
        manifest = load_json(read_text(file, 1 << 28), Manifest, str(file))
    except InputError:
        return None
    shards = [shard for split in manifest.splits for shard in split.shards]
    whole = all((out / one.path).is_file() and (out / one.path).stat().st_size == one.size_bytes for one in shards)
    return load_prepared(out) if manifest.version == version and whole else None


def source_columns(spec: DataSpec, schema: pl.Schema) -> Columns:
    """The columns of the source without those to ignore; InputError where the file names one that is not there."""
    named = (
        ("label", spec.label), ("id", spec.id), ("split.group", spec.split.group), ("split.time", spec.split.time)
    )  # fmt: skip
    problems = []
    for where, name in (*named, *(("ignore", name) for name in spec.ignore)):
        if name is not None and name not in schema:
            meant = nearest(name, schema)
            fix = f'did you mean "{meant}"?' if meant else f"use {one_of(list(schema))}"
            problems.append(Problem(where=f"data.{where}", what=f'no column named "{name}"', fix=fix))
    if problems:
        raise InputError(problems)
    kept = {name: dtype for name, dtype in schema.items() if name not in spec.ignore}
    return columns_of(kept, tuple(name for _, name in named if name is not None), spec.label)


def null_floats(spec: DataSpec, schema: pl.Schema) -> set[str]:
    """The columns in which infinities and NaN are read as null."""
    if spec.read.infinite == "quarantine":
        return set()
    return {name for name, dtype in schema.items() if dtype.is_float()}


def named_steps(spec: DataSpec, columns: Columns) -> tuple[NamedStep, ...]:
    """The steps of the file, after those that always come first: infinities put apart, rows without a label left."""
    first = []
    floats = tuple(column.name for column in columns.items if column.dtype.startswith("Float"))
    if spec.read.infinite == "quarantine" and floats:
        first.append(NamedStep(name="infinite", where="data.read", settings=Infinite(columns=floats)))
    if spec.label is not None:
        first.append(NamedStep(name="label", where="data.label", settings=DropNulls(columns=(spec.label,))))
    named = []
    for number, step in enumerate(spec.steps):
        name, settings = step.chosen(f"data.steps[{number}]")
        named.append(NamedStep(name=name, where=f"data.steps[{number}].{name}", settings=settings))
    return (*first, *named)
