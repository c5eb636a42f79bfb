"""Folders of model versions: copied next to the versions, renamed into place, leftovers removed."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

from gpuyard.errors import ExternalError
from gpuyard.units import DAY_S

INCOMING = ".incoming"  # in home.models: copies that are not yet, or no longer, versions
STALE_S = DAY_S  # a copy made by another host is abandoned when it is older than this


@contextlib.contextmanager
def copied(source: Path, models: Path) -> Iterator[Path]:
    """Yield a copy of the folder; it is removed at the end unless it was renamed into place."""
    copy = models / INCOMING / _unique_name()
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, copy, symlinks=False)
        sync_tree(copy)
        yield copy
    except (OSError, shutil.Error) as error:
        raise ExternalError(
            str(models), f"cannot be written: {error}", "free disk space, or choose another --home"
        ) from error
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def remove_folder(folder: Path, models: Path) -> None:
    """Delete a folder atomically: rename it first, so that `abandoned` finds it after a kill."""
    moved = models / INCOMING / _unique_name()
    moved.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(folder, moved)
    except FileNotFoundError:
        return
    shutil.rmtree(moved, ignore_errors=True)


def abandoned(models: Path, now_s: float) -> Iterator[Path]:
    """Yield copies whose process is gone."""
    this_host = socket.gethostname()
    for path in sorted((models / INCOMING).glob("*")):
        host, _, pid = path.name.rpartition("~")[0].rpartition("~")
        if host == this_host and pid.isdigit():
            if not _is_running(int(pid)):
                yield path
        elif now_s - path.stat().st_mtime > STALE_S:
            yield path


def sync_tree(folder: Path) -> None:
    """Fsync every file and folder, so that a power cut after the commit loses nothing."""
    for path in (*folder.rglob("*"), folder):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _unique_name() -> str:
    return f"{socket.gethostname()}~{os.getpid()}~{uuid.uuid4().hex}"


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
