"""Background servers: start them detached, wait until they are ready, and stop them."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from gpuyard.document.encode import dump_json
from gpuyard.errors import EXIT_WRONG_INPUT, ExternalError, InputError
from gpuyard.home import Home, write_atomic
from gpuyard.http import NO_RETRY, HttpClient
from gpuyard.serving.access import tls_client_context
from gpuyard.serving.endpoints import Endpoint, Endpoints
from gpuyard.serving.server import check_access
from gpuyard.serving.spec import ServerSettings, check_settings

POLL_S = 0.05
KILL_AFTER_S = 5.0  # after the server's own drain time


def is_ready(endpoint: Endpoint) -> bool:
    """Return whether the server reports that it is ready."""
    try:
        tls = tls_client_context(endpoint.tls_cert)
        client = HttpClient(base=endpoint.url, tls=tls, retry=NO_RETRY, timeout_s=2.0)
        return client.send("GET", "/v2/health/ready").status == 200
    except (ExternalError, OSError):  # OSError: the certificate's file is gone
        return False


def deploy(settings: ServerSettings, *, within_s: float = 120.0) -> Endpoint:
    """Start the server in the background and wait until it is ready.

    Raises InputError or ExternalError with the first error of its log if it does not start.
    """
    check_settings(settings)
    check_access(settings)
    within_s = max(within_s, settings.engine.start_s if settings.engine else 0.0)
    folder = Path(settings.folder)
    path, log = folder / "start.json", folder / "log"
    write_atomic(path, dump_json(settings))
    log.touch()
    log_start = log.stat().st_size
    pid = _spawn(["-m", "gpuyard.serving.start", str(path)], log)
    endpoints = Endpoints(home=Home(path=Path(settings.home)))
    until = time.monotonic() + within_s
    code = None
    try:
        while time.monotonic() < until and (code := _exit_code(pid)) is None:
            time.sleep(POLL_S)
            own = next(
                (item for item in endpoints.all() if item.pid == pid and item.state == "running"),
                None,
            )
            if own is not None and is_ready(own):
                return endpoints.get(own.name)  # with the versions its workers recorded since
    except BaseException:
        _kill(pid)
        raise
    if code is None:
        _kill(pid)
        raise ExternalError(
            f'service "{settings.name}"', f"was not ready after {within_s:g} s", f"see {log}"
        )
    lines = log.read_bytes()[log_start:].decode(errors="replace").strip().splitlines()
    errors = (
        [line for line in lines if line.startswith("error: ")]
        or lines[-1:]
        or [f"exited with code {code}"]
    )
    what = errors[0].removeprefix("error: ")
    if code == EXIT_WRONG_INPUT:
        raise InputError.one(f'service "{settings.name}"', what, f"see {log}")
    raise ExternalError(f'service "{settings.name}"', what, f"see {log}")


# A new session, so that the server outlives this process.
def _spawn(arguments: Sequence[str], log: Path) -> int:
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    return os.posix_spawn(
        sys.executable, [sys.executable, *arguments], os.environ, file_actions=actions, setsid=True
    )


# Also reaps the child.
def _exit_code(pid: int) -> int | None:
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0
    return os.waitstatus_to_exitcode(status) if ended else None


def stop(endpoint: Endpoint, *, drain_s: float = 30.0) -> bool:
    """Stop a server after its in-flight requests finish. Return False if it was not running."""
    if endpoint.state != "running":
        return False
    os.kill(endpoint.pid, signal.SIGTERM)
    until = time.monotonic() + drain_s + KILL_AFTER_S
    while _is_alive(endpoint.pid):
        if time.monotonic() > until:
            os.kill(endpoint.pid, signal.SIGKILL)  # its workers notice and exit
            break
        time.sleep(POLL_S)
    return True


def _kill(pid: int) -> None:
    for number, within_s in ((signal.SIGTERM, KILL_AFTER_S), (signal.SIGKILL, KILL_AFTER_S)):
        os.kill(pid, number)
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            if _exit_code(pid) is not None:
                return
            time.sleep(POLL_S)


def _is_alive(pid: int) -> bool:
    _exit_code(pid)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
