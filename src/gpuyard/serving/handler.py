"""RSGI request handler: the inference path and the limits on size, time and concurrency."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Protocol, TypeVar

from granian.rsgi import ProtocolClosed, ProtocolError

from gpuyard.serving.completions import CompletionStream
from gpuyard.serving.model_slot import ModelSlot
from gpuyard.serving.request_errors import ModelError, RequestError
from gpuyard.serving.request_guard import CHALLENGE, RequestGuard, RequestHeaders
from gpuyard.serving.request_log import RequestLog
from gpuyard.serving.response_writer import HEAD_LENGTH, JSON, error_body
from gpuyard.serving.spec import LimitSpec
from gpuyard.serving.version import Answer, RawResponse, Version
from gpuyard.serving.worker_models import WorkerModels

log = logging.getLogger("gpuyard.serving")
RETRY_AFTER_S = 1
_EXTRA_HEADERS = {503: [("retry-after", str(RETRY_AFTER_S))], 401: [CHALLENGE]}
MANAGEMENT = "/v2/repository/models/"
OPEN_PATHS = ("/v2/health/live", "/v2/health/ready")  # for probes, which have no key
DISCONNECTED = (ProtocolClosed, ProtocolError)  # the client has disconnected


_T = TypeVar("_T")


class Scope(Protocol):
    """The scope of an RSGI request."""

    path: str
    method: str
    client: str

    @property
    def headers(self) -> RequestHeaders: ...


class Proto(Protocol):
    """The protocol object of an RSGI request: its body and its response."""

    def __call__(self) -> Awaitable[bytes]: ...
    def __aiter__(self) -> AsyncIterator[bytes]: ...
    def client_disconnect(self) -> Awaitable[None]: ...
    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None: ...
    def response_stream(self, status: int, headers: list[tuple[str, str]]) -> CompletionStream: ...


class OtherRoutes(Protocol):
    """Handler of every request that is not an inference."""

    async def respond(self, handler: Handler, scope: Scope, proto: Proto) -> RawResponse | None:
        """Return the response, or None if it has already been sent."""
        ...


def error_response(error: RequestError) -> RawResponse:
    """Return the error response for a rejected request."""
    extra = _EXTRA_HEADERS.get(error.status, [])
    return error.status, [JSON, *extra], error_body(error.message)


class Handler:
    """The RSGI application of one worker."""

    def __init__(
        self,
        models: WorkerModels,
        limits: LimitSpec,
        routes: OtherRoutes,
        guard: RequestGuard,
        request_log: RequestLog | None = None,
    ) -> None:
        self.request_log = request_log
        self.models = models
        self.guard = guard
        self._limits = limits
        self._routes = routes
        self._max_in_flight = limits.waiting
        self._body_bytes = limits.body_bytes
        self._started_s: dict[asyncio.Task[object], float] = {}  # of in-flight requests

    @property
    def in_flight(self) -> int:
        return len(self._started_s)

    async def __rsgi__(self, scope: Scope, proto: Proto) -> None:
        start = perf_counter()
        target = self.models.paths.get(scope.path)
        if target is None or scope.method != "POST":
            await self._respond(scope, proto, start)
            return
        headers = scope.headers
        try:
            self.guard.admit(headers)
        except RequestError as error:  # before a version is chosen: it is not a request to it
            proto.response_bytes(*error_response(error))
            return
        version = choose(target)
        if len(self._started_s) >= self._max_in_flight:
            self._send(proto, version, error_response(_full()), start)
            return
        task = asyncio.current_task()
        assert task is not None
        self._started_s[task] = start
        body = b""
        try:
            version.batcher.arriving += 1
            try:
                length = headers.get("content-length")
                if (
                    length is None
                    or int(length) > self._body_bytes
                    or headers.get("content-encoding") is not None
                ):
                    body = await self.body(headers, proto)
                else:
                    body = await proto()
            finally:
                version.batcher.arriving -= 1
            head_length = headers.get(HEAD_LENGTH)

            def infer(version: Version) -> Awaitable[Answer]:
                return version.infer(body, head_length)

            answering, answer = await self.infer(target, version, infer)
            response = answering.write(answer)
            mirror(target, infer, answering, answer)
        except ModelError as error:
            response = error.status, [JSON], error_body(str(error))
        except RequestError as error:
            response = error_response(error)
        except asyncio.CancelledError:  # by `sweep`
            response = error_response(self._too_long())
        except DISCONNECTED:
            response = 499, [JSON], b""  # not received by anyone, but counted
        except Exception:
            log.exception("a request failed")
            response = 500, [JSON], error_body("internal error")
        finally:
            del self._started_s[task]
        self._send(proto, version, response, start)
        if self.request_log is not None:
            self.request_log.add(version.label, body, response, perf_counter() - start)

    async def infer(
        self,
        target: ModelSlot | Version,
        version: Version,
        infer: Callable[[Version], Awaitable[_T]],
    ) -> tuple[Version, _T]:
        """Return the outputs and the version that gave them.

        A request that fails on a canary is served by the active version.
        """
        try:
            return version, await infer(version)
        except ModelError as error:
            version.metrics.failures += 1
            # Failures 1, 2, 4, 8, … only, so that the log is not flooded.
            if version.metrics.failures.bit_count() == 1:
                log.error("%s/%s: failure %d: %s", *version.label, version.metrics.failures, error)
            if not isinstance(target, ModelSlot) or not isinstance(target.active, Version):
                raise
            if target.active is version:
                raise
        try:
            return target.active, await infer(target.active)
        except ModelError:
            target.active.metrics.failures += 1
            raise

    @contextmanager
    def under_limits(self, start: float) -> Iterator[None]:
        """Count the calling task as a request in flight, which `sweep` cancels if it is slow."""
        if len(self._started_s) >= self._max_in_flight:
            raise _full()
        task = asyncio.current_task()
        assert task is not None
        self._started_s[task] = start
        try:
            yield
        except asyncio.CancelledError:
            if perf_counter() - start < self._limits.time_s:  # by the client
                raise
            task.uncancel()
            raise self._too_long() from None
        finally:
            self._started_s.pop(task, None)

    def _send(self, proto: Proto, version: Version, response: RawResponse, start: float) -> None:
        proto.response_bytes(*response)
        version.metrics.count(response[0], perf_counter() - start)

    async def body(self, headers: RequestHeaders, proto: Proto) -> bytes:
        """Read a request body. Raise RequestError if it is too large or encoded."""
        body = await self._read(headers.get("content-length"), proto)
        encoding = headers.get("content-encoding")
        # Rejected only after the body is read, so that the connection stays usable.
        if encoding not in (None, "", "identity"):
            raise RequestError(415, f'content-encoding "{encoding}" is not supported')
        return body

    async def _read(self, length: str | None, proto: Proto) -> bytes:
        if length is not None:
            if int(length) > self._body_bytes:
                raise self._too_large()
            return await proto()
        chunks, size_bytes = [], 0
        async for chunk in proto:
            size_bytes += len(chunk)
            if size_bytes > self._body_bytes:
                raise self._too_large()
            chunks.append(chunk)
        return b"".join(chunks)

    def _too_large(self) -> RequestError:
        return RequestError(413, f"the body is larger than {self._body_bytes} bytes")

    def _too_long(self) -> RequestError:
        return RequestError(408, f"the request took longer than {self._limits.time_s:g} s")

    async def _respond(self, scope: Scope, proto: Proto, start: float) -> None:
        is_open = scope.path in OPEN_PATHS
        is_probe = is_open or scope.path == "/metrics"
        if len(self._started_s) >= self._max_in_flight and not is_probe:
            proto.response_bytes(*error_response(_full()))
            return
        task = asyncio.current_task()
        assert task is not None
        self._started_s[task] = start
        response: RawResponse | None
        try:
            if scope.path.startswith(MANAGEMENT):
                self.guard.admit_management(scope.headers)
            elif not is_open:
                self.guard.admit(scope.headers)
            response = await self._routes.respond(self, scope, proto)
        except RequestError as error:
            response = error_response(error)
        except asyncio.CancelledError:
            response = error_response(self._too_long())
        except DISCONNECTED:
            return
        except Exception:
            log.exception("a request failed")
            response = 500, [JSON], error_body("internal error")
        finally:
            self._started_s.pop(task, None)
        if response is not None:
            proto.response_bytes(*response)

    def exempt_from_time_limit(self) -> None:
        """Exempt the calling request from the time limit, because its response has started."""
        task = asyncio.current_task()
        if task is not None:
            self._started_s.pop(task, None)

    def sweep(self) -> None:
        """Cancel requests over the time limit: slow clients and stuck models."""
        oldest = perf_counter() - self._limits.time_s
        for task, start in list(self._started_s.items()):
            if start < oldest:
                task.cancel()


def choose(target: ModelSlot | Version) -> Version:
    """Return the version for the next request of a path."""
    chosen = target.choose() if isinstance(target, ModelSlot) else target
    assert isinstance(chosen, Version), "only tensors have inference paths"
    return chosen


def mirror(
    target: ModelSlot | Version,
    infer: Callable[[Version], Awaitable[Answer]],
    answering: Version,
    answer: Answer,
) -> None:
    """Send a copy of an answered request to the shadow of its model, if there is one."""
    if isinstance(target, ModelSlot) and target.shadow is not None:
        target.shadow.mirror(infer, answering, answer)


def _full() -> RequestError:
    return RequestError(503, "too many requests; try again later")
