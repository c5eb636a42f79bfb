"""Digests of prepared files, checked before they are used: damaged data is never trained on.

A file is hashed once per process, and again if its size, time or inode changes.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gpuyard.datasets.manifest import Shard
from gpuyard.errors import ExternalError, InputError, Problem

FIX = "prepare it again with `gpuyard data run`, or start a new run: damaged files are replaced"
CHANGED = "has changed since it was prepared: SHA-256 mismatch"
THREADS = 4  # hashing releases the GIL; more threads only wait for the disk
_State = tuple[str, int, int, int, str]
_checked: set[_State] = set()
_lock = threading.Lock()


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def damaged_files(folder: Path, shards: Iterable[Shard]) -> list[Problem]:
    """Return a problem for every file that is missing or not as it was recorded."""
    recorded = [shard for shard in shards if shard.sha256]
    if len(recorded) < 2:
        problems = [_damage(folder, shard) for shard in recorded]
    else:
        with ThreadPoolExecutor(min(THREADS, len(recorded))) as pool:
            problems = list(pool.map(lambda shard: _damage(folder, shard), recorded))
    return [problem for problem in problems if problem is not None]


def check_files(folder: Path, shards: Iterable[Shard]) -> None:
    """Raise InputError for every file that is missing or not as it was recorded."""
    problems = damaged_files(folder, shards)
    if problems:
        raise InputError(problems)


def _damage(folder: Path, shard: Shard) -> Problem | None:
    path = folder / shard.path
    try:
        facts = path.stat()
        state = (str(path), facts.st_size, facts.st_mtime_ns, facts.st_ino, shard.sha256)
        with _lock:
            if state in _checked:
                return None
        if facts.st_size != shard.size_bytes or digest_of_file(path) != shard.sha256:
            return Problem(where=str(path), what=CHANGED, fix=FIX)
    except FileNotFoundError:
        return Problem(where=str(path), what="is missing", fix=FIX)
    except OSError as error:
        raise ExternalError(
            str(path), f"cannot be read: {error.strerror}", "check the disk"
        ) from error
    with _lock:
        _checked.add(state)
    return None
