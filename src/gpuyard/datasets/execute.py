"""One partition of a pass: read, clean, change, gather, write. Every engine calls this, so they agree."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Literal, cast

import numpy as np
import polars as pl

from gpuyard.datasets.hashing import row_hash
from gpuyard.datasets.job import Action, Apply, Assign, Gather, Job, Keep, Mark, Result, Work, Write
from gpuyard.datasets.manifest import Shard
from gpuyard.datasets.source.parts import read_partition
from gpuyard.datasets.spec import OutputSpec
from gpuyard.datasets.split import SPLIT, SPLITS
from gpuyard.datasets.step import FOLD, ROW, Aggregate, ExpressionNeed, FittedStep, FrameNeed, Marker, Removal
from gpuyard.errors import RefusedError

__all__ = ["execute", "execute_frame", "frame_after"]

_BASE = OutputSpec(compression="lz4")


def execute(job: Job, work: Work) -> Result:
    """What a partition brings back."""
    frame = read_partition(work.partition, job.form, job.columns or (ROW,)) if job.columns else pl.DataFrame()
    return execute_frame(job, work, frame)


def execute_frame(job: Job, work: Work, frame: pl.DataFrame) -> Result:
    """What a partition brings back whose rows are already in memory."""
    return _Pass(job, work, frame).run()


def frame_after(job: Job, work: Work, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows as they are after the actions, for tables that stay in memory."""
    done = _Pass(job, work, frame)
    done.run()
    done.cut()
    done.settle()
    return done.frame


class _Pass:
    """The state of a partition on its way through a pass."""

    def __init__(self, job: Job, work: Work, frame: pl.DataFrame) -> None:
        self.job = job
        self.doomed = dict(work.doomed)
        self.number = work.partition.number
        start, rows = work.partition.start, work.partition.rows
        if ROW not in frame.columns:
            numbers = pl.int_range(start, start + rows, dtype=pl.UInt64, eager=True).alias(ROW)
            frame = frame.with_columns(numbers) if frame.width else pl.DataFrame(numbers)
        self.frame = _finite(frame, job.floats)
        self.alive: np.ndarray | None = None  # rows that are left; None: all; the frame is cut only when it must be
        self.lazy: pl.LazyFrame | None = None  # parts that wait, to be worked off in one query
        self.split = False
        self.counts: list[tuple[int, int, int]] = []
        self.aggregates: list[Aggregate] = []
        self.marks: tuple[np.ndarray, ...] = ()
        self.shards: list[tuple[str, Shard]] = []
        self.apart: list[pl.DataFrame] = []

    def run(self) -> Result:
        """Does every action in turn."""
        for action in self.job.actions:
            self.act(action)
        self.quarantine()
        return Result(
            counts=tuple(self.counts), aggregates=tuple(self.aggregates), marks=self.marks, shards=tuple(self.shards)
        )

    def act(self, action: Action) -> None:
        """Does one action."""
        if isinstance(action, Apply):
            self.apply(action)
            return
        if isinstance(action, Write) and not self.split:
            self.write(action)
            return
        self.cut()
        self.settle()
        if isinstance(action, Assign):
            self.assign(action)
        elif isinstance(action, Gather):
            self.aggregates += _gathered(self.frame if action.every_row else self.training(), action)
        elif isinstance(action, Mark):
            self.marks = action.part.mark(self.frame)
        elif isinstance(action, Keep):
            kept = self.training().select(ROW, *action.columns)
            path = Path(action.folder) / f"part-{self.number:06d}.parquet"
            self.shards.append(("base", _parquet(kept, path, "base", _BASE)))
        else:
            self.write(action)

    def apply(self, action: Apply) -> None:
        """One part of a step."""
        part = action.part
        if isinstance(part, Marker):
            alive = self.living()
            gone = np.flatnonzero(alive)[self.doomed.get(action.key, np.empty(0, np.int64))]
            alive[gone] = False
            self.counts.append((action.step, len(gone), 0))
        elif isinstance(part, Removal):
            self.remove(action.step, part)
        else:
            self.cut()
            assert isinstance(part, FittedStep)
            lazy = self.frame.lazy() if self.lazy is None else self.lazy
            if new := part.expressions():
                lazy = lazy.with_columns(new)
            self.lazy = lazy.drop(action.drops, strict=False) if action.drops else lazy

    def settle(self) -> None:
        """Works off the parts that wait."""
        if self.lazy is not None:
            self.frame, self.lazy = self.lazy.collect(), None

    def living(self) -> np.ndarray:
        """Which rows are left."""
        self.settle()
        if self.alive is None:
            self.alive = np.ones(self.frame.height, dtype=bool)
        return self.alive

    def remove(self, step: int, part: Removal) -> None:
        """Takes away rows by a condition."""
        alive = self.living()
        keep = self.frame.select(part.keep().fill_null(False).alias("k"))["k"]
        keep = keep if len(keep) == len(alive) else keep.new_from_index(0, len(alive))
        gone = alive & ~keep.to_numpy()
        count = int(gone.sum())
        if count and part.quarantined and self.job.quarantine:
            reason = part.reason()
            said = pl.lit(reason) if isinstance(reason, str) else reason
            rows = self.frame.filter(pl.Series(gone)).with_columns(said.alias("__reason"))
            self.apart.append(rows.with_columns(pl.lit(step).alias("__step")))
        alive &= ~gone
        self.counts.append((step, 0, count) if part.quarantined else (step, count, 0))

    def cut(self) -> None:
        """Leaves the rows that were taken away."""
        if self.alive is not None and not self.alive.all():
            self.frame = self.frame.filter(pl.Series(self.alive))
        self.alive = None

    def assign(self, action: Assign) -> None:
        """Gives every row its split."""
        if action.rule.by != "none":
            self.split = True
            self.frame = self.frame.with_columns(pl.Series(SPLIT, action.rule.codes(self.frame), dtype=pl.UInt8))
        if action.folds:
            marks = (row_hash(self.frame[ROW].to_numpy(), action.rule.seed + 1) >> np.uint64(40)).astype(np.uint32)
            fold = pl.Series(FOLD, marks)
            training = pl.col(SPLIT) == 0 if self.split else pl.lit(True)
            self.frame = self.frame.with_columns(pl.when(training).then(fold).alias(FOLD))

    def training(self) -> pl.DataFrame:
        """The training rows."""
        return self.frame.filter(pl.col(SPLIT) == 0) if self.split else self.frame

    def write(self, action: Write) -> None:
        """Writes a shard for every split that has rows."""
        dtype = pl.Float32 if action.output.precision == "float32" else pl.Float64
        floats = set(action.floats)
        chosen = [pl.col(name).cast(dtype) if name in floats else pl.col(name) for name in action.columns]
        self.cut()
        lazy = self.frame.lazy() if self.lazy is None else self.lazy
        for code, name in enumerate(SPLITS):
            if code and not self.split:
                break
            rows = (lazy.filter(pl.col(SPLIT) == code) if self.split else lazy).select(chosen).collect()
            if not rows.height:
                continue
            if action.writer is None:
                path = Path(action.folder) / name / f"part-{self.number:06d}.parquet"
                self.shards.append((name, _parquet(rows, path, name, action.output)))
            else:
                path = Path(action.folder) / name / f"part-{self.number:06d}{action.writer.suffix}"
                path.parent.mkdir(parents=True, exist_ok=True)
                samples = action.writer.write(rows, str(path))
                self.shards.append((name, _shard(path, name, samples)))

    def quarantine(self) -> None:
        """Writes the rows that were put apart, every value as text beside the reason."""
        if not self.apart:
            return
        texts = [rows.with_columns(pl.col(name).cast(pl.String) for name in _plain(rows)) for rows in self.apart]
        path = Path(self.job.quarantine) / f"part-{self.number:06d}.parquet"
        table = pl.concat([rows.drop(SPLIT, FOLD, strict=False) for rows in texts], how="diagonal")
        self.shards.append(("quarantine", _parquet(table, path, "quarantine", _BASE)))


def _plain(frame: pl.DataFrame) -> list[str]:
    """The columns that have a text form."""
    return [name for name, dtype in frame.schema.items() if not dtype.is_nested() and not name.startswith("__")]


def _finite(frame: pl.DataFrame, floats: tuple[str, ...]) -> pl.DataFrame:
    """Infinities and NaN as nulls; columns without any are left as they are."""
    if not floats:
        return frame
    # a sum is finite only if all its terms are; the converse fails at the edge of the range, and costs a look
    whole = frame.select(pl.col(name).sum().is_finite() for name in floats).row(0)
    wrong = [name for name, good in zip(floats, whole, strict=True) if not good]
    return (
        frame.with_columns(pl.when(pl.col(name).is_finite()).then(pl.col(name)) for name in wrong) if wrong else frame
    )


def _gathered(frame: pl.DataFrame, action: Gather) -> list[Aggregate]:
    """The statistics of a frame: all expressions in one query."""
    queries = [need.expressions() if isinstance(need, ExpressionNeed) else () for need in action.needs]
    flat = [one.alias(f"{at}.{place}") for at, query in enumerate(queries) for place, one in enumerate(query)]
    table = frame.select(flat) if flat else pl.DataFrame()
    found: list[Aggregate] = []
    for at, (need, query) in enumerate(zip(action.needs, queries, strict=True)):
        if isinstance(need, ExpressionNeed):
            found.append(need.aggregate([table[f"{at}.{place}"][0] for place in range(len(query))]))
        else:
            assert isinstance(need, FrameNeed)
            found.append(need.collect(frame))
    return found


def _parquet(frame: pl.DataFrame, path: Path, split: str, output: OutputSpec) -> Shard:
    """Writes a Parquet shard whole: under another name first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}")
    packed = cast(Literal["zstd"], "uncompressed" if output.compression == "none" else output.compression)
    level = output.level if output.compression == "zstd" else None
    try:
        frame.write_parquet(draft, compression=packed, compression_level=level, statistics=False)
        os.replace(draft, path)
    except (OSError, pl.exceptions.PolarsError) as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        what = f"cannot be written: {str(error).splitlines()[0]}"
        raise RefusedError(str(path), what, "free disk space, or name another folder") from None
    return _shard(path, split, frame.height)


def _shard(path: Path, split: str, rows: int) -> Shard:
    """What the manifest says of a file."""
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return Shard(path=f"{split}/{path.name}", rows=rows, size_bytes=path.stat().st_size, sha256=digest)
