"""Checkpoints that survive a kill at any moment: written aside, checksummed, then renamed.

checkpoints/120/...            files of the trainer
checkpoints/120/seal.json      the step, and the SHA-256 of every file; written last
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpuyard.datasets.digests import digest_of_file
from gpuyard.errors import ExternalError, external_error_from
from gpuyard.learn.metrics_log import MetricsLog

T = typing.TypeVar("T")
SEAL = "seal.json"
UNSEALED = ".unsealed-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """The checkpoints of one task; every process sees them on a shared file system."""

    folder: Path
    keep: int = 3  # the newest ones are retained
    log: MetricsLog | None = None

    def steps(self) -> tuple[int, ...]:
        """Return the steps that have a checkpoint, valid or damaged, oldest first."""
        if not self.folder.is_dir():
            return ()
        return tuple(
            sorted(int(path.name) for path in self.folder.iterdir() if path.name.isdigit())
        )

    def save(self, step: int, write: Callable[[Path], None]) -> None:
        """Save the checkpoint of a step from the files that `write` puts into a folder."""
        unsealed = self.unsealed(step)
        try:
            self.begin(step)
            write(unsealed)
            self.seal(step)
        except Exception as error:
            shutil.rmtree(unsealed, ignore_errors=True)
            external = external_error_from(error, str(unsealed), "then resume the run")
            if external is None:
                raise
            what = f"the checkpoint cannot be written: {external.problem.what}"
            fix = f"{self._last_saved()}; {external.problem.fix}"
            raise ExternalError(str(self.folder / str(step)), what, fix) from error

    def unsealed(self, step: int) -> Path:
        """Return the folder of a checkpoint that is being written."""
        return self.folder / f"{UNSEALED}{step}"

    def begin(self, step: int) -> Path:
        """Create an empty folder for the files of a checkpoint."""
        unsealed = self.unsealed(step)
        shutil.rmtree(unsealed, ignore_errors=True)
        unsealed.mkdir(parents=True)
        return unsealed

    def seal(self, step: int) -> None:
        """Turn the files of a step into a checkpoint, and delete the oldest ones."""
        unsealed, sealed = self.unsealed(step), self.folder / str(step)
        files = sorted(path for path in unsealed.rglob("*") if path.is_file())
        sums = {str(path.relative_to(unsealed)): digest_of_file(path) for path in files}
        (unsealed / SEAL).write_text(
            json.dumps({"step": step, "sha256": sums}, indent=1) + "\n", encoding="utf-8"
        )
        for path in (*files, unsealed / SEAL, unsealed):
            _sync(path)
        shutil.rmtree(sealed, ignore_errors=True)  # a step repeated after a resume
        os.replace(unsealed, sealed)
        _sync(self.folder)
        for old in self.steps()[: -self.keep]:
            shutil.rmtree(self.folder / str(old), ignore_errors=True)

    def newest(self) -> Path | None:
        """Return the newest checkpoint with matching checksums; damaged ones are logged."""
        self._remove_unfinished()
        for step in reversed(self.steps()):
            folder = self.folder / str(step)
            damage = _damage(folder)
            if not damage:
                return folder
            if self.log is not None:
                self.log.event("corrupt checkpoint", step, damage)
        return None

    def restore(self, read: Callable[[Path], T]) -> tuple[int, T] | None:
        """Return the step and `read` result of the newest valid checkpoint, or None."""
        folder = self.newest()
        if folder is None:
            return None
        step = int(folder.name)
        if self.log is not None:
            self.log.event("resumed", step)
        return step, read(folder)

    def _last_saved(self) -> str:
        steps = self.steps()
        if steps:
            return f"the checkpoint of step {steps[-1]} is intact"
        return "no checkpoint was saved before"

    def _remove_unfinished(self) -> None:
        if self.folder.is_dir():
            for path in self.folder.glob(f"{UNSEALED}*"):
                shutil.rmtree(path, ignore_errors=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(
            PermissionError
        ):  # some network file systems cannot fsync a folder
            os.fsync(handle)
    finally:
        os.close(handle)


def _damage(folder: Path) -> str:
    try:
        sums = json.loads((folder / SEAL).read_text(encoding="utf-8"))["sha256"]
        wrong = [name for name, digest in sums.items() if digest_of_file(folder / name) != digest]
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        return f"{SEAL} or a file cannot be read: {error}"
    return f"checksum mismatch: {wrong[0]}" if wrong else ""
