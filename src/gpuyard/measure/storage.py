"""Storage of a folder: one large file written through to the disk, and read back past the cache where that can be."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from gpuyard.errors import RefusedError
from gpuyard.perf.local import Rate

__all__ = ["storage_rates"]

SIZE_BYTES = 256 * 1024 * 1024
BLOCK_BYTES = 4 * 1024 * 1024
ROUNDS = 3


def storage_rates(folder: Path) -> Iterator[Rate]:
    """Sequential writing and reading under `folder`; RefusedError when there is no room."""
    try:
        with tempfile.TemporaryDirectory(prefix="gpuyard-storage-", dir=folder) as scratch:
            pairs = [_round(Path(scratch) / "block") for _ in range(ROUNDS)]
    except OSError as error:
        fix = "name a folder with 256 MiB free"
        raise RefusedError(str(folder), f"cannot be measured: {error.strerror}", fix) from error
    for kind, times in (("storage-write", [pair[0] for pair in pairs]), ("storage-read", [pair[1] for pair in pairs])):
        middle = sorted(times)[ROUNDS // 2]
        yield Rate(
            kind="storage-write" if kind == "storage-write" else "storage-read", by="file system",
            size=float(SIZE_BYTES), value=SIZE_BYTES / middle, spread_ratio=(max(times) - min(times)) / middle,
        )  # fmt: skip


def _round(path: Path) -> tuple[float, float]:
    """Seconds to write the file and make it last, and to read it after the cache let go of it."""
    block = os.urandom(BLOCK_BYTES)
    start_s = time.perf_counter()
    with path.open("wb") as file:
        for _ in range(SIZE_BYTES // BLOCK_BYTES):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    written_s = time.perf_counter() - start_s
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        start_s = time.perf_counter()
        while os.read(descriptor, BLOCK_BYTES):
            pass
        read_s = time.perf_counter() - start_s
    finally:
        os.close(descriptor)
    path.unlink()
    return written_s, read_s
