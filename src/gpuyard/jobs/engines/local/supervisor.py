"""Supervisor of one local job, detached from the process that submitted it.

`python -m gpuyard.jobs.engines.local.supervisor FOLDER` returns once the supervisor runs in the
background. It starts every process under a reaper, writes their output to the log, stops a group
when one process fails, retries with backoff, enforces the time limit, and records the exit. If it
is killed, the reapers stop everything.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from gpuyard.document.encode import dump_json
from gpuyard.errors import ExternalError
from gpuyard.home import write_atomic
from gpuyard.jobs.engines.local.process_group import ProcessGroup
from gpuyard.jobs.files import JobFiles
from gpuyard.jobs.process import this_process
from gpuyard.jobs.task import Task, TaskStatus

STEP_S = 0.25  # how late a time limit or a retry may be
SAVE_TRIES, SAVE_WAIT_S = 120, 0.5  # space on a full disk may be freed


# The supervisor is one event loop over the outputs of all processes and a wake-up pipe, which
# signals write to. Copies move from `waiting` to `active`, at most `slots` at a time, and leave
# `active` with their exit record. Invariants:
#   - a copy has an exit record only after all its processes ended and their output is in the log;
#   - once `stop_reason` is set nothing starts, and every copy still gets an exit record;
#   - copies with a record are not started, so a second supervisor of the same job repeats nothing.
class Supervisor:
    """The process groups of a task, one per copy, limited to what fits on the host."""

    def __init__(self, task: Task, files: JobFiles, slots: int) -> None:
        self.task, self.files = task, files
        self.started_s = time.time()
        self._start_s = time.monotonic()  # the clock of the host may be set while it runs
        self.waiting = [
            ProcessGroup(task, index) for index in range(task.copies) if files.exit(index) is None
        ]
        self.active: list[ProcessGroup] = []
        self.slots = max(1, slots)
        self.selector = selectors.DefaultSelector()
        self.stop_reason = ""

    def run(self, log: IO[bytes], wakeup: int) -> None:
        """Run until every copy has ended."""
        self.selector.register(wakeup, selectors.EVENT_READ)
        limit_s = self.task.time_limit_s
        while self.waiting or self.active:
            self._start_groups()
            for key, _ in self.selector.select(STEP_S):
                if key.fd == wakeup:
                    os.read(wakeup, 4096)
                elif not key.data.read(key.fd, log):
                    self.selector.unregister(key.fd)
                    os.close(key.fd)
            if limit_s is not None and time.monotonic() - self._start_s >= limit_s:
                self.stop(f"time limit of {limit_s:g} s")
            for group in tuple(self.active):
                self._advance(group, log)

    def _start_groups(self) -> None:
        while self.waiting and (self.stop_reason or len(self.active) < self.slots):
            group = self.waiting.pop(0)
            self.active.append(group)  # if stopped, without a process: it only gets its record
            if not self.stop_reason:
                self._start(group)
        for group in self.active:
            if group.is_retry_due and not self.stop_reason:
                self._start(group)

    def _start(self, group: ProcessGroup) -> None:
        for output in group.start(self.files.folder):
            self.selector.register(output, selectors.EVENT_READ, group)

    def _advance(self, group: ProcessGroup, log: IO[bytes]) -> None:
        status = group.poll(self.stop_reason)
        if group.notice:
            with contextlib.suppress(OSError):  # a full disk loses log lines, not the job
                log.write(f"gpuyard: {group.notice}\n".encode())
            group.notice = ""
        if status:
            self.active.remove(group)
            self._save_exit(group.index, status)

    def _save_exit(self, index: int, status: TaskStatus) -> None:
        for _ in range(SAVE_TRIES):
            with contextlib.suppress(ExternalError):
                self.files.save_exit(index, status)
                return
            time.sleep(SAVE_WAIT_S)

    def stop(self, reason: str) -> None:
        """Make the loop stop every process; the first reason counts. Safe in a signal handler."""
        self.stop_reason = self.stop_reason or reason


@contextlib.contextmanager
def _exclusive(folder: Path) -> Iterator[bool]:
    with (folder / "lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


def _supervise(folder: Path) -> None:
    files = JobFiles(folder=folder)
    task = files.task()
    slots = (len(os.sched_getaffinity(0)) // task.cores_per_process) if task.copies > 1 else 1
    wakeup, notify = os.pipe()
    os.set_blocking(notify, False)
    signal.set_wakeup_fd(notify)
    supervisor = Supervisor(task, files, slots)
    signal.signal(signal.SIGTERM, lambda *_: supervisor.stop("cancelled"))
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if files.cancel_requested:
        supervisor.stop("cancelled")
    write_atomic(folder / "started", f"{supervisor.started_s}")
    with files.log.open("ab", buffering=0) as log:
        supervisor.run(log, wakeup)


def main(folder: Path) -> int:
    """Start a supervisor in the background, unless one runs or the job has ended."""
    with _exclusive(folder) as is_first:
        if not is_first:
            return 0
        pid = os.fork()
        if pid:
            write_atomic(folder / "supervisor.json", dump_json(this_process(pid)))
            return 0
        os.setsid()
        with (
            contextlib.suppress(BaseException),
            (folder / "supervisor.log").open("ab", buffering=0) as own,
        ):
            quiet = os.open(os.devnull, os.O_RDWR)
            for stream, target in ((0, quiet), (1, own.fileno()), (2, own.fileno())):
                os.dup2(target, stream)
            _supervise_logged(folder)
        os._exit(0)


def _supervise_logged(folder: Path) -> None:
    try:
        _supervise(folder)
    except BaseException as error:
        os.write(2, f"supervisor: {type(error).__name__}: {error}\n".encode())
        raise


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
