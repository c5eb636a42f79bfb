"""The server: one main process that watches its workers, which share a port; granian underneath."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import ipaddress
import math
import os
import shutil
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gpuyard.document import dump_json
from gpuyard.errors import RefusedError
from gpuyard.home import Home, write_whole
from gpuyard.serving.endpoints import Endpoints
from gpuyard.serving.sources import find_version
from gpuyard.serving.spec import Settings, check_settings

__all__ = ["MAIN", "SETTINGS", "TOKEN", "folder_of", "free_port", "is_loopback", "serve"]

SETTINGS, TOKEN, MAIN = "GPUYARD_SERVE_SETTINGS", "GPUYARD_SERVE_TOKEN", "GPUYARD_SERVE_MAIN"
WORKER = "gpuyard.serving.worker"
NEEDED = ("granian", "msgspec", "onnxruntime", "numpy")


def folder_of(home: Home, name: str) -> Path:
    """Where a server keeps its settings, its log and what its workers tell each other."""
    return home.path / "serving" / name


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def free_port(host: str, port: int) -> int:
    """The port, or a free one for 0; RefusedError if another program has it.

    Workers share their port by SO_REUSEPORT, with which a second server would start beside the first unnoticed.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
            trial.listen()
        except OSError as error:
            what = f"cannot listen: {error.strerror or error}"
            raise RefusedError(f"{host}:{port}", what, "choose another --port, or 0 for a free one") from None
        return int(trial.getsockname()[1])


def serve(settings: Settings, told: Callable[[Settings], None] = lambda _: None) -> None:
    """Serves until it is told to stop; requests under way are answered first. `told` hears the port."""
    for module in NEEDED:
        if importlib.util.find_spec(module) is None:
            raise RefusedError("serve", f"{module} is not installed", "pip install 'gpuyard[run]'")
    check_settings(settings)
    home = Home(path=Path(settings.home))
    found = tuple(find_version(mount, home) for mount in settings.mounts)  # what is wrong is told before anything runs
    settings = replace(settings, port=free_port(settings.host, settings.port))
    folder = Path(settings.folder)
    shutil.rmtree(folder / "board", ignore_errors=True)
    settings = replace(settings, folder=str(folder / "board"))
    (folder / "board").mkdir(parents=True, exist_ok=True)
    path = folder / "board" / "settings.json"
    write_whole(path, dump_json(settings))
    os.environ[SETTINGS] = str(path)
    os.environ[MAIN] = str(os.getpid())
    endpoints = Endpoints(home=home)
    endpoints.started(settings, tuple(f"{item.name}/{item.version}" for item in found))
    told(settings)
    try:
        _granian(settings)
    finally:
        endpoints.ended(settings.name)
        with contextlib.suppress(OSError):
            path.unlink()


def _granian(settings: Settings) -> None:
    """Runs granian's main loop in this process."""
    from granian import Granian
    from granian.constants import HTTPModes, Interfaces, TaskImpl
    from granian.http import HTTP1Settings
    from granian.log import LogLevels

    limits = settings.limits
    Granian(
        WORKER,
        address=settings.host,
        port=settings.port,
        interface=Interfaces.RSGI,
        workers=settings.workers,
        http=HTTPModes.http1,
        websockets=False,
        task_impl=TaskImpl.asyncio,  # requests that take too long are cancelled as tasks
        backlog=max(1024, limits.connections),
        backpressure=limits.connections,
        http1_settings=HTTP1Settings(header_read_timeout=math.ceil(limits.headers_s * 1e3)),
        log_level=LogLevels.warning,
        respawn_failed_workers=True,
        respawn_interval=0.1,
        workers_kill_timeout=max(1, math.ceil(limits.drain_s)),
    ).serve(target_loader=_application, wrap_loader=False)


def _application() -> object:
    """The application, made in a worker: its modules are loaded there and not in the main process."""
    for number in (signal.SIGTERM, signal.SIGINT):  # until it serves, a worker that is told to stop just ends
        signal.signal(number, signal.SIG_DFL)
    return importlib.import_module(WORKER).build()
