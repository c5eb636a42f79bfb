"""The files of versions: copied beside, then renamed; whatever a kill leaves over is found and removed."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

from gpuyard.errors import RefusedError

__all__ = ["abandoned", "copied", "put_away", "sync_tree"]

INCOMING = ".incoming"  # in home.models: copies that are not yet, or no longer, versions
STALE_S = 86_400.0  # a copy of another host that is older than this is nobody's


@contextlib.contextmanager
def copied(source: Path, models: Path) -> Iterator[Path]:
    """A copy of the folder beside the versions; removed at the end unless it was renamed into its place."""
    place = models / INCOMING / _own_name()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, place, symlinks=False)
        sync_tree(place)
        yield place
    except (OSError, shutil.Error) as error:
        raise RefusedError(
            str(models), f"cannot be written: {error}", "free disk space, or name another --home"
        ) from error
    finally:
        shutil.rmtree(place, ignore_errors=True)


def put_away(folder: Path, models: Path) -> None:
    """Takes a folder out of sight in one step, then removes it; a kill in between leaves it to `abandoned`."""
    place = models / INCOMING / _own_name()
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(folder, place)
    except FileNotFoundError:
        return
    shutil.rmtree(place, ignore_errors=True)


def abandoned(models: Path, now_s: float) -> Iterator[Path]:
    """Copies whose process has gone."""
    here = socket.gethostname()
    for path in sorted((models / INCOMING).glob("*")):
        host, _, rest = path.name.rpartition("~")[0].rpartition("~")
        if host == here and rest.isdigit():
            if not _lives(int(rest)):
                yield path
        elif now_s - path.stat().st_mtime > STALE_S:
            yield path


def sync_tree(folder: Path) -> None:
    """Brings every file and folder below onto the disk, so that a power cut after the commit loses nothing."""
    for path in (*folder.rglob("*"), folder):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _own_name() -> str:
    """A name that tells whose it is: host, process, and something unique."""
    return f"{socket.gethostname()}~{os.getpid()}~{uuid.uuid4().hex}"


def _lives(pid: int) -> bool:
    """True of a process of this host that runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
