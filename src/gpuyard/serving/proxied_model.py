"""A language model in a separate engine: requests are passed on, and answers passed back."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import http.client
import socket
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

import msgspec

from gpuyard.serving.engine_process import HOST, EngineAddress, is_healthy
from gpuyard.serving.request_errors import RequestError
from gpuyard.serving.version_metrics import MetricsSnapshot, VersionMetrics
from gpuyard.serving.version_sources import ResolvedVersion

# Passed on for models in an engine, which also decides whether it supports them.
PATHS = ("/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/v1/responses")
MAX_IN_FLIGHT = 512  # threads that wait for the engine, per worker
CHUNK_BYTES = 1 << 16
EVENT_STREAM = "text/event-stream"
P = ParamSpec("P")
T = TypeVar("T")


class _Usage(msgspec.Struct):
    completion_tokens: int = 0


class _Answer(msgspec.Struct):
    usage: _Usage | None = None


def in_thread(
    pool: ThreadPoolExecutor, function: Callable[P, T], *arguments: P.args, **named: P.kwargs
) -> asyncio.Future[T]:
    """Run a blocking function in a pool."""
    call = functools.partial(function, *arguments, **named)
    return asyncio.get_running_loop().run_in_executor(pool, call)


class EngineReply:
    """The response of an engine whose body is still being received."""

    __slots__ = ("_link", "_pool", "_response", "content_type", "status")

    def __init__(
        self,
        link: http.client.HTTPConnection,
        response: http.client.HTTPResponse,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._link = link
        self._response = response
        self._pool = pool
        self.status = response.status
        self.content_type = response.headers.get("content-type", "application/json")

    @property
    def is_stream(self) -> bool:
        return self.content_type.startswith(EVENT_STREAM)

    async def read(self) -> bytes:
        """Return the whole body."""
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Yield the body as it arrives. Raise RequestError if the engine goes away."""
        while True:
            try:
                chunk = await in_thread(self._pool, self._response.read1, CHUNK_BYTES)
            except (OSError, http.client.HTTPException, ValueError):
                raise RequestError(503, "the engine went away; try again later") from None
            if not chunk:
                return
            yield chunk

    def close(self) -> None:
        """Close the connection, upon which an engine stops generating."""
        if self._link.sock is not None:
            with contextlib.suppress(OSError):  # wakes the thread that reads
                self._link.sock.shutdown(socket.SHUT_RDWR)
        self._link.close()


class ProxiedVersion:
    """A language model that an engine serves on loopback."""

    __slots__ = ("_address", "_pool", "created", "is_ready", "metrics", "requests", "resolved")

    def __init__(self, resolved: ResolvedVersion, address: EngineAddress) -> None:
        self.resolved = resolved
        self.metrics = VersionMetrics(resolved.name, resolved.version)
        self.created = int(time.time())
        self.requests = 0
        self.is_ready = False
        self._address = address
        self._pool = ThreadPoolExecutor(MAX_IN_FLIGHT, "engine")

    def snapshot(self) -> MetricsSnapshot:
        return self.metrics.snapshot(self.requests)

    async def poll(self) -> None:
        """Ask whether the engine is ready."""
        self.is_ready = await in_thread(self._pool, is_healthy, self._address)

    async def send(self, path: str, body: bytes) -> EngineReply:
        """Pass a request on and return the response. Raise RequestError without an engine."""
        self.requests += 1
        link = http.client.HTTPConnection(HOST, self._address.port)
        try:
            response = await in_thread(self._pool, self._exchange, link, path, body)
        except (OSError, http.client.HTTPException):
            link.close()
            what = "the engine is starting or was restarted; try again later"
            raise RequestError(503, what) from None
        except asyncio.CancelledError:
            if link.sock is not None:
                with contextlib.suppress(OSError):
                    link.sock.shutdown(socket.SHUT_RDWR)
            raise
        return EngineReply(link, response, self._pool)

    def _exchange(
        self, link: http.client.HTTPConnection, path: str, body: bytes
    ) -> http.client.HTTPResponse:
        headers = {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {self._address.key}",
        }
        link.request("POST", path, body, headers)
        return link.getresponse()

    def count(self, status: int, start: float, body: bytes = b"") -> None:
        """Count a response, and the tokens that it reports."""
        self.metrics.count(status, time.perf_counter() - start)
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            usage = msgspec.json.decode(body, type=_Answer).usage if body else None
            self.metrics.rows += usage.completion_tokens if usage else 0
