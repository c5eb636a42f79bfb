"""`gpuyard predict`: predict the rows of a file with a registered model, a batch at a time."""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from gpuyard.app.tensor_predict import TensorPredictor, takes_tensors
from gpuyard.datasets.engines.ray import RayDataEngine, result_of
from gpuyard.datasets.source.partitions import UNREADABLE
from gpuyard.datasets.spec import NULLS
from gpuyard.errors import ExternalError, InputError
from gpuyard.home import Home
from gpuyard.learn.evaluate.bundle_model import BundleModel
from gpuyard.registry.bundle import DESCRIPTION, TRANSFORM, read_bundle
from gpuyard.registry.registry import Registry

BATCH_ROWS = 65_536
RETRIES = 5  # of a batch whose worker was lost
FORMATS = (".parquet", ".csv", ".jsonl", ".ndjson", ".arrow")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPrediction:
    """A file of predictions."""

    model: str
    out: str
    rows: int
    columns: tuple[str, ...]


def open_model(
    model: str, home: Home, *, allow_code: bool = False
) -> BundleModel | TensorPredictor:
    """Open NAME, NAME@ALIAS, NAME/3 or a bundle folder."""
    return open_folder(folder_of(model, home), allow_code=allow_code)


def folder_of(model: str, home: Home) -> Path:
    """Return the bundle folder of NAME, NAME@ALIAS, NAME/3 or a bundle folder."""
    place = Path(model)
    return place if (place / DESCRIPTION).is_file() else Registry(home=home).get(model).path


def open_folder(folder: Path, *, allow_code: bool) -> BundleModel | TensorPredictor:
    """Open a bundle folder; code of its author needs `allow_code`."""
    bundle = read_bundle(folder)
    if bundle.kind != "language" and takes_tensors(
        bundle, has_transform=(folder / TRANSFORM).is_file()
    ):
        return TensorPredictor(folder, bundle, allow_code=allow_code)
    return BundleModel(folder, allow_code=allow_code)


def predict_file(
    model: str,
    path: Path,
    out: Path,
    *,
    home: Home,
    keep: bool = False,
    allow_code: bool = False,
    ray: RayDataEngine | None = None,
) -> BatchPrediction:
    """Write one row of predictions per row of the file; `keep` adds the columns of the file.

    A model that runs Python code of its author needs `allow_code`. With `ray` its tasks predict.
    """
    if out.suffix not in (".parquet", ".csv"):
        raise InputError.one(str(out), "is no known format", "write out.parquet or out.csv")
    folder, rows = folder_of(model, home).resolve(), 0
    opened = open_folder(folder, allow_code=allow_code)
    draft = out.with_name(f".{out.name}.{os.getpid()}")
    parts: list[pl.DataFrame] = []
    try:
        # Lags and windows need all rows of a series at once.
        batches = _batches(path, None if opened.history_rows else BATCH_ROWS)
        for frame, answers in (
            ((frame, opened.answers(frame)) for frame in batches)
            if ray is None
            else _on_ray(ray, folder, batches, allow_code)
        ):
            parts.append(frame.hstack(answers) if keep else answers)
            rows += len(frame)
        if not rows:
            raise InputError.one(str(path), "holds no rows", "use a file with rows")
        table = pl.concat(parts)
        if out.suffix == ".csv":
            _check_flat(table, out)
            table.write_csv(draft)
        else:
            table.write_parquet(draft)
        os.replace(draft, out)
    except OSError as error:
        what = f"cannot be written: {error.strerror}"
        raise ExternalError(str(out), what, "use a writable folder with free space") from error
    finally:
        draft.unlink(missing_ok=True)
    return BatchPrediction(model=model, out=str(out), rows=rows, columns=tuple(table.columns))


def _on_ray(
    engine: RayDataEngine, folder: Path, batches: Iterator[pl.DataFrame], allow_code: bool
) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Yield batches with their predictions, in order; a few per CPU are in flight."""
    ray, _ = engine.connect()
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(_remote_answers)
    limit = max(2, 2 * int(ray.cluster_resources().get("CPU", 1)))
    waiting: deque[tuple[pl.DataFrame, object]] = deque()
    for frame in batches:
        waiting.append((frame, task.remote(str(folder), allow_code, frame)))
        if len(waiting) >= limit:
            done, reference = waiting.popleft()
            yield done, result_of(ray, reference)
    for done, reference in waiting:
        yield done, result_of(ray, reference)


def _remote_answers(folder: str, allow_code: bool, frame: pl.DataFrame) -> pl.DataFrame:
    return _opened(folder, allow_code).answers(frame)


@functools.lru_cache(maxsize=4)  # once per worker process
def _opened(folder: str, allow_code: bool) -> BundleModel | TensorPredictor:
    return open_folder(Path(folder), allow_code=allow_code)


def _check_flat(table: pl.DataFrame, out: Path) -> None:
    nested = [name for name, dtype in table.schema.items() if dtype.is_nested()]
    if nested:
        what = f"a CSV file cannot hold {nested[0]}, an array per row"
        raise InputError.one(str(out), what, "write out.parquet")


def _batches(path: Path, batch_rows: int | None) -> Iterator[pl.DataFrame]:
    if not path.is_file():
        raise InputError.one(str(path), "no such file", "check the path")
    if path.suffix not in FORMATS:
        fix = f"use {', '.join(FORMATS)}"
        raise InputError.one(str(path), "is no known format", fix)
    try:
        if path.suffix == ".parquet":
            lazy = pl.scan_parquet(path, glob=False)
        elif path.suffix == ".arrow":
            lazy = pl.scan_ipc(path)
        elif path.suffix == ".csv":
            # Text formats cannot be read from the middle: parsed once, then cut.
            nulls = list(NULLS)
            lazy = pl.read_csv(path, null_values=nulls, infer_schema_length=None).lazy()
        else:
            lazy = pl.read_ndjson(path, infer_schema_length=None).lazy()
        count = int(lazy.select(pl.len()).collect().item())
        batch_rows = batch_rows or max(1, count)
        for start in range(0, count, batch_rows):
            yield lazy.slice(start, batch_rows).collect()
    except UNREADABLE as error:
        what = f"cannot be read: {str(error).splitlines()[0][:200]}"
        raise InputError.one(str(path), what, "check the file") from None
