"""One worker process: the application that granian calls, and its duties between requests."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from gpuyard import __version__
from gpuyard.datasets import load_transform
from gpuyard.document import load_json
from gpuyard.errors import GpuyardError
from gpuyard.serving.fleet import Fleet
from gpuyard.serving.handler import Handler
from gpuyard.serving.pages import ServerPages
from gpuyard.serving.server import MAIN, SETTINGS, TOKEN, is_loopback
from gpuyard.serving.spec import Settings

__all__ = ["Worker", "build"]

log = logging.getLogger("gpuyard.serving")
HEED_S = 0.5  # how often a worker looks at what the others say
SWITCH_S = 0.0005
EXIT_REFUSED = 4


class Worker:
    """The application of one process; granian calls its three RSGI methods."""

    def __init__(self, settings: Settings, token: str) -> None:
        self._settings = settings
        self._fleet = Fleet(settings, load_transform)
        pages = ServerPages(version=__version__, token=token, trusted=is_loopback(settings.host))
        self._handler = Handler(self._fleet, settings.limits, pages)
        self._duties: list[asyncio.Task[None]] = []
        self.__rsgi__ = self._handler.__rsgi__

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Loads the models before the port is opened: whoever can connect is answered."""
        try:
            loop.run_until_complete(self._start())
        except GpuyardError as error:
            sys.stderr.write(f"{error}\n")
            sys.exit(EXIT_REFUSED)

    def __rsgi_del__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Ends the duties and writes the last counts; the requests under way have been answered."""
        for duty in self._duties:
            duty.cancel()
        loop.run_until_complete(asyncio.gather(*self._duties, return_exceptions=True))
        self._fleet.close()

    async def _start(self) -> None:
        """Loads, and starts the duties."""
        await self._fleet.start()
        pairs: list[tuple[float, Callable[[], Awaitable[None]]]] = [
            (HEED_S, self._fleet.heed),
            (HEED_S, self._orphaned),
            (min(1.0, self._settings.limits.time_s / 4), self._sweep),
        ]
        if self._settings.follow_s > 0:
            pairs.append((self._settings.follow_s, self._fleet.follow))
        self._duties = [asyncio.create_task(_every(seconds, duty)) for seconds, duty in pairs]
        sys.setswitchinterval(SWITCH_S)
        gc.collect()
        gc.freeze()  # what was loaded stays; the collector need not walk over it again

    async def _orphaned(self) -> None:
        """Stops a worker whose main process was killed: no one would ever stop it."""
        if os.getppid() != int(os.environ[MAIN]):
            log.error("the main process is gone")
            os.kill(os.getpid(), signal.SIGTERM)

    async def _sweep(self) -> None:
        """Ends the requests that took too long."""
        self._handler.sweep()


async def _every(seconds: float, duty: Callable[[], Awaitable[None]]) -> None:
    """Does the duty again and again; one that fails is told and tried again."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await duty()
        except Exception:
            log.exception("a duty failed")


def build() -> Worker:
    """The application, from the settings that the environment names."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(message)s", stream=sys.stderr)
    path = Path(os.environ[SETTINGS])
    settings = load_json(path.read_text(encoding="utf-8"), Settings, str(path))
    return Worker(settings, os.environ.get(TOKEN, ""))
