"""One worker process: the RSGI application that granian calls, and its periodic tasks."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from gpuyard import __version__
from gpuyard.datasets.transform import load_transform
from gpuyard.document.encode import load_json_file
from gpuyard.errors import EXIT_EXTERNAL_ERROR, GpuyardError
from gpuyard.serving.access import HostCheck
from gpuyard.serving.admin_routes import AdminRoutes
from gpuyard.serving.api_keys import ApiKeys
from gpuyard.serving.engine_process import kill_abandoned
from gpuyard.serving.handler import Handler
from gpuyard.serving.request_guard import RequestGuard
from gpuyard.serving.request_log import RequestLog
from gpuyard.serving.server import MAIN, SETTINGS, token_of
from gpuyard.serving.spec import ServerSettings
from gpuyard.serving.worker_models import WorkerModels

log = logging.getLogger("gpuyard.serving")
FLUSH_S = 1.0  # how often logged requests are written
POLL_S = 0.5  # how often a worker polls the board
SWITCH_S = 0.0005


class AsyncStop(Protocol):
    """A server that finishes its requests in flight, at most for some seconds."""

    async def stop(self, grace: float | None) -> None: ...


class Worker:
    """The RSGI application of one process."""

    def __init__(self, settings: ServerSettings, token: str) -> None:
        self._settings = settings
        load = functools.partial(load_transform, allow_code=settings.allow_code)
        self._models = WorkerModels(settings, load)
        access = settings.access
        self._guard = RequestGuard(
            HostCheck(settings.host, access.allow_hosts),
            token,
            ApiKeys(Path(access.api_keys)) if access.api_keys else None,
        )
        routes = AdminRoutes(version=__version__)
        spec = settings.request_log
        self._request_log = None if spec is None else RequestLog(spec)
        self._handler = Handler(
            self._models, settings.limits, routes, self._guard, self._request_log
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._grpc: AsyncStop | None = None
        self.__rsgi__ = self._handler.__rsgi__

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Load the models before the port opens, so that every connection can be served."""
        try:
            loop.run_until_complete(self._start())
        except GpuyardError as error:
            sys.stderr.write(f"{error}\n")
            sys.exit(EXIT_EXTERNAL_ERROR)

    def __rsgi_del__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stop the periodic tasks and write the last counts; no request is in flight any more."""
        for task in self._tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        if self._grpc is not None:
            loop.run_until_complete(self._grpc.stop(self._settings.limits.drain_s))
        self._models.close()
        if self._request_log is not None:
            self._request_log.flush()

    async def _start(self) -> None:
        await self._models.start()
        pairs: list[tuple[float, Callable[[], Awaitable[None]]]] = [
            (POLL_S, self._models.poll_commands),
            (POLL_S, self._orphaned),
            (POLL_S, self._refresh_keys),
            (min(1.0, self._settings.limits.time_s / 4), self._sweep),
        ]
        if self._request_log is not None:
            pairs.append((FLUSH_S, self._flush))
        if self._settings.engine is not None:
            pairs.append((POLL_S, self._models.poll_engines))
        if self._settings.follow_s > 0:
            pairs.append((self._settings.follow_s, self._models.follow))
        self._tasks = [asyncio.create_task(_every(seconds, call)) for seconds, call in pairs]
        if self._settings.grpc_port is not None:
            from gpuyard.serving.grpc_service import GrpcService, start_grpc  # needs an extra

            service = GrpcService(self._handler, __version__)
            self._grpc = await start_grpc(self._settings, service)
        sys.setswitchinterval(SWITCH_S)
        gc.collect()
        gc.freeze()  # loaded models stay, so the collector need not traverse them again

    # A worker whose main process was killed would otherwise run forever.
    async def _orphaned(self) -> None:
        if os.getppid() != int(os.environ[MAIN]):
            log.error("the main process is gone; stopping")
            kill_abandoned(Path(self._settings.folder))
            os.kill(os.getpid(), signal.SIGTERM)

    async def _refresh_keys(self) -> None:
        self._guard.refresh()

    async def _flush(self) -> None:
        assert self._request_log is not None
        self._request_log.flush()

    async def _sweep(self) -> None:
        self._handler.sweep()


async def _every(seconds: float, call: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            await call()
        except Exception:
            log.exception("a periodic task failed; retrying")


def make_worker() -> Worker:
    """Return the application for the settings file named in the environment."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(process)d %(message)s", stream=sys.stderr
    )
    path = Path(os.environ[SETTINGS])
    settings = load_json_file(path, ServerSettings)
    return Worker(settings, token_of(settings))
