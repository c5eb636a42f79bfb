"""Files of a source: a file, folder, glob or object-store address; and their fingerprints."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import fsspec
import pyarrow as pa

from gpuyard.datasets.source.huggingface import ARROW_STREAM, saved_dataset
from gpuyard.datasets.spec import ReadSpec
from gpuyard.errors import ExternalError, InputError, choices_text

_FORMATS = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl",
    ".ndjson": "jsonl", ".json": "jsonl", ".arrow": "arrow", ".ipc": "arrow", ".feather": "arrow",
    ".txt": "text", ".md": "text", ".png": "images", ".jpg": "images", ".jpeg": "images",
    ".bmp": "images", ".gif": "images",
}  # fmt: skip
_COMPRESSION = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
CLOUD = ("s3://", "gs://", "gcs://", "az://", "abfs://", "abfss://")  # Polars reads these itself
_FULL_HASH_BYTES = 64 << 20  # a file up to this size is hashed in full
_BLOCK_BYTES = 1 << 20
_METADATA = ("size", "ETag", "etag", "mtime", "generation", "LastModified")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFiles:
    """Files of a source, sorted, all of one format."""

    paths: tuple[str, ...]
    format: str


def find_files(source: str, read: ReadSpec, base: Path) -> SourceFiles:
    """Return the files of a source; raise InputError if there are none or several formats."""
    saved = None if "://" in source else saved_dataset(_path_in(source, base), source)
    if saved is not None:
        return SourceFiles(paths=tuple(saved), format=ARROW_STREAM)
    paths = _remote(source) if "://" in source else _local(source, base)
    if read.format != "auto":
        return SourceFiles(paths=tuple(paths), format=read.format)
    formats = {path: name for path in paths if (name := _format(path))}
    if not formats:
        if not paths:
            fix = "put data files there, or name another path"
            raise InputError.one(source, "is a folder without files", fix)
        suffixes = choices_text(sorted(set(_FORMATS)), limit=20)
        fix = f"use {suffixes}, or set read.format"
        raise InputError.one(source, "holds no file of a known format", fix)
    kinds = sorted(set(formats.values()))
    if len(kinds) > 1:
        first = Path(next(iter(formats)))
        suffix = "".join(first.suffixes[-2 if first.suffix in _COMPRESSION else -1 :])
        fix = f'select one format with a glob, such as "{source.rstrip("/")}/**/*{suffix}"'
        raise InputError.one(source, f"holds files of several formats: {', '.join(kinds)}", fix)
    return SourceFiles(paths=tuple(formats), format=kinds[0])


def _format(path: str) -> str:
    name = Path(path.rsplit("?", 1)[0])
    if name.suffix in _COMPRESSION:
        name = name.with_suffix("")
    return _FORMATS.get(name.suffix.lower(), "")


def _path_in(source: str, base: Path) -> Path:
    path = Path(source).expanduser()
    return path if path.is_absolute() else base / path


def _local(source: str, base: Path) -> list[str]:
    path = _path_in(source, base)
    if path.is_file():
        return [str(path)]
    if path.is_dir():
        inside = (file for file in path.rglob("*") if file.is_file())
        return sorted(str(file) for file in inside if not _is_hidden(file.relative_to(path)))
    if glob.has_magic(str(path)):
        matches = glob.glob(str(path), recursive=True)
        files = sorted(match for match in matches if Path(match).is_file())
        if files:
            return files
        raise InputError.one(source, "no file matches", "check the pattern")
    raise InputError.one(source, "no such file or folder", "check the path")


def _is_hidden(path: Path) -> bool:
    """Return whether a file or one of its folders starts with a dot or underscore."""
    return any(part.startswith((".", "_")) for part in path.parts)


def _remote(source: str) -> list[str]:
    """Return files of an object store or of another file system that fsspec supports."""
    try:
        system, path = fsspec.core.url_to_fs(source)
        scheme = source.split("://", 1)[0]
        if glob.has_magic(path):
            names = system.glob(path)
        elif system.isdir(path):
            names = system.find(path)
        else:
            names = [path] if system.exists(path) else []
    except ImportError as error:
        raise ExternalError(
            source, f"no reader is installed: {error}", "pip install gcsfs or s3fs"
        ) from None
    except ValueError as error:
        raise InputError.one(source, str(error), "use a path, gs://, s3:// or file://") from None
    except Exception as error:  # every file system raises its own
        raise ExternalError(
            source, f"cannot be listed: {error}", "check the address and your credentials"
        ) from error
    if not names:
        raise InputError.one(source, "no such file or folder", "check the address")
    return sorted(f"{scheme}://{str(name).removeprefix(f'{scheme}://')}" for name in names)


@contextmanager
def open_bytes(path: str) -> Iterator[IO[bytes]]:
    """Open a file, decompressed by its suffix; raise InputError where it is corrupt."""
    compression = _COMPRESSION.get(Path(path).suffix)
    try:
        with fsspec.open(path, "rb") as raw:
            if compression is None:
                yield raw
            else:
                with pa.CompressedInputStream(raw, compression) as stream:
                    yield stream
    except FileNotFoundError:
        raise InputError.one(path, "no such file", "check the path") from None
    except (EOFError, pa.ArrowInvalid) as error:
        raise InputError.one(path, f"is corrupt: {error}", "download the file again") from None
    except OSError as error:
        if compression and "compress" in str(error).lower():
            raise InputError.one(path, f"is corrupt: {error}", "download the file again") from None
        raise ExternalError(path, error.strerror or str(error), "make the file readable") from None


def fingerprint(path: str) -> tuple[int, str]:
    """Return size and hash of a file: of all of it up to 64 MiB, beyond that of 66 blocks.

    The blocks are the first and the last MiB (in a Parquet file the statistics of every column) and
    64 in between. A remote file is identified by its metadata.
    """
    if "://" in path and not path.startswith("file://"):
        system, name = fsspec.core.url_to_fs(path)
        info = system.info(name)
        metadata = {key: str(info.get(key)) for key in _METADATA}
        digest = hashlib.sha256(repr(sorted(metadata.items())).encode())
        return int(info.get("size") or 0), digest.hexdigest()
    file = Path(path.removeprefix("file://"))
    size_bytes = file.stat().st_size
    digest = hashlib.sha256(str(size_bytes).encode())
    with file.open("rb") as stream:
        if size_bytes <= _FULL_HASH_BYTES:
            digest.update(stream.read())
        else:
            ends = (0, size_bytes - _BLOCK_BYTES)
            for at in (0, *(size_bytes * place // 65 for place in range(1, 65)), ends[1]):
                stream.seek(at)
                digest.update(stream.read(_BLOCK_BYTES if at in ends else 1 << 16))
    return size_bytes, digest.hexdigest()
