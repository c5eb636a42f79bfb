"""Sequential disk throughput under a folder: one large file, fsynced, read back uncached."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from gpuyard.errors import ExternalError
from gpuyard.perf.local.profile import Rate

SIZE_BYTES = 256 * 1024 * 1024
BLOCK_BYTES = 4 * 1024 * 1024
ROUNDS = 3


def storage_rates(folder: Path) -> Iterator[Rate]:
    """Yield sequential write and read throughput; raise ExternalError if it cannot write there."""
    try:
        with tempfile.TemporaryDirectory(prefix="gpuyard-storage-", dir=folder) as scratch:
            pairs = [_write_and_read(Path(scratch) / "block") for _ in range(ROUNDS)]
    except OSError as error:
        fix = "choose a folder with 256 MiB free"
        raise ExternalError(str(folder), f"cannot be measured: {error.strerror}", fix) from error
    written_s, read_s = zip(*pairs, strict=True)
    yield _rate("storage-write", written_s)
    yield _rate("storage-read", read_s)


def _rate(kind: Literal["storage-write", "storage-read"], times_s: Sequence[float]) -> Rate:
    median_s = statistics.median(times_s)
    return Rate(
        kind=kind,
        by="file system",
        size=float(SIZE_BYTES),
        value=SIZE_BYTES / median_s,
        spread_ratio=(max(times_s) - min(times_s)) / median_s,
    )


def _write_and_read(path: Path) -> tuple[float, float]:
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
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)  # drop it from the page cache
        start_s = time.perf_counter()
        while os.read(descriptor, BLOCK_BYTES):
            pass
        read_s = time.perf_counter() - start_s
    finally:
        os.close(descriptor)
    path.unlink()
    return written_s, read_s
