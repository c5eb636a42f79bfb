"""The processes of one copy of a task on this host: they start and fail together."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Literal

from gpuyard.jobs.engines import process_reaper
from gpuyard.jobs.engines.local.chips import chip_environment
from gpuyard.jobs.rendezvous import Rendezvous, free_port, rank_environment
from gpuyard.jobs.task import Task, TaskStatus, exit_reason

PIECE_BYTES = 1 << 16
REAPER = (sys.executable, "-I", "-S", str(Path(process_reaper.__file__)))


class ProcessGroup:
    """One copy of a task and its attempts."""

    def __init__(self, task: Task, index: int) -> None:
        self.task, self.index = task, index
        self.attempts = 0
        self.started_s: float | None = None
        self._start_s = 0.0  # the same by the monotonic clock
        self.notice = ""  # a line for the log
        self._reapers: list[subprocess.Popen[bytes]] = []
        # By output: the rank that writes to it, and its last line so far.
        self._outputs: dict[int, tuple[int, bytes]] = {}
        self._code: int | None = None  # of the process that failed first
        self._failed_rank = 0
        self._retry_at_s: float | None = None

    def start(self, folder: Path) -> list[int]:
        """Start every process of an attempt; return their outputs, to be passed to `read`."""
        self._retry_at_s, self._code, self._reapers = None, None, []
        if self.started_s is None:
            self.started_s, self._start_s = time.time(), time.monotonic()
        rendezvous = Rendezvous(address="127.0.0.1", port=free_port(), interface="lo")
        for rank in range(self.task.processes):
            own = rank_environment(
                self.task, rendezvous, rank=rank, index=self.index, attempt=self.attempts
            )
            chips = chip_environment(self.task, rank, self.index)
            reader, writer = os.pipe()
            try:
                self._reapers.append(
                    subprocess.Popen(
                        (*REAPER, str(self.task.grace_s), *self.task.argv),
                        stdin=subprocess.PIPE,
                        stdout=writer,
                        stderr=writer,
                        cwd=self.task.folder,
                        env={**os.environ, **chips, **dict(own)},
                        start_new_session=True,  # not in the supervisor's signal group
                    )
                )
            finally:
                os.close(writer)
            self._outputs[reader] = (rank, b"")
        self.attempts += 1
        with contextlib.suppress(OSError):
            (folder / "attempts").write_text(str(self.attempts), encoding="ascii")
        return list(self._outputs)

    def read(self, output: int, log: IO[bytes]) -> bool:
        """Copy complete lines of an output to the log; return False at its end."""
        rank, rest = self._outputs[output]
        piece = os.read(output, PIECE_BYTES)
        *lines, rest = (rest + piece).split(b"\n")
        if not piece and rest:
            lines, rest = [*lines, rest], b""
        label = self._label(rank)
        text = b"".join(label + line + b"\n" for line in lines)
        with contextlib.suppress(OSError):  # a full disk loses log lines, not the job
            log.write(text)
        if piece:
            self._outputs[output] = (rank, rest)
        else:
            del self._outputs[output]
        return bool(piece)

    def _label(self, rank: int) -> bytes:
        if self.task.copies > 1:
            return b"[%d] " % self.index
        return b"[%d] " % rank if self.task.processes > 1 else b""

    def stop(self) -> None:
        """Close the reapers' standard input: SIGTERM, the grace period, SIGKILL."""
        for reaper in self._reapers:
            if reaper.stdin and not reaper.stdin.closed:
                reaper.stdin.close()

    @property
    def is_retry_due(self) -> bool:
        """Whether the next attempt is to start now."""
        return self._retry_at_s is not None and time.monotonic() >= self._retry_at_s

    def poll(self, stop_reason: str) -> TaskStatus | None:
        """Return how the copy ended, or None while it runs or waits for its next attempt.

        A process that fails stops the others, and a `stop_reason` stops all.
        """
        codes = [reaper.poll() for reaper in self._reapers]
        failure = next(((rank, code) for rank, code in enumerate(codes) if code), None)
        if failure and self._code is None:
            self._failed_rank, self._code = failure
        if failure or stop_reason:
            self.stop()
        if None in codes or self._outputs:  # a process runs, or its output is not all in the log
            return None
        self.stop()
        if stop_reason:
            state: Literal["cancelled", "failed"] = (
                "cancelled" if stop_reason == "cancelled" else "failed"
            )
            return self._status(state, stop_reason)
        if self._retry_at_s is not None:
            return None
        if not self._code:
            return self._status("done", "")
        what = exit_reason(self._code)
        what += f" in rank {self._failed_rank}" if self.task.processes > 1 else ""
        if self.attempts > self.task.retries or self._code in self.task.final_codes:
            return self._status("failed", what)
        wait_s = self.task.retry.backoff_s(self.attempts)
        self._retry_at_s = time.monotonic() + wait_s
        self.notice = (
            f"{what}; attempt {self.attempts + 1} of {self.task.retry.attempts} in {wait_s:g} s"
        )
        return None

    def _status(self, state: Literal["done", "failed", "cancelled"], reason: str) -> TaskStatus:
        ended_s = time.time()  # of a copy that never started
        if self.started_s is not None:
            ended_s = self.started_s + time.monotonic() - self._start_s
        return TaskStatus(
            state=state,
            exit_code=self._code or (0 if state == "done" else None),
            reason=reason,
            started_s=self.started_s,
            ended_s=ended_s,
            attempts=self.attempts,
        )
