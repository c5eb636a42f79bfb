"""Checkpoints that survive a kill at any moment: written beside, sealed with checksums, renamed; the last few kept.

checkpoints/120/...            what the trainer wrote
checkpoints/120/seal.json      the step, and the SHA-256 of every file; written last
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpuyard.errors import RefusedError, refusal
from gpuyard.learn.metrics_log import MetricsLog

__all__ = ["Checkpoints"]

T = typing.TypeVar("T")
SEAL = "seal.json"
UNSEALED = ".unsealed-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """The folder of one task's checkpoints; on a shared file system every process sees the same."""

    folder: Path
    keep: int = 3
    log: MetricsLog | None = None

    def steps(self) -> tuple[int, ...]:
        """The steps that have a checkpoint, sealed or damaged, oldest first."""
        if not self.folder.is_dir():
            return ()
        return tuple(sorted(int(path.name) for path in self.folder.iterdir() if path.name.isdigit()))

    def save(self, step: int, write: Callable[[Path], None]) -> None:
        """Makes the checkpoint of a step from what `write` puts into a folder; an older one is never harmed."""
        unsealed = self.unsealed(step)
        try:
            self.begin(step)
            write(unsealed)
            self.seal(step)
        except Exception as error:
            shutil.rmtree(unsealed, ignore_errors=True)
            found = refusal(error, str(unsealed), "then resume the run")
            if found is None:
                raise
            what = f"the checkpoint cannot be written: {found.problem.what}"
            fix = f"{self._good()}; {found.problem.fix}"
            raise RefusedError(str(self.folder / str(step)), what, fix) from error

    def unsealed(self, step: int) -> Path:
        """The folder of a checkpoint that is being written."""
        return self.folder / f"{UNSEALED}{step}"

    def begin(self, step: int) -> Path:
        """An empty folder for the parts of a checkpoint."""
        unsealed = self.unsealed(step)
        shutil.rmtree(unsealed, ignore_errors=True)
        unsealed.mkdir(parents=True)
        return unsealed

    def seal(self, step: int) -> None:
        """Makes the parts of a step a checkpoint, and removes the oldest ones."""
        unsealed, sealed = self.unsealed(step), self.folder / str(step)
        files = sorted(path for path in unsealed.rglob("*") if path.is_file())
        sums = {str(path.relative_to(unsealed)): _digest(path) for path in files}
        (unsealed / SEAL).write_text(json.dumps({"step": step, "sha256": sums}, indent=1) + "\n", encoding="utf-8")
        for path in (*files, unsealed / SEAL, unsealed):
            _sync(path)
        shutil.rmtree(sealed, ignore_errors=True)  # a step done again after a resume
        os.replace(unsealed, sealed)
        _sync(self.folder)
        for old in self.steps()[: -self.keep]:
            shutil.rmtree(self.folder / str(old), ignore_errors=True)

    def newest(self) -> Path | None:
        """The newest checkpoint whose files are as they were sealed; damaged ones are put aside and noted."""
        self._sweep()
        for step in reversed(self.steps()):
            folder = self.folder / str(step)
            damage = _damage(folder)
            if not damage:
                return folder
            if self.log is not None:
                self.log.event("corrupt checkpoint", step, damage)
        return None

    def restore(self, read: Callable[[Path], T]) -> tuple[int, T] | None:
        """The step of the newest good checkpoint and what `read` makes of it, or None when there is none."""
        folder = self.newest()
        if folder is None:
            return None
        step = int(folder.name)
        if self.log is not None:
            self.log.event("resumed", step)
        return step, read(folder)

    def _good(self) -> str:
        """What is still there, in words."""
        steps = self.steps()
        return f"the checkpoint of step {steps[-1]} is kept" if steps else "no checkpoint was made before"

    def _sweep(self) -> None:
        """Removes what a killed process left half written."""
        if self.folder.is_dir():
            for path in self.folder.glob(f"{UNSEALED}*"):
                shutil.rmtree(path, ignore_errors=True)


def _digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    """Has the disk hold a file or a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(PermissionError):  # some network file systems cannot sync a folder
            os.fsync(handle)
    finally:
        os.close(handle)


def _damage(folder: Path) -> str:
    """What is wrong with a checkpoint, in words; nothing when it is whole."""
    try:
        sums = json.loads((folder / SEAL).read_text(encoding="utf-8"))["sha256"]
        wrong = [name for name, digest in sums.items() if _digest(folder / name) != digest]
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        return f"no readable seal or file: {error}"
    return f"{wrong[0]} is not as it was written" if wrong else ""
