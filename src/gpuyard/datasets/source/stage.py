"""Staging of formats without random access (CSV, JSON lines, text) as Parquet, chunk by chunk.

Rows that do not fit (too many fields, text in a number column, invalid JSON) are quarantined with
the reason, and counted.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from gpuyard.datasets.source.file_rows import QUARANTINE, TEXTS, row_files
from gpuyard.datasets.source.files import SourceFiles, open_bytes
from gpuyard.datasets.source.huggingface import ARROW_STREAM, arrow_frames
from gpuyard.datasets.spec import ReadSpec
from gpuyard.errors import ExternalError, InputError

CHUNK_BYTES = 32 << 20
_SAMPLE_ROWS = 10_000
_PARSE_ERRORS = (pl.exceptions.PolarsError, TypeError, OverflowError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Parquet files of a staged source, and its quarantined rows."""

    paths: tuple[str, ...]
    rows: int
    quarantined: int
    quarantine: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Piece of a file that ends with a line, and the number of its first line."""

    file: str
    line: int
    data: bytes
    header: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """Good rows of a chunk, and bad ones with the reason."""

    frame: pl.DataFrame
    bad: pl.DataFrame


def stage(
    files: SourceFiles,
    read: ReadSpec,
    folder: Path,
    chunk_bytes: int = CHUNK_BYTES,
    pinned: pl.Schema | None = None,
) -> Staged:
    """Write the source as Parquet files into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    paths, quarantine = [], []
    rows = quarantined = 0
    for number, parsed in enumerate(_parsed_chunks(files, read, chunk_bytes, pinned)):
        path = folder / f"part-{number:06d}.parquet"
        write_staged(parsed.frame, path)
        paths.append(str(path))
        rows += parsed.frame.height
        if parsed.bad.height:
            path = folder / f"quarantine-{number:06d}.parquet"
            write_staged(parsed.bad, path)
            quarantine.append(str(path))
            quarantined += parsed.bad.height
    return Staged(
        paths=tuple(paths), rows=rows, quarantined=quarantined, quarantine=tuple(quarantine)
    )


def _parsed_chunks(
    files: SourceFiles, read: ReadSpec, chunk_bytes: int, schema: pl.Schema | None
) -> Iterator[Parsed]:
    if files.format == "images" or (files.format == "text" and not read.lines):
        for frame, bad in row_files(files, read, chunk_bytes):
            yield Parsed(frame=frame, bad=bad)
        return
    if files.format == ARROW_STREAM:
        for frame in arrow_frames(files.paths, chunk_bytes):
            yield Parsed(frame=frame, bad=pl.DataFrame(schema=QUARANTINE))
        return
    for path in files.paths:
        for chunk in _chunks(path, files.format in ("csv", "tsv"), read, chunk_bytes):
            if schema is None:
                schema = _infer_schema(chunk, files.format, read)
            yield _PARSERS[files.format](chunk, schema, read)


def write_staged(frame: pl.DataFrame, path: Path) -> None:
    """Write a staged file; raise ExternalError if the disk is full."""
    try:
        frame.write_parquet(path, compression="lz4")
    except (OSError, pl.exceptions.PolarsError) as error:
        what = f"cannot be written: {str(error).splitlines()[0]}"
        raise ExternalError(str(path), what, "free disk space, or use another folder") from None


# A file is read in blocks. The end of a block that is not a complete line is carried over to the
# next, so every chunk ends with a line; a line break between quotes does not end a line of CSV.
def _chunks(path: str, quoted: bool, read: ReadSpec, chunk_bytes: int) -> Iterator[Chunk]:
    header, rest, line = b"", b"", 1
    decoder = codecs.getincrementaldecoder(read.encoding)() if read.encoding != "utf-8" else None
    with open_bytes(path) as stream:
        while True:
            block = stream.read(chunk_bytes)
            last = not block
            if decoder is not None:
                block = decoder.decode(block, final=last).encode()
            data = rest + block
            end = len(data) if last else _last_line_end(data, quoted)
            piece, rest = data[:end], data[end:]
            if quoted and read.header and not header and piece:
                header, piece = _split_header(piece)
                line += 1
            if piece.strip() or (last and header and line == 2 and not piece):
                if read.encoding == "utf-8" or not read.lines:
                    _check_utf8(piece, path, line)
                yield Chunk(file=path, line=line, data=piece, header=header)
            line += piece.count(b"\n")
            if last:
                return


def _split_header(piece: bytes) -> tuple[bytes, bytes]:
    first_line = piece.find(b"\n") + 1
    end = _last_line_end(piece[:first_line], quoted=True) or first_line or len(piece)
    header = piece[:end].removeprefix(codecs.BOM_UTF8)
    if not header.endswith(b"\n"):
        header += b"\n"
    return header, piece[end:]


def _last_line_end(data: bytes, quoted: bool) -> int:
    """Return the end of the last complete line; 0 if there is none."""
    at = len(data)
    odd = quoted and data.count(b'"') % 2 == 1
    while (at := data.rfind(b"\n", 0, at)) >= 0:
        if not quoted or (data.count(b'"', at + 1) % 2 == 1) == odd:
            return at + 1
    return 0


def _check_utf8(data: bytes, path: str, line: int) -> None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        at = line + data[: error.start].count(b"\n")
        what = f"not UTF-8 text (byte 0x{data[error.start]:02x})"
        raise InputError.one(
            f"{path}:{at}", what, "set its encoding: read: {encoding: latin-1}"
        ) from None


def _separator(file_format: str, read: ReadSpec) -> str:
    return read.separator or ("\t" if file_format == "tsv" else ",")


def _infer_schema(chunk: Chunk, file_format: str, read: ReadSpec) -> pl.Schema:
    """Return the columns and types of the first chunk."""
    try:
        if file_format == "text":
            return TEXTS
        if file_format == "jsonl":
            return pl.read_ndjson(io.BytesIO(chunk.data), infer_schema_length=_SAMPLE_ROWS).schema
        return pl.read_csv(
            chunk.header + chunk.data,
            separator=_separator(file_format, read),
            has_header=read.header,
            infer_schema_length=_SAMPLE_ROWS,
            null_values=list(read.nulls),
            truncate_ragged_lines=True,
            try_parse_dates=True,
            ignore_errors=True,
        ).schema
    except pl.exceptions.PolarsError as error:
        if file_format == "jsonl":
            return _infer_json_schema(chunk, error)
        raise InputError.one(
            chunk.file, f"cannot be read: {str(error).splitlines()[0]}", "fix the file"
        ) from None


def _infer_json_schema(chunk: Chunk, error: Exception) -> pl.Schema:
    """Return the types of the lines that are JSON objects."""
    lines = chunk.data.splitlines()[:_SAMPLE_ROWS]
    rows = [row for line in lines if isinstance(row := _parse_json(line), dict)]
    if not rows:
        raise InputError.one(
            chunk.file, f"holds no JSON object: {error}", "write one object per line"
        ) from None
    try:
        return pl.DataFrame(rows, infer_schema_length=None, strict=False).schema
    except _PARSE_ERRORS as problem:
        what = f"cannot be read: {str(problem).splitlines()[0][:200]}"
        raise InputError.one(chunk.file, what, "use integers of at most 64 bits") from None


def _parse_json(text: bytes) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


# Chunks are parsed by Polars where every line fits the types, otherwise line by line.
def _csv_rows(chunk: Chunk, schema: pl.Schema, read: ReadSpec, file_format: str = "csv") -> Parsed:
    separator = _separator(file_format, read)
    try:
        frame = pl.read_csv(
            chunk.header + chunk.data,
            separator=separator,
            has_header=read.header,
            schema=schema,
            null_values=list(read.nulls),
        )
        return Parsed(frame=frame, bad=_bad_rows([], chunk))
    except pl.exceptions.PolarsError:
        rows = csv.reader(io.StringIO(chunk.data.decode()), delimiter=separator)
        return _typed_rows([row for row in rows if row], chunk, schema, set(read.nulls))


def _tsv_rows(chunk: Chunk, schema: pl.Schema, read: ReadSpec) -> Parsed:
    return _csv_rows(chunk, schema, read, "tsv")


def _typed_rows(rows: list[list[str]], chunk: Chunk, schema: pl.Schema, nulls: set[str]) -> Parsed:
    """Return the rows whose fields fit the types, and the others with the reason."""
    width = len(schema)
    bad = [
        (f"{len(row)} fields instead of {width}", ",".join(row))
        for row in rows
        if len(row) != width
    ]
    complete = [row for row in rows if len(row) == width]
    columns = {
        name: [None if row[at] in nulls else row[at] for row in complete]
        for at, name in enumerate(schema)
    }
    texts = pl.DataFrame(columns, schema=dict.fromkeys(schema, pl.String()))
    frame = texts.select(_typed_column(name, dtype) for name, dtype in schema.items())
    # A dict, because a list of columns would rename one without a name.
    misfits = pl.DataFrame(
        {name: texts[name].is_not_null() & frame[name].is_null() for name in schema}
    )
    good = pl.Series([], dtype=pl.Boolean)
    if schema:
        good = misfits.select(pl.any_horizontal(pl.all()).not_()).to_series()
    for at in good.not_().arg_true():
        name = next(column for column in schema if misfits[column][at])
        reason = f'{name}: "{str(texts[name][at])[:60]}" is not {schema[name]}'
        bad.append((reason, ",".join(complete[at])))
    return Parsed(frame=frame.filter(good), bad=_bad_rows(bad, chunk))


def _typed_column(name: str, dtype: pl.DataType) -> pl.Expr:
    """Return a text column in its type, null where a text does not fit."""
    column = pl.col(name)
    if dtype == pl.Boolean:
        word = column.str.to_lowercase()
        return pl.when(word == "true").then(True).when(word == "false").then(False).alias(name)
    if isinstance(dtype, pl.Datetime):
        return column.str.to_datetime(
            time_unit=dtype.time_unit, time_zone=dtype.time_zone, strict=False
        )
    if dtype == pl.Date:
        return column.str.to_date(strict=False)
    return column.cast(dtype, strict=False)


def _json_rows(chunk: Chunk, schema: pl.Schema, read: ReadSpec) -> Parsed:  # noqa: ARG001
    rows: list[dict[str, object]] = []
    lines: list[str] = []
    bad: list[tuple[str, str]] = []
    for line in chunk.data.splitlines():
        if not line.strip():
            continue
        row = _parse_json(line)
        if not isinstance(row, dict):
            bad.append(("not a JSON object", line.decode()))
        elif unknown := sorted(set(row) - set(schema)):
            bad.append((f"unknown key {unknown[0]}", line.decode()))
        else:
            rows.append(row)
            lines.append(line.decode())
    try:
        frame = pl.DataFrame(rows, schema=schema, strict=True)
    except _PARSE_ERRORS:
        reasons = [_json_misfit(row, schema) for row in rows]
        bad += [(reason, line) for reason, line in zip(reasons, lines, strict=True) if reason]
        good = [row for row, reason in zip(rows, reasons, strict=True) if not reason]
        frame = pl.DataFrame(good, schema=schema, strict=False)
    return Parsed(frame=frame, bad=_bad_rows(bad, chunk))


def _json_misfit(row: dict[str, object], schema: pl.Schema) -> str:
    """Return why a JSON object does not fit the types; empty if it does."""
    try:
        pl.DataFrame([row], schema=schema, strict=True)
        return ""
    except _PARSE_ERRORS:
        for name, value in row.items():
            try:
                pl.Series([value], dtype=schema[name], strict=True)
            except _PARSE_ERRORS:
                return f'{name}: "{str(value)[:60]}" is not {schema[name]}'
        return "does not fit the columns"


def _text_rows(chunk: Chunk, schema: pl.Schema, read: ReadSpec) -> Parsed:  # noqa: ARG001
    texts = [line for line in chunk.data.decode().splitlines() if line.strip()]
    frame = pl.DataFrame({"path": [chunk.file] * len(texts), "text": texts}, schema=schema)
    return Parsed(frame=frame, bad=_bad_rows([], chunk))


def _bad_rows(rows: list[tuple[str, str]], chunk: Chunk) -> pl.DataFrame:
    columns = {
        "file": [chunk.file] * len(rows),
        "reason": [reason for reason, _ in rows],
        "raw": [raw for _, raw in rows],
    }
    return pl.DataFrame(columns, schema=QUARANTINE)


_PARSERS: dict[str, Callable[[Chunk, pl.Schema, ReadSpec], Parsed]] = {
    "csv": _csv_rows,
    "tsv": _tsv_rows,
    "jsonl": _json_rows,
    "text": _text_rows,
}
