"""Partitions of a source: ranges of rows that are read separately, the same on every engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from gpuyard.datasets.source.files import CLOUD
from gpuyard.errors import ExternalError, InputError, Problem

_MAX_PROBLEMS = 20
# A damaged Arrow file can make the reader panic, and a panic is no Exception.
UNREADABLE: tuple[type[BaseException], ...] = (
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
    pa.ArrowException,
    OSError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSlice:
    """Range of rows of one file."""

    path: str
    offset: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Rows that are processed together; `start` is the number of the first."""

    number: int
    start: int
    rows: int
    slices: tuple[FileSlice, ...]


def schema_of(paths: Sequence[str], file_format: str) -> pl.Schema:
    """Return the columns of the files; raise InputError where a file has others."""
    first = _schema(paths[0], file_format)
    fix = f"use files with the columns of {paths[0]}"
    problems = [
        problem
        for path in paths[1:]
        for problem in schema_problems(path, first, _schema(path, file_format), fix)
    ]
    if problems:
        raise InputError(problems[:_MAX_PROBLEMS])
    return first


def _schema(path: str, file_format: str) -> pl.Schema:
    try:
        if file_format == "arrow":
            return pl.Schema(pl.scan_ipc(path).collect_schema())
        if path.startswith(CLOUD):
            return pl.Schema(pl.scan_parquet(path).collect_schema())
        return pl.Schema(pl.read_parquet_schema(path))
    except FileNotFoundError:
        raise InputError.one(path, "no such file", "check the path") from None
    except UNREADABLE as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: BaseException) -> InputError:
    what = f"cannot be read: {_first_line(error)}"
    return InputError.one(path, what, "download the file again; it may be truncated or corrupt")


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__


def schema_problems(where: str, expected: pl.Schema, actual: pl.Schema, fix: str) -> list[Problem]:
    """Return the differences between two schemas."""
    differences = [
        *(
            f'column "{name}" is missing ({dtype})'
            for name, dtype in expected.items()
            if name not in actual
        ),
        *(
            f'column "{name}" is new ({dtype})'
            for name, dtype in actual.items()
            if name not in expected
        ),
        *(
            f'column "{name}" is {actual[name]}, not {dtype}'
            for name, dtype in expected.items()
            if name in actual and actual[name] != dtype
        ),
    ]
    return [Problem(where=where, what=what, fix=fix) for what in differences]


def make_partitions(
    paths: Sequence[str], file_format: str, target_bytes: float
) -> tuple[Partition, ...]:
    """Return partitions of about `target_bytes` in memory, in the order of the files."""
    partitions: list[Partition] = []
    slices: list[FileSlice] = []
    size_bytes = 0.0

    def close() -> None:
        if slices:
            last = partitions[-1] if partitions else None
            partitions.append(
                Partition(
                    number=len(partitions),
                    start=last.start + last.rows if last else 0,
                    rows=sum(piece.rows for piece in slices),
                    slices=tuple(_joined(slices)),
                )
            )
            slices.clear()

    for piece, piece_bytes in _pieces(paths, file_format, target_bytes):
        if not piece.rows:
            continue
        if slices and size_bytes + piece_bytes > target_bytes:
            close()
            size_bytes = 0.0
        slices.append(piece)
        size_bytes += piece_bytes
    close()
    return tuple(partitions)


def _joined(slices: Iterable[FileSlice]) -> Iterator[FileSlice]:
    """Merge adjacent slices of the same file."""
    last: FileSlice | None = None
    for piece in slices:
        if last is not None and last.path == piece.path and last.offset + last.rows == piece.offset:
            last = FileSlice(path=last.path, offset=last.offset, rows=last.rows + piece.rows)
            continue
        if last is not None:
            yield last
        last = piece
    if last is not None:
        yield last


def _pieces(
    paths: Sequence[str], file_format: str, target_bytes: float
) -> Iterator[tuple[FileSlice, float]]:
    """Yield the smallest pieces that are read separately, with their size in memory."""
    for path in paths:
        offset = 0
        for rows, size_bytes in _row_groups(path, file_format):
            count = max(1, min(rows, int(-(-size_bytes // target_bytes))))
            for place in range(count):
                begin, end = rows * place // count, rows * (place + 1) // count
                piece = FileSlice(path=path, offset=offset + begin, rows=end - begin)
                yield piece, size_bytes / count
            offset += rows


def _row_groups(path: str, file_format: str) -> list[tuple[int, float]]:
    try:
        if file_format == "arrow":
            frame = pl.scan_ipc(path)
            rows = int(frame.select(pl.len()).collect().item())
            sample = frame.head(1000).collect()
            return [(rows, rows * sample.estimated_size() / max(1, sample.height))]
        if path.startswith(CLOUD):
            rows = int(pl.scan_parquet(path).select(pl.len()).collect().item())
            return [(rows, rows * 8.0 * len(_schema(path, file_format)))]
        metadata = pq.ParquetFile(path).metadata
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        return [(group.num_rows, float(group.total_byte_size)) for group in groups]
    except UNREADABLE as error:
        raise _unreadable(path, error) from None


def read_partition(partition: Partition, file_format: str, columns: Sequence[str]) -> pl.DataFrame:
    """Return the columns of a partition's rows."""
    frames = []
    for piece in partition.slices:
        try:
            if file_format == "arrow":
                scan = pl.scan_ipc(piece.path)
            else:
                scan = pl.scan_parquet(piece.path, glob=False)
            frames.append(scan.slice(piece.offset, piece.rows).select(columns).collect())
        except FileNotFoundError:
            fix = "restore the file: it was deleted during the run"
            raise InputError.one(piece.path, "no such file", fix) from None
        except OSError as error:
            what = f"cannot be read: {_first_line(error)}"
            raise ExternalError(piece.path, what, "check the file and its disk") from None
        except UNREADABLE as error:
            raise _unreadable(piece.path, error) from None
    return frames[0] if len(frames) == 1 else pl.concat(frames)
