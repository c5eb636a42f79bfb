"""The processes of one copy of a task on this machine: they start together and fail together."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Literal

from gpuyard.jobs.backoff import backoff_s
from gpuyard.jobs.engines import guard
from gpuyard.jobs.engines.local.chips import chip_environment
from gpuyard.jobs.rendezvous import Meeting, free_port, rank_environment
from gpuyard.jobs.task import Status, Task

__all__ = ["Group"]

PIECE_BYTES = 1 << 16
GUARD = (sys.executable, "-I", "-S", str(Path(guard.__file__)))


class Group:
    """One copy: its attempts, one after another."""

    def __init__(self, task: Task, index: int) -> None:
        self.task, self.index = task, index
        self.attempts = 0
        self.started_s: float | None = None
        self.notice = ""  # a line for the log
        self._guards: list[subprocess.Popen[bytes]] = []
        self._rests: dict[int, tuple[int, bytes]] = {}  # output -> its rank and the line that has no end yet
        self._code: int | None = None  # of the process that failed first
        self._culprit = 0
        self._retry_at_s: float | None = None

    def start(self, folder: Path) -> list[int]:
        """Starts every process of an attempt; gives what to listen to."""
        self._retry_at_s, self._code, self._guards = None, None, []
        self.started_s = self.started_s or time.time()
        meeting = Meeting(address="127.0.0.1", port=free_port(), interface="lo")
        for rank in range(self.task.processes):
            environment = {
                **os.environ,
                **chip_environment(self.task, rank, self.index),
                **dict(rank_environment(self.task, meeting, rank=rank, index=self.index, attempt=self.attempts)),
            }
            reader, writer = os.pipe()
            try:
                self._guards.append(
                    subprocess.Popen(
                        (*GUARD, str(self.task.grace_s), *self.task.argv),
                        stdin=subprocess.PIPE, stdout=writer, stderr=writer, cwd=self.task.folder, env=environment,
                        start_new_session=True,  # a signal to the supervisor's group is not one to the processes
                    )
                )  # fmt: skip
            finally:
                os.close(writer)
            self._rests[reader] = (rank, b"")
        self.attempts += 1
        with contextlib.suppress(OSError):
            (folder / "attempts").write_text(str(self.attempts), encoding="ascii")
        return list(self._rests)

    def pump(self, output: int, log: IO[bytes]) -> bool:
        """Passes on whole lines with their rank or copy; False when the output has ended."""
        rank, rest = self._rests[output]
        piece = os.read(output, PIECE_BYTES)
        *lines, rest = (rest + piece).split(b"\n")
        if not piece and rest:
            lines, rest = [*lines, rest], b""
        label = self._label(rank)
        text = b"".join(label + line + b"\n" for line in lines)
        with contextlib.suppress(OSError):  # a full disk loses log lines, not the job
            log.write(text)
        if piece:
            self._rests[output] = (rank, rest)
        else:
            del self._rests[output]
        return bool(piece)

    def _label(self, rank: int) -> bytes:
        """What a line begins with where several processes write."""
        if self.task.copies > 1:
            return b"[%d] " % self.index
        return b"[%d] " % rank if self.task.processes > 1 else b""

    def end(self) -> None:
        """Lets go of the lifelines: SIGTERM, the grace, SIGKILL."""
        for each in self._guards:
            if each.stdin and not each.stdin.closed:
                each.stdin.close()

    def due(self) -> bool:
        """Whether the next attempt is to start."""
        return self._retry_at_s is not None and time.monotonic() >= self._retry_at_s

    def look(self, ending: str) -> Status | None:
        """How the copy ended, once it has; one process that fails takes the others with it."""
        codes = [each.poll() for each in self._guards]
        failed = next(((rank, code) for rank, code in enumerate(codes) if code), None)
        if failed and self._code is None:
            self._culprit, self._code = failed
            self.end()
        if None in codes or self._rests:  # somebody still runs, or has said something that is not in the log yet
            return None
        self.end()
        if ending:
            return self._status("cancelled" if ending == "cancelled" else "failed", ending)
        if self._retry_at_s is not None:
            return None
        if not self._code:
            return self._status("done", "")
        what = _words(self._code) + (f" in rank {self._culprit}" if self.task.processes > 1 else "")
        if self.attempts > self.task.retries or self._code in self.task.final_codes:
            return self._status("failed", what)
        wait_s = backoff_s(self.task.backoff_s, self.attempts)
        self._retry_at_s = time.monotonic() + wait_s
        self.notice = f"{what}; attempt {self.attempts + 1} of {self.task.retries + 1} in {wait_s:g} s"
        return None

    def _status(self, state: Literal["done", "failed", "cancelled"], reason: str) -> Status:
        """The end of the copy."""
        return Status(
            state=state,
            exit_code=self._code or (0 if state == "done" else None),
            reason=reason,
            started_s=self.started_s,
            ended_s=time.time(),
            attempts=self.attempts,
        )


def _words(code: int) -> str:
    """An exit code in words."""
    if code > 128 and code - 128 in set(signal.Signals):
        return f"killed by {signal.Signals(code - 128).name}"
    return f"exit code {code}"
