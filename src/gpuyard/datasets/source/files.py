"""Finding the files of a source: a file, a folder, a glob, an address of an object store; and their fingerprints."""

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

from gpuyard.datasets.spec import ReadSpec
from gpuyard.errors import InputError, RefusedError, one_of

__all__ = ["Found", "find_files", "fingerprint", "open_bytes"]

_FORMATS = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".json": "jsonl", ".arrow": "arrow", ".ipc": "arrow", ".feather": "arrow", ".txt": "text", ".md": "text",
    ".png": "images", ".jpg": "images", ".jpeg": "images", ".bmp": "images", ".gif": "images",
}  # fmt: skip
_PACKED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
CLOUD = ("s3://", "gs://", "gcs://", "az://", "abfs://", "abfss://")  # Polars reads these itself
_WHOLE = 64 << 20  # a file up to this size is hashed in full
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The files of a source, sorted, all of one format."""

    paths: tuple[str, ...]
    format: str


def find_files(source: str, read: ReadSpec, base: Path) -> Found:
    """The files that a source means; InputError where there are none or they are of several formats."""
    paths = _remote(source) if "://" in source else _local(source, base)
    formats = {path: _format(path) for path in paths}
    if read.format != "auto":
        wanted = "csv" if read.format == "tsv" else read.format
        return Found(paths=tuple(paths), format=wanted if read.format != "tsv" else "tsv")
    known = [path for path in paths if formats[path]]
    if not known:
        what = "holds no file of a known format" if paths else "is a folder without files"
        fix = f"use {one_of(sorted(set(_FORMATS)), limit=20)}, or name it under read.format"
        raise InputError.one(source, what, fix if paths else "put data files there, or name another path")
    kinds = sorted({formats[path] for path in known})
    if len(kinds) > 1:
        suffix = "".join(Path(known[0]).suffixes[-2 if Path(known[0]).suffix in _PACKED else -1 :])
        fix = f'name those of one format by a glob, such as "{source.rstrip("/")}/**/*{suffix}"'
        raise InputError.one(source, f"holds files of several formats: {', '.join(kinds)}", fix)
    return Found(paths=tuple(known), format=kinds[0])


def _format(path: str) -> str:
    """The format that a name tells; empty if it tells none."""
    name = Path(path.rsplit("?", 1)[0])
    if name.suffix in _PACKED:
        name = name.with_suffix("")
    return _FORMATS.get(name.suffix.lower(), "")


def _local(source: str, base: Path) -> list[str]:
    """Files on this machine."""
    path = Path(source).expanduser()
    path = path if path.is_absolute() else base / path
    if path.is_file():
        return [str(path)]
    if path.is_dir():
        inside = (one for one in path.rglob("*") if one.is_file())
        return sorted(str(one) for one in inside if not _hidden(one.relative_to(path)))
    if glob.has_magic(str(path)):
        found = sorted(one for one in glob.glob(str(path), recursive=True) if Path(one).is_file())
        if found:
            return found
        raise InputError.one(source, "no file matches", "check the pattern")
    raise InputError.one(source, "no such file or folder", "check the path")


def _hidden(path: Path) -> bool:
    """Whether a file or one of its folders starts with a dot or an underscore, as working files do."""
    return any(part.startswith((".", "_")) for part in path.parts)


def _remote(source: str) -> list[str]:
    """Files of an object store or of another file system that fsspec knows."""
    try:
        system, path = fsspec.core.url_to_fs(source)
        scheme = source.split("://", 1)[0]
        if glob.has_magic(path):
            names = system.glob(path)
        else:
            names = system.find(path) if system.isdir(path) else [path] if system.exists(path) else []
    except ImportError as error:
        raise RefusedError(source, f"no reader is installed: {error}", "pip install gcsfs or s3fs") from None
    except ValueError as error:
        raise InputError.one(source, str(error), "use a path, gs://, s3:// or file://") from None
    except Exception as error:  # every file system raises its own
        raise RefusedError(source, f"cannot be listed: {error}", "check the address and your credentials") from error
    if not names:
        raise InputError.one(source, "no such file or folder", "check the address")
    return sorted(f"{scheme}://{str(name).removeprefix(f'{scheme}://')}" for name in names)


@contextmanager
def open_bytes(path: str) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked by its suffix; InputError where it is corrupt."""
    packed = _PACKED.get(Path(path).suffix)
    try:
        with fsspec.open(path, "rb") as raw:
            if packed is None:
                yield raw
            else:
                with pa.CompressedInputStream(raw, packed) as stream:
                    yield stream
    except FileNotFoundError:
        raise InputError.one(path, "no such file", "check the path") from None
    except (EOFError, pa.ArrowInvalid) as error:
        raise InputError.one(path, f"is corrupt: {error}", "fetch the file again") from None
    except OSError as error:
        if packed and "compress" in str(error).lower():
            raise InputError.one(path, f"is corrupt: {error}", "fetch the file again") from None
        raise RefusedError(path, error.strerror or str(error), "make the file readable") from None


def fingerprint(path: str) -> tuple[int, str]:
    """A file's size and a hash: of all of it up to 64 MiB, beyond that of its size and 66 blocks of it.

    The blocks are the first and the last MiB (in a Parquet file the statistics of every column) and 64 between.
    """
    if "://" in path and not path.startswith("file://"):
        system, name = fsspec.core.url_to_fs(path)
        facts = system.info(name)
        told = {key: str(facts.get(key)) for key in ("size", "ETag", "etag", "mtime", "generation", "LastModified")}
        return int(facts.get("size") or 0), hashlib.sha256(repr(sorted(told.items())).encode()).hexdigest()
    file = Path(path.removeprefix("file://"))
    size = file.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with file.open("rb") as stream:
        if size <= _WHOLE:
            digest.update(stream.read())
        else:
            for at in (0, *(size * place // 65 for place in range(1, 65)), size - _BLOCK):
                stream.seek(at)
                digest.update(stream.read(_BLOCK if at in (0, size - _BLOCK) else 1 << 16))
    return size, digest.hexdigest()
