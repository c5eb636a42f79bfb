"""Formats that cannot be read from the middle, turned once into Parquet, chunk by chunk in bounded memory.

What does not fit (a line with too many fields, a text in a column of numbers, a line that is not JSON)
is quarantined with the reason, and counted.
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

from gpuyard.datasets.source.files import Found, open_bytes
from gpuyard.datasets.source.whole import TEXTS, row_files
from gpuyard.datasets.spec import ReadSpec
from gpuyard.errors import InputError, RefusedError

__all__ = ["Staged", "stage", "write_staged"]

CHUNK_BYTES = 32 << 20
_SAMPLE_ROWS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The Parquet files that a source became, and the rows put apart on the way."""

    paths: tuple[str, ...]
    rows: int
    quarantined: int
    quarantine: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of a file that ends with a line, and the number of its first line."""

    file: str
    line: int
    data: bytes
    header: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """The good rows of a chunk, and the others with the reason."""

    frame: pl.DataFrame
    bad: pl.DataFrame


def stage(
    found: Found, read: ReadSpec, folder: Path, chunk_bytes: int = CHUNK_BYTES, pinned: pl.Schema | None = None
) -> Staged:
    """Writes the source as Parquet files into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    paths, apart, rows, bad = [], [], 0, 0
    for number, parsed in enumerate(_parsed(found, read, chunk_bytes, pinned)):
        path = folder / f"part-{number:06d}.parquet"
        write_staged(parsed.frame, path)
        paths.append(str(path))
        rows += parsed.frame.height
        if parsed.bad.height:
            path = folder / f"quarantine-{number:06d}.parquet"
            write_staged(parsed.bad, path)
            apart.append(str(path))
            bad += parsed.bad.height
    return Staged(paths=tuple(paths), rows=rows, quarantined=bad, quarantine=tuple(apart))


def _parsed(found: Found, read: ReadSpec, chunk_bytes: int, schema: pl.Schema | None) -> Iterator[Parsed]:
    """The rows of the source, piece by piece."""
    if found.format == "images" or (found.format == "text" and not read.lines):
        for frame, apart in row_files(found, read, chunk_bytes):
            yield Parsed(frame=frame, bad=apart)
        return
    for chunk in _chunks(found, read, chunk_bytes):
        if schema is None:
            schema = _infer(chunk, found.format, read)
        yield _PARSERS[found.format](chunk, schema, read)


def write_staged(frame: pl.DataFrame, path: Path) -> None:
    """Writes a staged file; a full disk is a RefusedError."""
    try:
        frame.write_parquet(path, compression="lz4")
    except (OSError, pl.exceptions.PolarsError) as error:
        what = f"cannot be written: {str(error).splitlines()[0]}"
        raise RefusedError(str(path), what, "free disk space, or name another folder") from None


def _chunks(found: Found, read: ReadSpec, chunk_bytes: int) -> Iterator[Chunk]:
    """The pieces of all files."""
    for path in found.paths:
        yield from _lines(path, found.format in ("csv", "tsv"), read, chunk_bytes)


def _lines(path: str, quoted: bool, read: ReadSpec, chunk_bytes: int) -> Iterator[Chunk]:
    """The pieces of one file, each ending with a whole line; a line break between quotes ends none."""
    header, rest, line = b"", b"", 1
    decoder = codecs.getincrementaldecoder(read.encoding)() if read.encoding != "utf-8" else None
    with open_bytes(path) as stream:
        while True:
            block = stream.read(chunk_bytes)
            last = not block
            if decoder is not None:
                block = decoder.decode(block, final=last).encode()
            data = rest + block
            end = len(data) if last else _end(data, quoted)
            piece, rest = data[:end], data[end:]
            if quoted and read.header and not header and piece:
                first = _end(piece[: piece.find(b"\n") + 1], quoted) or piece.find(b"\n") + 1 or len(piece)
                header, piece = piece[:first].removeprefix(codecs.BOM_UTF8), piece[first:]
                line += 1
                if not header.endswith(b"\n"):
                    header += b"\n"
            if piece.strip() or (last and header and line == 2 and not piece):
                yield Chunk(file=path, line=line, data=_utf8(piece, path, line, read), header=header)
            line += piece.count(b"\n")
            if last:
                return


def _end(data: bytes, quoted: bool) -> int:
    """Where the last whole line ends; 0 if none does."""
    at = len(data)
    odd = quoted and data.count(b'"') % 2 == 1
    while (at := data.rfind(b"\n", 0, at)) >= 0:
        if not quoted or (data.count(b'"', at + 1) % 2 == 1) == odd:
            return at + 1
    return 0


def _utf8(data: bytes, path: str, line: int, read: ReadSpec) -> bytes:
    """The bytes, if they are text."""
    try:
        text = data.decode("utf-8") if read.encoding == "utf-8" or not read.lines else ""
    except UnicodeDecodeError as error:
        at = line + data[: error.start].count(b"\n")
        what = f"not UTF-8 text (byte 0x{data[error.start]:02x})"
        raise InputError.one(f"{path}:{at}", what, "name its encoding: read: {encoding: latin-1}") from None
    del text
    return data


def _separator(form: str, read: ReadSpec) -> str:
    """Between the fields of a line."""
    return read.separator or ("\t" if form == "tsv" else ",")


def _infer(chunk: Chunk, form: str, read: ReadSpec) -> pl.Schema:
    """The columns and types of the first piece."""
    try:
        if form == "text":
            return TEXTS
        if form == "jsonl":
            return pl.read_ndjson(io.BytesIO(chunk.data), infer_schema_length=_SAMPLE_ROWS).schema
        frame = pl.read_csv(
            chunk.header + chunk.data, separator=_separator(form, read), has_header=read.header,
            infer_schema_length=_SAMPLE_ROWS, null_values=list(read.nulls), truncate_ragged_lines=True,
            try_parse_dates=True, ignore_errors=True,
        )  # fmt: skip
        return frame.schema
    except pl.exceptions.PolarsError as error:
        if form == "jsonl":
            return _infer_json(chunk, error)
        raise InputError.one(chunk.file, f"cannot be read: {str(error).splitlines()[0]}", "mend the file") from None


def _infer_json(chunk: Chunk, error: Exception) -> pl.Schema:
    """The types of those lines that are JSON objects."""
    rows = [row for text in chunk.data.splitlines()[:_SAMPLE_ROWS] if isinstance(row := _object(text), dict)]
    if not rows:
        raise InputError.one(chunk.file, f"holds no JSON object: {error}", "write one object a line") from None
    return pl.DataFrame(rows, infer_schema_length=None, strict=False).schema


def _object(text: bytes) -> object:
    """What a line of JSON says; None if it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def _parse_csv(chunk: Chunk, schema: pl.Schema, read: ReadSpec, form: str = "csv") -> Parsed:
    """A piece of CSV: fast where every line fits the types, else line by line."""
    try:
        frame = pl.read_csv(
            chunk.header + chunk.data, separator=_separator(form, read), has_header=read.header, schema=schema,
            null_values=list(read.nulls),
        )  # fmt: skip
        return Parsed(frame=frame, bad=_NONE)
    except pl.exceptions.PolarsError:
        rows = csv.reader(io.StringIO(chunk.data.decode()), delimiter=_separator(form, read))
        return _fitted([(row, ",".join(row)) for row in rows if row], chunk, schema, set(read.nulls))


def _parse_tsv(chunk: Chunk, schema: pl.Schema, read: ReadSpec) -> Parsed:
    """A piece of TSV."""
    return _parse_csv(chunk, schema, read, "tsv")


def _fitted(lines: list[tuple[list[str], str]], chunk: Chunk, schema: pl.Schema, nulls: set[str]) -> Parsed:
    """Lines whose fields fit, and the others with the reason."""
    width = len(schema)
    whole = [(fields, raw) for fields, raw in lines if len(fields) == width]
    bad = [(f"{len(fields)} fields instead of {width}", raw) for fields, raw in lines if len(fields) != width]
    columns = {
        name: [None if fields[at] in nulls else fields[at] for fields, _ in whole] for at, name in enumerate(schema)
    }
    texts = pl.DataFrame(columns, schema=dict.fromkeys(schema, pl.String()))
    return _cast(texts, [raw for _, raw in whole], bad, chunk, schema)


def _cast(texts: pl.DataFrame, raws: list[str], bad: list[tuple[str, str]], chunk: Chunk, schema: pl.Schema) -> Parsed:
    """The columns in their types; a row with a value that does not fit is put apart."""
    frame = texts.select(_typed(name, dtype) for name, dtype in schema.items())
    wrong = [(texts[name].is_not_null() & frame[name].is_null()).alias(name) for name in schema]
    flags = pl.DataFrame(wrong)
    good = flags.select(pl.any_horizontal(pl.all()).not_()).to_series() if schema else pl.Series([], dtype=pl.Boolean)
    for row in good.not_().arg_true():
        name = next(column for column in schema if flags[column][row])
        bad.append((f'{name}: "{str(texts[name][row])[:60]}" is not {schema[name]}', raws[row]))
    return Parsed(frame=frame.filter(good), bad=_bad(bad, chunk))


def _typed(name: str, dtype: pl.DataType) -> pl.Expr:
    """A column of texts in its type, null where one does not fit."""
    column = pl.col(name)
    if dtype == pl.Boolean:
        word = column.str.to_lowercase()
        return pl.when(word == "true").then(True).when(word == "false").then(False).alias(name)
    if isinstance(dtype, pl.Datetime):
        return column.str.to_datetime(time_unit=dtype.time_unit, time_zone=dtype.time_zone, strict=False)
    return column.str.to_date(strict=False) if dtype == pl.Date else column.cast(dtype, strict=False)


def _parse_json(chunk: Chunk, schema: pl.Schema, read: ReadSpec) -> Parsed:  # noqa: ARG001
    """A piece of JSON lines: fast where every line fits the types, else line by line."""
    lines = [line for line in chunk.data.splitlines() if line.strip()]
    objects = [_object(line) for line in lines]
    good = [(row, line) for row, line in zip(objects, lines, strict=True) if isinstance(row, dict)]
    bad = [
        ("not a JSON object", line.decode())
        for row, line in zip(objects, lines, strict=True)
        if not isinstance(row, dict)
    ]
    extra = [sorted(set(row) - set(schema)) for row, _ in good]
    bad += [(f"unknown key {keys[0]}", line.decode()) for (_, line), keys in zip(good, extra, strict=True) if keys]
    kept = [pair for pair, keys in zip(good, extra, strict=True) if not keys]
    try:
        frame = pl.DataFrame([row for row, _ in kept], schema=schema, strict=True)
        return Parsed(frame=frame, bad=_bad(bad, chunk))
    except (pl.exceptions.PolarsError, TypeError):
        fits = [(row, line, _misfit(row, schema)) for row, line in kept]
        bad += [(reason, line.decode()) for _, line, reason in fits if reason]
        frame = pl.DataFrame([row for row, _, reason in fits if not reason], schema=schema, strict=False)
        return Parsed(frame=frame, bad=_bad(bad, chunk))


def _misfit(row: dict[str, object], schema: pl.Schema) -> str:
    """Why a JSON object does not fit the types; empty if it does."""
    try:
        pl.DataFrame([row], schema=schema, strict=True)
        return ""
    except (pl.exceptions.PolarsError, TypeError):
        for name, value in row.items():
            try:
                pl.Series([value], dtype=schema[name], strict=True)
            except (pl.exceptions.PolarsError, TypeError):
                return f'{name}: "{str(value)[:60]}" is not {schema[name]}'
        return "does not fit the columns"


def _parse_text(chunk: Chunk, schema: pl.Schema, read: ReadSpec) -> Parsed:  # noqa: ARG001
    """Texts: a document a line."""
    texts = [line for line in chunk.data.decode().splitlines() if line.strip()]
    frame = pl.DataFrame({"path": [chunk.file] * len(texts), "text": texts}, schema=schema)
    return Parsed(frame=frame, bad=_NONE)


_NONE = pl.DataFrame(schema={"file": pl.String, "reason": pl.String, "raw": pl.String})


def _bad(rows: list[tuple[str, str]], chunk: Chunk) -> pl.DataFrame:
    """Rows for the quarantine."""
    columns = {
        "file": [chunk.file] * len(rows), "reason": [reason for reason, _ in rows], "raw": [raw for _, raw in rows]
    }  # fmt: skip
    return pl.DataFrame(columns, schema=_NONE.schema)


_PARSERS: dict[str, Callable[[Chunk, pl.Schema, ReadSpec], Parsed]] = {
    "csv": _parse_csv,
    "tsv": _parse_tsv,
    "jsonl": _parse_json,
    "text": _parse_text,
}
