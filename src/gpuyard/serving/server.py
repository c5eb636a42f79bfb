"""The server: a granian main process that supervises workers on a shared port."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import math
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gpuyard.document.encode import dump_json
from gpuyard.errors import ExternalError
from gpuyard.home import Home, write_atomic
from gpuyard.serving.access import check_exposure, check_tls, management_token
from gpuyard.serving.api_keys import read_keys
from gpuyard.serving.endpoints import Endpoints
from gpuyard.serving.engines import check_engines, start_engines
from gpuyard.serving.spec import ServerSettings, check_settings
from gpuyard.serving.version_sources import ResolvedVersion, find_version

SETTINGS, TOKEN, MAIN = "GPUYARD_SERVE_SETTINGS", "GPUYARD_SERVE_TOKEN", "GPUYARD_SERVE_MAIN"
WORKER = "gpuyard.serving.worker"
REQUIRED = ("granian", "msgspec", "onnxruntime", "numpy")
REQUIRED_FOR_GRPC = ("grpc", "google.protobuf")


def folder_of(home: Home, name: str) -> Path:
    """Return the folder for a server's settings, log and worker board."""
    return home.path / "serving" / name


def check_access(settings: ServerSettings) -> None:
    """Raise InputError unless keys and certificates are valid, and suffice for the address."""
    access = settings.access
    check_exposure(settings.host, access)
    check_tls(access)
    if access.api_keys:
        read_keys(Path(access.api_keys))


def token_of(settings: ServerSettings) -> str:
    """Return the management token: from the environment, else from the state directory."""
    return os.environ.get(TOKEN, "") or management_token(Path(settings.home))


@contextlib.contextmanager
def reserved_port(host: str, port: int) -> Iterator[int]:
    """Reserve the port, or a free one for 0. Raise ExternalError if it is in use.

    Workers share the port with SO_REUSEPORT, so without this check a second server would start on
    the same port unnoticed. The port stays bound until the block ends, so that nothing else gets
    it while no worker listens; connections go only to sockets that listen.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        if port:
            with socket.socket(family, socket.SOCK_STREAM) as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trial.bind((host, port))
                trial.listen()
        reservation = socket.socket(family, socket.SOCK_STREAM)
        with contextlib.ExitStack() as stack:
            stack.enter_context(reservation)
            reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            reservation.bind((host, port))
            stack.pop_all()
    except OSError as error:
        what = f"cannot listen: {error.strerror or error}"
        raise ExternalError(
            f"{host}:{port}", what, "choose another --port, or 0 for a free one"
        ) from None
    with reservation:
        yield int(reservation.getsockname()[1])


def serve(
    settings: ServerSettings, on_start: Callable[[ServerSettings], None] = lambda _: None
) -> None:
    """Serve until stopped; in-flight requests finish first.

    `on_start` receives the settings with the actual port.
    """
    _check_packages(settings)
    check_settings(settings)
    check_access(settings)
    home = Home(path=Path(settings.home))
    # Resolved here too, so that errors are reported before any process starts.
    versions = tuple(find_version(mount, home) for mount in settings.mounts)
    with contextlib.ExitStack() as ports:
        port = ports.enter_context(reserved_port(settings.host, settings.port))
        settings = replace(settings, port=port)
        if settings.grpc_port is not None:
            grpc_port = ports.enter_context(reserved_port(settings.host, settings.grpc_port))
            settings = replace(settings, grpc_port=grpc_port)
        _serve(settings, home, versions, on_start)


def _serve(
    settings: ServerSettings,
    home: Home,
    versions: Sequence[ResolvedVersion],
    on_start: Callable[[ServerSettings], None],
) -> None:
    board = Path(settings.folder) / "board"
    shutil.rmtree(board, ignore_errors=True)
    settings = replace(settings, folder=str(board))
    board.mkdir(parents=True, exist_ok=True)
    path = board / "settings.json"
    write_atomic(path, dump_json(settings))
    os.environ[SETTINGS] = str(path)
    os.environ[MAIN] = str(os.getpid())
    token_of(settings)  # created before the workers, which read it
    endpoints = Endpoints(home=home)
    endpoints.started(settings, tuple(f"{item.name}/{item.version}" for item in versions))
    on_start(settings)
    engines = start_engines(settings, versions)
    try:
        _granian(settings)
    finally:
        for engine in engines:
            engine.stop()
        endpoints.ended(settings.name)
        with contextlib.suppress(OSError):
            path.unlink()
    check_engines(engines)


def _check_packages(settings: ServerSettings) -> None:
    grpc = tuple((module, "grpc") for module in REQUIRED_FOR_GRPC if settings.grpc_url)
    for module, package in (*((module, module) for module in REQUIRED), *grpc):
        try:
            missing = importlib.util.find_spec(module) is None
        except ModuleNotFoundError:  # not even the package around it
            missing = True
        if missing:
            raise ModuleNotFoundError(f"No module named {module!r}", name=package)


def _granian(settings: ServerSettings) -> None:
    from granian.constants import HTTPModes, Interfaces, SSLProtocols, TaskImpl
    from granian.http import HTTP1Settings
    from granian.log import LogLevels

    from gpuyard.serving.supervision import SupervisedServer

    limits, access = settings.limits, settings.access
    SupervisedServer(
        WORKER,
        board=Path(settings.folder),
        address=settings.host,
        port=settings.port,
        interface=Interfaces.RSGI,
        workers=settings.workers,
        http=HTTPModes.http1,
        websockets=False,
        task_impl=TaskImpl.asyncio,  # requests over the time limit are cancelled as tasks
        backlog=max(1024, limits.connections),
        backpressure=limits.connections,
        http1_settings=HTTP1Settings(
            header_read_timeout=math.ceil(limits.headers_s * 1e3),
            max_buffer_size=limits.head_bytes,
        ),
        ssl_cert=Path(access.tls_cert) if access.tls_cert else None,
        ssl_key=Path(access.tls_key) if access.tls_key else None,
        ssl_protocol_min=SSLProtocols.tls12,
        log_level=LogLevels.warning,
        workers_kill_timeout=max(1, math.ceil(limits.drain_s)),
    ).serve(target_loader=_application, wrap_loader=False)


# Runs in a worker: the model libraries are loaded there and not in the main process.
def _application() -> object:
    for number in (signal.SIGTERM, signal.SIGINT):  # until it serves, a stopped worker just exits
        signal.signal(number, signal.SIG_DFL)
    from gpuyard.serving.worker import make_worker  # which imports this module

    return make_worker()
