"""A source cut into partitions of rows that are read alone: the same cut for every engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from gpuyard.datasets.source.files import CLOUD
from gpuyard.errors import InputError, Problem, RefusedError

__all__ = ["Partition", "Slice", "cut", "differences", "read_partition", "schema_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Some rows of one file."""

    path: str
    offset: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Rows that are worked on together, and the number of the first."""

    number: int
    start: int
    rows: int
    slices: tuple[Slice, ...]


def schema_of(paths: Sequence[str], form: str) -> pl.Schema:
    """The columns of the files; InputError with the difference where one has others."""
    first = _schema(paths[0], form)
    problems = [problem for path in paths[1:] for problem in differences(path, expected=first, got=_schema(path, form))]
    if problems:
        raise InputError(problems[:20])
    return first


def _schema(path: str, form: str) -> pl.Schema:
    """The columns of one file."""
    try:
        if form == "arrow":
            return pl.Schema(pl.scan_ipc(path).collect_schema())
        return pl.Schema(
            pl.read_parquet_schema(path) if not path.startswith(CLOUD) else pl.scan_parquet(path).collect_schema()
        )
    except FileNotFoundError:
        raise InputError.one(path, "no such file", "check the path") from None
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError.one(
            path, f"cannot be read: {_first(error)}", "fetch the file again; it may be cut off"
        ) from None


def _first(error: Exception) -> str:
    """The first line of an error, cut."""
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__


def differences(where: str, expected: pl.Schema, got: pl.Schema) -> list[Problem]:
    """What changed between two lists of columns."""
    fix = "mend the file, or renew the contract"
    problems = [
        Problem(where=where, what=f'column "{name}" is missing ({dtype})', fix=fix)
        for name, dtype in expected.items()
        if name not in got
    ]
    problems += [
        Problem(where=where, what=f'column "{name}" is new ({dtype})', fix=fix)
        for name, dtype in got.items()
        if name not in expected
    ]
    problems += [
        Problem(where=where, what=f'column "{name}" is {got[name]}, not {dtype}', fix=fix)
        for name, dtype in expected.items()
        if name in got and got[name] != dtype
    ]
    return problems


def cut(paths: Sequence[str], form: str, target_bytes: float) -> tuple[Partition, ...]:
    """Partitions of about that size in memory, in the order of the files."""
    partitions: list[Partition] = []
    slices: list[Slice] = []
    start, size, rows = 0, 0.0, 0

    def close() -> None:
        """Ends a partition."""
        nonlocal start, size, rows, slices
        if rows:
            number = len(partitions)
            partitions.append(Partition(number=number, start=start, rows=rows, slices=tuple(_joined(slices))))
        start, size, rows, slices = start + rows, 0.0, 0, []

    for piece, piece_bytes in _pieces(paths, form, target_bytes):
        if rows and size + piece_bytes > target_bytes:
            close()
        slices.append(piece)
        size, rows = size + piece_bytes, rows + piece.rows
    close()
    return tuple(partitions)


def _joined(slices: Iterable[Slice]) -> Iterator[Slice]:
    """Neighbours of one file as one slice."""
    last: Slice | None = None
    for piece in slices:
        if last is not None and last.path == piece.path and last.offset + last.rows == piece.offset:
            last = Slice(path=last.path, offset=last.offset, rows=last.rows + piece.rows)
            continue
        if last is not None:
            yield last
        last = piece
    if last is not None:
        yield last


def _pieces(paths: Sequence[str], form: str, target_bytes: float) -> Iterator[tuple[Slice, float]]:
    """The smallest pieces that are read alone, with their size in memory."""
    for path in paths:
        offset = 0
        for rows, size in _groups(path, form):
            many = max(1, min(rows, int(-(-size // target_bytes))))
            for place in range(many):
                begin, end = rows * place // many, rows * (place + 1) // many
                yield Slice(path=path, offset=offset + begin, rows=end - begin), size / many
            offset += rows


def _groups(path: str, form: str) -> list[tuple[int, float]]:
    """Rows and bytes of the parts of a file."""
    try:
        if form == "arrow":
            frame = pl.scan_ipc(path)
            rows = int(frame.select(pl.len()).collect().item())
            sample = frame.head(1000).collect()
            return [(rows, rows * sample.estimated_size() / max(1, sample.height))]
        if path.startswith(CLOUD):
            rows = int(pl.scan_parquet(path).select(pl.len()).collect().item())
            return [(rows, rows * 8.0 * len(_schema(path, form)))]
        data = pq.ParquetFile(path).metadata
        groups = [data.row_group(number) for number in range(data.num_row_groups)]
        return [(group.num_rows, float(group.total_byte_size)) for group in groups]
    except (pa.ArrowException, pl.exceptions.PolarsError, OSError) as error:
        raise InputError.one(
            path, f"cannot be read: {_first(error)}", "fetch the file again; it may be cut off"
        ) from None


def read_partition(partition: Partition, form: str, columns: Sequence[str]) -> pl.DataFrame:
    """The columns of a partition's rows."""
    frames = []
    for piece in partition.slices:
        try:
            scan = pl.scan_ipc(piece.path) if form == "arrow" else pl.scan_parquet(piece.path, glob=False)
            frames.append(scan.slice(piece.offset, piece.rows).select(columns).collect())
        except FileNotFoundError:
            raise InputError.one(piece.path, "no such file", "it was there a moment ago") from None
        except pl.exceptions.PolarsError as error:
            what = f"cannot be read: {_first(error)}"
            raise InputError.one(piece.path, what, "fetch the file again; it may be corrupt") from None
        except OSError as error:
            raise RefusedError(piece.path, f"cannot be read: {_first(error)}", "check the file and its disk") from None
    return frames[0] if len(frames) == 1 else pl.concat(frames)
