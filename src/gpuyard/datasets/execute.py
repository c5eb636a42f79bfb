"""One partition of a pass: read, clean, change, gather, write. All engines call it."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Literal, cast

import numpy as np
import polars as pl

from gpuyard.datasets.data_pass import (
    Action,
    Apply,
    Assign,
    DataPass,
    Gather,
    Mark,
    PartitionTask,
    Result,
    SaveRows,
    Write,
)
from gpuyard.datasets.hashing import row_hash
from gpuyard.datasets.manifest import Shard
from gpuyard.datasets.source.partitions import read_partition
from gpuyard.datasets.spec import OutputSpec
from gpuyard.datasets.split import SPLIT, SPLITS
from gpuyard.datasets.step import (
    FOLD,
    ROW,
    Aggregate,
    ExpressionRequest,
    FittedStep,
    FrameRequest,
    Marker,
    RowFilter,
    SeriesPart,
)
from gpuyard.errors import ExternalError

_BASE = OutputSpec(compression="lz4")


def execute(data_pass: DataPass, task: PartitionTask) -> Result:
    """Read a partition and return its result."""
    frame = pl.DataFrame()
    if data_pass.columns:
        frame = read_partition(task.partition, data_pass.file_format, data_pass.columns)
    return execute_frame(data_pass, task, frame)


def execute_frame(data_pass: DataPass, task: PartitionTask, frame: pl.DataFrame) -> Result:
    """Return the result of a partition whose rows are already in memory."""
    return _PartitionRun(data_pass, task, frame).run()


def frame_after(data_pass: DataPass, task: PartitionTask, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows after the actions, for tables in memory."""
    run = _PartitionRun(data_pass, task, frame)
    run.run()
    run.materialise()
    return run.frame


# State of a partition during a pass. Expressions accumulate in `lazy` until a result is needed, and
# dropped rows only in the mask `alive`, so that the frame is rewritten as rarely as possible.
# Invariant: `alive` refers to the rows of `frame`; it is None whenever `lazy` is not.
class _PartitionRun:
    def __init__(self, data_pass: DataPass, task: PartitionTask, frame: pl.DataFrame) -> None:
        self.data_pass = data_pass
        self.row_arrays = dict(task.row_arrays)
        self.number = task.partition.number
        start, rows = task.partition.start, task.partition.rows
        if ROW not in frame.columns:
            numbers = pl.int_range(start, start + rows, dtype=pl.UInt64, eager=True).alias(ROW)
            frame = frame.with_columns(numbers) if frame.width else pl.DataFrame(numbers)
        self.frame = _finite(frame, data_pass.floats)
        self.alive: np.ndarray | None = None  # rows that are left; None: all
        self.lazy: pl.LazyFrame | None = None
        self.has_splits = False
        self.counts: list[tuple[int, int, int]] = []
        self.aggregates: list[Aggregate] = []
        self.marks: tuple[np.ndarray, ...] = ()
        self.shards: list[tuple[str, Shard]] = []
        self.quarantined: list[pl.DataFrame] = []

    def run(self) -> Result:
        for action in self.data_pass.actions:
            self.act(action)
        self.write_quarantine()
        return Result(
            counts=tuple(self.counts),
            aggregates=tuple(self.aggregates),
            marks=self.marks,
            shards=tuple(self.shards),
        )

    def act(self, action: Action) -> None:
        if isinstance(action, Apply):
            self.apply(action)
            return
        if isinstance(action, Write) and not self.has_splits:
            self.write(action)
            return
        self.materialise()
        if isinstance(action, Assign):
            self.assign(action)
        elif isinstance(action, Gather):
            self.aggregates += _gather(
                self.frame if action.every_row else self.training_rows(), action
            )
        elif isinstance(action, Mark):
            self.marks = action.part.mark(self.frame)
        elif isinstance(action, SaveRows):
            rows = self.training_rows().select(ROW, *action.columns)
            path = Path(action.folder) / f"part-{self.number:06d}.parquet"
            self.shards.append(("base", _write_parquet(rows, path, "base", _BASE)))
        else:
            self.write(action)

    def apply(self, action: Apply) -> None:
        part = action.part
        if isinstance(part, Marker):
            alive = self.alive_rows()
            positions = self.row_arrays.get(action.key, np.empty(0, np.int64))
            dropped = np.flatnonzero(alive)[positions]
            alive[dropped] = False
            self.counts.append((action.step, len(dropped), 0))
        elif isinstance(part, RowFilter):
            self.filter_rows(action.step, part)
        elif isinstance(part, SeriesPart):
            self.materialise()
            new = self.row_arrays[action.key]
            self.frame = self.frame.with_columns(
                pl.Series(name, new[:, at], nan_to_null=True) for at, name in enumerate(part.writes)
            ).drop(action.drops, strict=False)
        else:
            self.drop_dead_rows()
            assert isinstance(part, FittedStep)
            lazy = self.frame.lazy() if self.lazy is None else self.lazy
            if expressions := part.expressions():
                lazy = lazy.with_columns(expressions)
            self.lazy = lazy.drop(action.drops, strict=False) if action.drops else lazy

    def collect(self) -> None:
        if self.lazy is not None:
            self.frame, self.lazy = self.lazy.collect(), None

    def drop_dead_rows(self) -> None:
        if self.alive is not None and not self.alive.all():
            self.frame = self.frame.filter(pl.Series(self.alive))
        self.alive = None

    def materialise(self) -> None:
        self.drop_dead_rows()
        self.collect()

    def alive_rows(self) -> np.ndarray:
        self.collect()
        if self.alive is None:
            self.alive = np.ones(self.frame.height, dtype=bool)
        return self.alive

    def filter_rows(self, step: int, part: RowFilter) -> None:
        alive = self.alive_rows()
        keep = self.frame.select(part.keep().fill_null(False).alias("k"))["k"]
        if len(keep) != len(alive):  # a constant condition
            keep = keep.new_from_index(0, len(alive))
        dropped = alive & ~keep.to_numpy()
        count = int(dropped.sum())
        if count and part.quarantined and self.data_pass.quarantine:
            reason = part.reason()
            reason = pl.lit(reason) if isinstance(reason, str) else reason
            rows = self.frame.filter(pl.Series(dropped)).with_columns(reason.alias("__reason"))
            self.quarantined.append(rows.with_columns(pl.lit(step).alias("__step")))
        alive &= ~dropped
        self.counts.append((step, 0, count) if part.quarantined else (step, count, 0))

    def assign(self, action: Assign) -> None:
        if action.rule.by != "none":
            self.has_splits = True
            self.frame = self.frame.with_columns(
                pl.Series(SPLIT, action.rule.codes(self.frame), dtype=pl.UInt8)
            )
        if action.folds:
            hashes = row_hash(self.frame[ROW].to_numpy(), action.rule.seed + 1) >> np.uint64(40)
            fold = pl.Series(FOLD, hashes.astype(np.uint32))
            training = pl.col(SPLIT) == 0 if self.has_splits else pl.lit(True)
            self.frame = self.frame.with_columns(pl.when(training).then(fold).alias(FOLD))

    def training_rows(self) -> pl.DataFrame:
        return self.frame.filter(pl.col(SPLIT) == 0) if self.has_splits else self.frame

    def write(self, action: Write) -> None:
        dtype = pl.Float32 if action.output.precision == "float32" else pl.Float64
        floats = set(action.floats)
        columns = [
            pl.col(name).cast(dtype) if name in floats else pl.col(name) for name in action.columns
        ]
        self.drop_dead_rows()
        lazy = self.frame.lazy() if self.lazy is None else self.lazy
        for code, name in enumerate(SPLITS if self.has_splits else SPLITS[:1]):
            split = lazy.filter(pl.col(SPLIT) == code) if self.has_splits else lazy
            rows = split.select(columns).collect()
            if not rows.height:
                continue
            suffix = action.writer.suffix if action.writer else ".parquet"
            path = Path(action.folder) / name / f"part-{self.number:06d}{suffix}"
            if action.writer is None:
                shard = _write_parquet(rows, path, name, action.output)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                shard = _shard(path, name, action.writer.write(rows, str(path)))
            self.shards.append((name, shard))

    def write_quarantine(self) -> None:
        """Write the quarantined rows, every value as text, with the reason."""
        if not self.quarantined:
            return
        texts = [
            rows.with_columns(pl.col(name).cast(pl.String) for name in _plain_columns(rows))
            for rows in self.quarantined
        ]
        path = Path(self.data_pass.quarantine) / f"part-{self.number:06d}.parquet"
        table = pl.concat([rows.drop(SPLIT, FOLD, strict=False) for rows in texts], how="diagonal")
        self.shards.append(("quarantine", _write_parquet(table, path, "quarantine", _BASE)))


def _plain_columns(frame: pl.DataFrame) -> list[str]:
    return [
        name
        for name, dtype in frame.schema.items()
        if not dtype.is_nested() and not name.startswith("__")
    ]


def _finite(frame: pl.DataFrame, floats: tuple[str, ...]) -> pl.DataFrame:
    """Return infinities and NaN as nulls; columns without any are not rewritten."""
    if not floats:
        return frame
    # A sum is finite only if all its terms are. The converse fails near the largest float, where
    # it costs one needless rewrite.
    finite = frame.select(pl.col(name).sum().is_finite() for name in floats).row(0)
    suspect = [name for name, good in zip(floats, finite, strict=True) if not good]
    if not suspect:
        return frame
    return frame.with_columns(
        pl.when(pl.col(name).is_finite()).then(pl.col(name)) for name in suspect
    )


def _gather(frame: pl.DataFrame, action: Gather) -> list[Aggregate]:
    """Return the statistics of a frame, all expressions in one query."""
    queries = [
        request.expressions() if isinstance(request, ExpressionRequest) else ()
        for request in action.requests
    ]
    flat = [
        expression.alias(f"{at}.{place}")
        for at, query in enumerate(queries)
        for place, expression in enumerate(query)
    ]
    table = frame.select(flat) if flat else pl.DataFrame()
    aggregates: list[Aggregate] = []
    for at, (request, query) in enumerate(zip(action.requests, queries, strict=True)):
        if isinstance(request, ExpressionRequest):
            values = [table[f"{at}.{place}"][0] for place in range(len(query))]
            aggregates.append(request.aggregate(values))
        else:
            assert isinstance(request, FrameRequest)
            aggregates.append(request.collect(frame))
    return aggregates


def _write_parquet(frame: pl.DataFrame, path: Path, split: str, output: OutputSpec) -> Shard:
    """Write a Parquet shard atomically: under another name first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}")
    codec = "uncompressed" if output.compression == "none" else output.compression
    level = output.level if output.compression == "zstd" else None
    try:
        frame.write_parquet(
            draft,
            compression=cast(Literal["zstd"], codec),
            compression_level=level,
            statistics=False,
        )
        os.replace(draft, path)
    except (OSError, pl.exceptions.PolarsError) as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        what = f"cannot be written: {str(error).splitlines()[0]}"
        raise ExternalError(str(path), what, "free disk space, or use another folder") from None
    return _shard(path, split, frame.height)


def write_shard(frame: pl.DataFrame, path: Path, split: str) -> Shard:
    """Write rows as one Parquet shard of a split."""
    return _write_parquet(frame, path, split, _BASE)


def _shard(path: Path, split: str, rows: int) -> Shard:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return Shard(
        path=f"{split}/{path.name}", rows=rows, size_bytes=path.stat().st_size, sha256=digest
    )
