"""Watches over one job of this machine, detached from the process that submitted it.

`python -m gpuyard.jobs.engines.local.supervisor FOLDER` returns once the supervisor runs in the background. It starts
every process under a guard, writes what they say to the log, ends a group when one of its processes fails, starts it
again with back-off, keeps the time limit, and writes down how it ended. If it is itself killed, the guards end all.
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

from gpuyard.document import dump_json
from gpuyard.errors import RefusedError
from gpuyard.home import write_whole
from gpuyard.jobs.engines.local.group import Group
from gpuyard.jobs.files import JobFiles
from gpuyard.jobs.process import this_process
from gpuyard.jobs.task import Status, Task

__all__ = ["main"]

STEP_S = 0.25  # how late a time limit or a retry may be
KEEP_TRIES, KEEP_S = 120, 0.5  # a full disk may become free


class Supervisor:
    """The groups of a task: one for each copy, as many at a time as the machine has room for."""

    def __init__(self, task: Task, files: JobFiles, room: int) -> None:
        self.task, self.files = task, files
        self.began_s = time.time()
        self.waiting = [Group(task, index) for index in range(task.copies) if files.exit(index) is None]
        self.active: list[Group] = []
        self.room = max(1, room)
        self.selector = selectors.DefaultSelector()
        self.ending = ""  # why everything is to end

    def run(self, log: IO[bytes], woken: int) -> None:
        """Until every copy has ended."""
        self.selector.register(woken, selectors.EVENT_READ)
        while self.waiting or self.active:
            self._fill()
            for key, _ in self.selector.select(STEP_S):
                if key.fd == woken:
                    os.read(woken, 4096)
                elif not key.data.pump(key.fd, log):
                    self.selector.unregister(key.fd)
                    os.close(key.fd)
            limit_s = self.task.time_limit_s
            if not self.ending and limit_s is not None and time.time() - self.began_s >= limit_s:
                self.end(f"time limit of {limit_s:g} s")
            for group in tuple(self.active):
                self._look(group, log)

    def _fill(self) -> None:
        """Starts what there is room for; what is to end unstarted is written down."""
        while self.waiting and (self.ending or len(self.active) < self.room):
            group = self.waiting.pop(0)
            self.active.append(group)
            if self.ending:
                group.end()
            else:
                self._start(group)
        for group in self.active:
            if group.due() and not self.ending:
                self._start(group)

    def _start(self, group: Group) -> None:
        """Starts an attempt and listens to it."""
        for output in group.start(self.files.folder):
            self.selector.register(output, selectors.EVENT_READ, group)

    def _look(self, group: Group, log: IO[bytes]) -> None:
        """Goes on with a group whose processes have ended."""
        status = group.look(self.ending)
        if group.notice:
            _write(log, f"gpuyard: {group.notice}\n".encode())
            group.notice = ""
        if status:
            self.active.remove(group)
            _keep(self.files, group.index, status)

    def end(self, why: str) -> None:
        """Ends everything that runs."""
        self.ending = self.ending or why
        for group in self.active:
            group.end()


def _write(log: IO[bytes], text: bytes) -> None:
    """Writes to the log; a full disk loses log lines, not the job."""
    with contextlib.suppress(OSError):
        log.write(text)


def _keep(files: JobFiles, index: int, status: Status) -> None:
    """Writes down how a copy ended, trying again while the disk refuses."""
    for _ in range(KEEP_TRIES):
        with contextlib.suppress(RefusedError):
            files.keep_exit(index, status)
            return
        time.sleep(KEEP_S)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Whether this is the only supervisor of the job; the kernel releases the lock of a dead one."""
    with (folder / "lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


def _supervise(folder: Path) -> None:
    """The background process."""
    files = JobFiles(folder=folder)
    task = files.task()
    room = (len(os.sched_getaffinity(0)) // task.cores_per_process) if task.copies > 1 else 1
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    supervisor = Supervisor(task, files, room)
    signal.signal(signal.SIGTERM, lambda *_: supervisor.end("cancelled"))
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if files.cancel_asked:
        supervisor.end("cancelled")
    write_whole(folder / "started", f"{supervisor.began_s}")
    with files.log.open("ab", buffering=0) as log:
        supervisor.run(log, woken)


def main(folder: Path) -> int:
    """Leaves a supervisor running in the background, unless one runs or the job has ended."""
    with _alone(folder) as alone:
        if not alone:
            return 0
        pid = os.fork()
        if pid:
            write_whole(folder / "supervisor.json", dump_json(this_process(pid)))
            return 0
        os.setsid()
        with contextlib.suppress(BaseException), (folder / "supervisor.log").open("ab", buffering=0) as own:
            quiet = os.open(os.devnull, os.O_RDWR)
            for stream, target in ((0, quiet), (1, own.fileno()), (2, own.fileno())):
                os.dup2(target, stream)
            _told(folder)
        os._exit(0)


def _told(folder: Path) -> None:
    """Supervises; what goes wrong is told in its own log."""
    try:
        _supervise(folder)
    except BaseException as error:
        os.write(2, f"supervisor: {type(error).__name__}: {error}\n".encode())
        raise


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
