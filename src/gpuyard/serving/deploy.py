"""Servers in the background: started apart from this process, found again by name, and stopped."""

from __future__ import annotations

import os
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from gpuyard.document import dump_json
from gpuyard.errors import InputError, RefusedError
from gpuyard.home import Home, write_whole
from gpuyard.serving.endpoints import Endpoint, Endpoints
from gpuyard.serving.spec import Settings, check_settings

__all__ = ["deploy", "is_ready", "stop"]

LOOK_S = 0.05
EXIT_WRONG_INPUT = 2
KILL_AFTER_S = 5.0  # beyond what the server's own drain takes


def is_ready(url: str) -> bool:
    """Whether the server answers that it is ready."""
    try:
        with urllib.request.urlopen(f"{url}/v2/health/ready", timeout=2.0) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def deploy(settings: Settings, *, within_s: float = 120.0) -> Endpoint:
    """Starts the server in the background and waits until it is ready; RefusedError with its log if it is not."""
    check_settings(settings)
    folder = Path(settings.folder)
    place, log = folder / "start.json", folder / "log"
    write_whole(place, dump_json(settings))
    log.touch()
    began = log.stat().st_size
    pid = _spawned(["-m", "gpuyard.serving.start", str(place)], log)
    endpoints, until, code = Endpoints(home=Home(path=Path(settings.home))), time.monotonic() + within_s, None
    try:
        while time.monotonic() < until and (code := _exit_code(pid)) is None:
            time.sleep(LOOK_S)
            own = next((item for item in endpoints.all() if item.pid == pid and item.state == "running"), None)
            if own is not None and is_ready(own.url):
                return endpoints.get(own.name)  # as its workers have noted it since
    except BaseException:
        _end(pid)
        raise
    if code is None:
        _end(pid)
        raise RefusedError(f'service "{settings.name}"', f"was not ready after {within_s:g} s", f"see {log}")
    said = log.read_bytes()[began:].decode(errors="replace").strip().splitlines()
    told = [line for line in said if line.startswith("error: ")] or said[-1:] or [f"it ended with {code}"]
    what = told[0].removeprefix("error: ")
    if code == EXIT_WRONG_INPUT:
        raise InputError.one(f'service "{settings.name}"', what, f"see {log}")
    raise RefusedError(f'service "{settings.name}"', what, f"see {log}")


def _spawned(words: Sequence[str], log: Path) -> int:
    """A Python of its own session, which stays when this process goes; gives its number."""
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    return os.posix_spawn(sys.executable, [sys.executable, *words], os.environ, file_actions=actions, setsid=True)


def _exit_code(pid: int) -> int | None:
    """The exit code of a child of this process that has ended; it is put away."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0
    return os.waitstatus_to_exitcode(status) if ended else None


def stop(endpoint: Endpoint, *, drain_s: float = 30.0) -> bool:
    """Stops a server; requests under way are answered first. Gives False if it was not running."""
    if endpoint.state != "running":
        return False
    os.kill(endpoint.pid, signal.SIGTERM)
    until = time.monotonic() + drain_s + KILL_AFTER_S
    while _lives(endpoint.pid):
        if time.monotonic() > until:
            os.kill(endpoint.pid, signal.SIGKILL)  # its workers see that and go
            break
        time.sleep(LOOK_S)
    return True


def _end(pid: int) -> None:
    """Ends a server that did not come up."""
    for number, within_s in ((signal.SIGTERM, KILL_AFTER_S), (signal.SIGKILL, KILL_AFTER_S)):
        os.kill(pid, number)
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            if _exit_code(pid) is not None:
                return
            time.sleep(LOOK_S)


def _lives(pid: int) -> bool:
    """Whether the process runs; one of our own that has ended is put away."""
    _exit_code(pid)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
