"""Process identity that survives process id reuse and reboots."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process: host, process id, start time in clock ticks, and boot id."""

    host: str
    boot: str
    pid: int
    start: str


def _start(pid: int) -> str:
    try:
        # The name in parentheses may hold anything, so count the fields from its end.
        fields = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except (OSError, IndexError):
        return ""
    return "" if not fields or fields[0] in "ZX" else fields[19]


def _boot() -> str:
    with contextlib.suppress(OSError):
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    return ""


def this_process(pid: int | None = None) -> Process:
    """Return the process with that id on this host, by default this one."""
    number = os.getpid() if pid is None else pid
    return Process(host=socket.gethostname(), boot=_boot(), pid=number, start=_start(number))


def is_alive(process: Process) -> bool | None:
    """Return whether it still runs; None for a process of another host."""
    if process.host != socket.gethostname():
        return None
    if process.boot != _boot() or not process.start:
        return False
    return _start(process.pid) == process.start


def send(process: Process, number: signal.Signals) -> bool:
    """Signal the process if it is still the same one. Return whether it was."""
    if not is_alive(process):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, number)
        return True
    return False
