"""Run one command and leave no process behind: `python process_reaper.py GRACE_S COMMAND…`.

When standard input closes, because its holder closed it or died, the command gets SIGTERM, GRACE_S
seconds, and SIGKILL. When the command exits, everything it started is killed. The exit code is the
command's, or 128 + N after signal N. Only the standard library is used, because the file is also
sent to other hosts.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
STEP_S = 0.02
LIFELINE = 0


def _prctl(option: int, value: int) -> None:
    """Asks the kernel; where it does not know, the rest must do."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _dies_with_parent() -> None:
    """In the child: ends when the guard does, even if that is killed."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _children() -> list[int]:
    """What is left below the guard: orphans of the command come to it."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def _sweep() -> None:
    """Ends and reaps everything that the command left."""
    while True:
        for pid in _children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(STEP_S)


def _wait(child: subprocess.Popen[bytes], woken: int, grace_s: float, stops: list[int]) -> int:
    """Until the command has ended, by itself or because the lifeline did; its exit code."""
    watched = [LIFELINE, woken]
    kill_at_s: float | None = None
    while child.poll() is None:
        left_s = None if kill_at_s is None else max(0.0, kill_at_s - time.monotonic())
        ready = select.select(watched, [], [], left_s)[0]
        if woken in ready:
            os.read(woken, 4096)
        if LIFELINE in ready and not os.read(LIFELINE, 1):
            watched.remove(LIFELINE)
            stops.append(0)
        if stops and kill_at_s is None:
            kill_at_s = time.monotonic() + grace_s
            _signal_group(child.pid, signal.SIGTERM)
        elif kill_at_s is not None and time.monotonic() >= kill_at_s:
            kill_at_s += STEP_S
            _signal_group(child.pid, signal.SIGKILL)
    return child.returncode


def main() -> int:
    """Run the command and return its exit code."""
    grace_s, argv = float(sys.argv[1]), sys.argv[2:]
    stops: list[int] = []
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)  # a signal, also that of the ended child, ends the wait
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: stops.append(number))
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_dies_with_parent,
            close_fds=True,
        )
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", file=sys.stderr, flush=True)  # noqa: T201
        return 127 if isinstance(error, FileNotFoundError) else 126
    code = _wait(child, woken, grace_s, stops)
    _signal_group(child.pid, signal.SIGKILL)
    _sweep()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
