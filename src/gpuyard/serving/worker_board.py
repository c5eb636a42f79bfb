"""Shared state of a server's workers, as small files in the server's folder.

worker-PID.json   counts of one worker, written every second; retained when it exits, so that
                  sums never decrease
commands.json     commands for all workers: models to load or unload, canaries to roll back
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from gpuyard.home import write_atomic
from gpuyard.serving.drift import DriftCounts
from gpuyard.serving.shadow_counts import ShadowCounts
from gpuyard.serving.version_metrics import MetricsSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """The published state of one worker."""

    pid: int
    snapshots: tuple[MetricsSnapshot, ...] = ()
    swaps: int = 0
    serving: tuple[tuple[str, str], ...] = ()  # model, version
    drift: tuple[DriftCounts, ...] = ()
    shadows: tuple[ShadowCounts, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCommands:
    """Commands for all workers."""

    loads: tuple[tuple[str, str], ...] = ()  # model, reference
    unloads: tuple[str, ...] = ()
    rolled_back: tuple[tuple[str, str], ...] = ()  # canary as model/version, reason

    def with_load(self, name: str, reference: str) -> WorkerCommands:
        """Return these commands plus a model to load."""
        others = tuple(item for item in self.loads if item[0] != name)
        return replace(
            self,
            loads=(*others, (name, reference)),
            unloads=tuple(item for item in self.unloads if item != name),
        )

    def with_unload(self, name: str) -> WorkerCommands:
        """Return these commands plus a model to unload."""
        others = tuple(item for item in self.loads if item[0] != name)
        return replace(
            self, loads=others, unloads=(*(item for item in self.unloads if item != name), name)
        )

    def with_rolled_back(self, label: str, reason: str) -> WorkerCommands:
        """Return these commands plus a canary to roll back."""
        return replace(
            self,
            rolled_back=(*(item for item in self.rolled_back if item[0] != label), (label, reason)),
        )


def _report_file(folder: Path, pid: int) -> Path:
    return folder / f"worker-{pid}.json"


def has_reported(folder: Path, pid: int) -> bool:
    """Return whether a worker has reported, which it does as soon as its models are loaded."""
    return _report_file(folder, pid).exists()


class WorkerBoard:
    """The shared files of one server, as seen by one of its workers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "commands.json"
        self.pid = os.getpid()
        self._own = _report_file(folder, self.pid)
        self._seen: tuple[int, int] = (0, 0)

    def publish(self, report: WorkerReport) -> None:
        """Write this worker's report atomically."""
        fresh = self._own.with_suffix(".new")
        with contextlib.suppress(OSError):  # unwritable counts must not stop the server
            fresh.write_bytes(msgspec.json.encode(report))
            fresh.replace(self._own)

    def others(self) -> Iterator[WorkerReport]:
        """Yield the last reports of the other workers, running or exited."""
        for path in sorted(self._folder.glob("worker-*.json")):
            if path != self._own:
                with contextlib.suppress(OSError, msgspec.MsgspecError):
                    yield msgspec.json.decode(path.read_bytes(), type=WorkerReport)

    def commands(self) -> WorkerCommands:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=WorkerCommands)
        except FileNotFoundError:
            return WorkerCommands()

    def changed(self) -> bool:
        """Return whether there are commands that this worker has not seen."""
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            return False
        mark = (stat.st_mtime_ns, stat.st_ino)
        fresh, self._seen = mark != self._seen, mark
        return fresh

    def update(self, change: Callable[[WorkerCommands], WorkerCommands]) -> WorkerCommands:
        """Change the commands under a lock."""
        with (self._folder / "commands.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            fresh = change(self.commands())
            write_atomic(self._path, msgspec.json.encode(fresh))
        return fresh
