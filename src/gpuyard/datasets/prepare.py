"""Prepare a dataset: open the source, fit the steps, write shards, transform and manifest."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl

from gpuyard.datasets.columns import Columns, columns_of, unknown_column
from gpuyard.datasets.digests import damaged_files, digest_of_file
from gpuyard.datasets.engines.data_engine import DataEngine
from gpuyard.datasets.engines.local import LocalDataEngine
from gpuyard.datasets.fitting import NamedStep, PipelineInput, fit_steps
from gpuyard.datasets.manifest import DatasetManifest, Shard
from gpuyard.datasets.passes import PassProgress, StoredPasses
from gpuyard.datasets.prepared import TRANSFORM_FILE, PreparedDataset, load_prepared
from gpuyard.datasets.saved_manifest import (
    MANIFEST_DIGEST_FILE,
    MANIFEST_FILE,
    load_manifest,
    save_manifest,
)
from gpuyard.datasets.source.open import open_source
from gpuyard.datasets.spec import DataSpec, check_spec, resolve_paths
from gpuyard.datasets.split import SPLITS
from gpuyard.datasets.steps.rows import DropNulls, Infinite
from gpuyard.datasets.version import version_of
from gpuyard.datasets.writing import WriteResult, manifest_of, transform_of, write_pass
from gpuyard.errors import ExternalError, InputError, Problem

MEMORY_BYTES = 2e9  # default memory limit
_BASELINE_BYTES = 250e6  # the interpreter with Polars, Arrow and NumPy
_JIT_BYTES = 160e6  # to compile the loops of text steps; measured on 75,000 texts of 60 MB
# Fraction of the memory per partition: it is read, changed and written, and freed pages stay,
# for longer on a busy machine (a fraction of 14 overran the limit by 1 % once).
_MEMORY_SHARE = 16
_MIN_PARTITION_BYTES = 2e6
_MAX_PARTITION_BYTES = 50e6  # measured: larger partitions are no faster


def prepare(
    spec: DataSpec,
    *,
    base: Path,
    out: Path,
    engine: DataEngine | None = None,
    memory_bytes: float = MEMORY_BYTES,
    on_progress: Callable[[PassProgress], None] = lambda _: None,
) -> PreparedDataset:
    """Prepare a dataset in the folder `out`; results of an interrupted run are reused."""
    check_spec(spec)
    with _locked(out):
        return _prepare_locked(
            resolve_paths(spec, base),
            base,
            out,
            engine or LocalDataEngine(),
            memory_bytes,
            on_progress,
        )


@contextlib.contextmanager
def _locked(out: Path) -> Iterator[None]:
    """Wait for another process that prepares the same folder; a dead one holds no lock."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        folder = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ExternalError(str(out), error.strerror or str(error), "use another folder") from error
    try:
        with contextlib.suppress(OSError):  # some network file systems cannot lock a folder
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            out.rmdir()  # only if it is still empty
        raise
    finally:
        os.close(folder)


def _prepare_locked(
    spec: DataSpec,
    base: Path,
    out: Path,
    engine: DataEngine,
    memory_bytes: float,
    on_progress: Callable[[PassProgress], None],
) -> PreparedDataset:
    work = out / ".work"
    _check_folder(out, work)
    size_bytes = partition_bytes(spec, memory_bytes, engine)
    source = open_source(spec, base=base, work=work, partition_bytes=size_bytes)
    if not source.partitions:
        raise InputError.one(
            spec.source, "no row could be read; all are quarantined", "see the reasons there"
        )
    version = version_of(spec, source.files)
    if (finished := _finished(out, version)) is not None:
        shutil.rmtree(work, ignore_errors=True)
        return finished
    folder = work / hashlib.sha256(f"{version}{source.partitions}".encode()).hexdigest()[:12]
    if not folder.is_dir():
        _clear(out)
        folder.mkdir(parents=True)
    passes = StoredPasses(
        partitions=source.partitions,
        engine=engine,
        folder=folder,
        on_progress=on_progress,
        names=[],
    )
    columns = source_columns(spec, source.schema)
    inputs = PipelineInput(
        spec=spec,
        steps=named_steps(spec, columns),
        columns=columns,
        file_format=source.file_format,
        floats=null_floats(spec, source.schema),
    )
    pipeline = fit_steps(inputs, passes, memory_bytes=memory_bytes / 4)
    results = passes.run(write_pass(pipeline, source.rows, out), pipeline.row_arrays)
    written = WriteResult(
        pipeline=pipeline,
        base=base,
        source=source,
        results=tuple(results),
        engine=engine.name,
        passes=tuple(passes.names),
        version=version,
    )
    manifest = manifest_of(written, out)
    transform_of(pipeline, manifest.features, version).save(out / TRANSFORM_FILE)
    manifest = replace(manifest, other_files=_other_files(out, manifest))
    save_manifest(out, manifest)  # last: the dataset is complete
    shutil.rmtree(work, ignore_errors=True)
    return load_prepared(out)


def _is_data(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".")  # drafts of killed processes


def _other_files(out: Path, manifest: DatasetManifest) -> tuple[Shard, ...]:
    """Return the digests of what is next to the shards: the transform, facts, tokenizers."""
    known = {shard.path for shard in manifest.files}
    folders = [out / split.name for split in manifest.splits]
    paths = [out / TRANSFORM_FILE, *(path for folder in folders for path in folder.glob("*"))]
    names = sorted(path.relative_to(out).as_posix() for path in paths if _is_data(path))
    return tuple(
        Shard(
            path=name,
            rows=0,
            size_bytes=(out / name).stat().st_size,
            sha256=digest_of_file(out / name),
        )
        for name in names
        if name not in known
    )


def partition_bytes(spec: DataSpec, memory_bytes: float, engine: DataEngine) -> float:
    """Return the maximum size of a partition, so that those in flight stay below the limit."""
    steps = [step.named_settings("steps") for step in spec.steps]
    jit_step = next((name for name, settings in steps if settings.USES_JIT), None)
    used_bytes = _BASELINE_BYTES + (_JIT_BYTES if jit_step else 0.0)
    free_bytes = memory_bytes - used_bytes
    if free_bytes < 10 * _MIN_PARTITION_BYTES:
        minimum = f"{(used_bytes + 10 * _MIN_PARTITION_BYTES) / 1e6:.0f}MB"
        reason = f" with {jit_step}" if jit_step else ""
        what = f"{memory_bytes / 1e6:.0f}MB is too little memory{reason}"
        raise InputError.one("--memory", what, f"set {minimum} or more")
    share_bytes = free_bytes / _MEMORY_SHARE / max(1, engine.in_flight)
    return max(
        _MIN_PARTITION_BYTES, min(spec.output.shard_bytes, _MAX_PARTITION_BYTES, share_bytes)
    )


def _check_folder(out: Path, work: Path) -> None:
    ours = (out / MANIFEST_FILE).is_file() or work.is_dir()
    if out.is_dir() and any(out.iterdir()) and not ours:
        raise InputError.one(str(out), "holds other files", "use an empty or new folder")


def _clear(out: Path) -> None:
    for file in (MANIFEST_FILE, MANIFEST_DIGEST_FILE):
        (out / file).unlink(missing_ok=True)
    for name in (*SPLITS, "base", "quarantine"):
        shutil.rmtree(out / name, ignore_errors=True)


def _finished(out: Path, version: str) -> PreparedDataset | None:
    """Return the dataset in the folder if it has this version and is complete."""
    try:
        manifest = load_manifest(out)
    except InputError:
        return None
    if manifest.version != version or damaged_files(out, manifest.files):
        return None
    return load_prepared(out)


def source_columns(spec: DataSpec, schema: pl.Schema) -> Columns:
    """Return the columns of the source that are read; raise InputError for unknown names."""
    named = (
        ("label", spec.label),
        ("id", spec.id),
        ("split.group", spec.split.group),
        ("split.time", spec.split.time),
    )
    problems = [
        unknown_column(f"data.{where}", name, schema)
        for where, name in (*named, *(("ignore", name) for name in spec.ignore))
        if name is not None and name not in schema
    ]
    problems += [
        Problem(
            where=f"{spec.source}: column {number + 1}",
            what="has no name, like the row numbers that R and pandas write",
            fix=f'leave it out: ignore: ["{name}"], or name it in the file',
        )
        for number, name in enumerate(schema)
        if not name.strip() and name not in spec.ignore
    ]
    if problems:
        raise InputError(problems)
    read = {name: dtype for name, dtype in schema.items() if name not in spec.ignore}
    return columns_of(read, tuple(name for _, name in named if name is not None), spec.label)


def null_floats(spec: DataSpec, schema: pl.Schema) -> frozenset[str]:
    """Return the columns in which infinities and NaN are read as null."""
    if spec.read.infinite == "quarantine":
        return frozenset()
    return frozenset(name for name, dtype in schema.items() if dtype.is_float())


def named_steps(spec: DataSpec, columns: Columns) -> tuple[NamedStep, ...]:
    """Return the steps of the file, after the quarantine of infinities and of missing labels."""
    steps = []
    floats = tuple(column.name for column in columns.items if column.dtype.startswith("Float"))
    if spec.read.infinite == "quarantine" and floats:
        steps.append(
            NamedStep(name="infinite", where="data.read", settings=Infinite(columns=floats))
        )
    if spec.label is not None:
        steps.append(
            NamedStep(name="label", where="data.label", settings=DropNulls(columns=(spec.label,)))
        )
    for number, step in enumerate(spec.steps):
        where = f"data.steps[{number}]"
        name, settings = step.named_settings(where)
        steps.append(NamedStep(name=name, where=f"{where}.{name}", settings=settings))
    return tuple(steps)
