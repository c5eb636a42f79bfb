"""A process that can be told from another with the same number, also after a reboot."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Process", "alive", "send", "this_process"]

PROC = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process of a machine: its number, when it was started (clock ticks) and in which boot."""

    host: str
    boot: str
    pid: int
    start: str


def _start(pid: int) -> str:
    """When a process was started, in ticks since boot; empty if it is gone or only waits to be reaped."""
    try:
        # The name in parentheses may hold anything, so count the fields from its end.
        fields = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except (OSError, IndexError):
        return ""
    return "" if not fields or fields[0] in "ZX" else fields[19]


def _boot() -> str:
    """The id of this boot; empty where the kernel does not tell."""
    with contextlib.suppress(OSError):
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    return ""


def this_process(pid: int | None = None) -> Process:
    """The process of that number on this machine; this one by default."""
    number = os.getpid() if pid is None else pid
    return Process(host=socket.gethostname(), boot=_boot(), pid=number, start=_start(number))


def alive(process: Process) -> bool | None:
    """Whether it still runs; None for a process of another machine."""
    if process.host != socket.gethostname():
        return None
    if process.boot != _boot() or not process.start:
        return False
    return _start(process.pid) == process.start


def send(process: Process, number: signal.Signals) -> bool:
    """Signals the process if it is still the same one; says whether it was."""
    if not alive(process):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, number)
        return True
    return False
