"""Requests to answers: the inference path, kept short, and what every request is held to (size, time, number)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from time import perf_counter
from typing import Protocol

from granian.rsgi import ProtocolClosed, ProtocolError

from gpuyard.serving.answers import HEAD_LENGTH, JSON, error_body
from gpuyard.serving.completions import Stream
from gpuyard.serving.failures import ModelError, RequestError
from gpuyard.serving.fleet import Fleet, Slot
from gpuyard.serving.spec import LimitSpec
from gpuyard.serving.version import Answer, Version

__all__ = ["Handler", "Headers", "Pages", "Proto", "Scope", "refused"]

log = logging.getLogger("gpuyard.serving")
RETRY_AFTER_S = 1
GONE = (ProtocolClosed, ProtocolError)  # the client has left


class Headers(Protocol):
    """A request's headers, as RSGI gives them."""

    def get(self, key: str, default: str | None = None) -> str | None: ...


class Scope(Protocol):
    """A request's head, as RSGI gives it."""

    path: str
    method: str
    client: str

    @property
    def headers(self) -> Headers: ...


class Proto(Protocol):
    """A request's body and the way back, as RSGI gives them."""

    def __call__(self) -> Awaitable[bytes]: ...
    def __aiter__(self) -> AsyncIterator[bytes]: ...
    def client_disconnect(self) -> Awaitable[None]: ...
    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None: ...
    def response_stream(self, status: int, headers: list[tuple[str, str]]) -> Stream: ...


class Pages(Protocol):
    """Everything but inference."""

    async def answer(self, handler: Handler, scope: Scope, proto: Proto) -> Answer | None:
        """The answer; None where it has been sent already."""
        ...


def refused(error: RequestError) -> Answer:
    """The answer to a request that is refused."""
    headers = [JSON, ("retry-after", str(RETRY_AFTER_S))] if error.status == 503 else [JSON]
    return error.status, headers, error_body(error.message)


class Handler:
    """The RSGI application of one worker."""

    def __init__(self, fleet: Fleet, limits: LimitSpec, pages: Pages) -> None:
        self.fleet = fleet
        self._limits = limits
        self._pages = pages
        self._most = limits.waiting
        self._body_bytes = limits.body_bytes
        self._clock: dict[asyncio.Task[object], float] = {}  # requests under way, and when they came

    @property
    def under_way(self) -> int:
        """Requests that are being answered."""
        return len(self._clock)

    async def __rsgi__(self, scope: Scope, proto: Proto) -> None:
        """Answers one request."""
        start = perf_counter()
        target = self.fleet.paths.get(scope.path)
        if target is None or scope.method != "POST":
            await self._page(scope, proto, start)
            return
        version = _chosen(target)
        if len(self._clock) >= self._most:
            self._send(proto, version, refused(_full()), start)
            return
        task = asyncio.current_task()
        assert task is not None
        self._clock[task] = start
        try:
            headers = scope.headers
            version.batcher.arriving += 1
            try:
                length = headers.get("content-length")
                if length is None or int(length) > self._body_bytes or headers.get("content-encoding") is not None:
                    body = await self.body(headers, proto)
                else:
                    body = await proto()
            finally:
                version.batcher.arriving -= 1
            answer = await self._infer(target, version, body, headers.get(HEAD_LENGTH))
        except RequestError as error:
            answer = refused(error)
        except asyncio.CancelledError:  # by `sweep`
            answer = refused(self._too_long())
        except GONE:
            answer = 499, [JSON], b""  # nobody hears it; it is counted
        except Exception:
            log.exception("a request failed")
            answer = 500, [JSON], error_body("internal error")
        finally:
            del self._clock[task]
        self._send(proto, version, answer, start)

    async def _infer(self, target: Slot | Version, version: Version, body: bytes, head_length: str | None) -> Answer:
        """The version's answer; where a canary fails, that of the version in use."""
        try:
            return await version.answer(body, head_length)
        except ModelError as error:
            version.meter.failures += 1
            if version.meter.failures.bit_count() == 1:  # the 1st, 2nd, 4th, 8th …: a log that cannot flood
                log.error("%s/%s: failure %d: %s", *version.label, version.meter.failures, error)
            if isinstance(target, Slot) and isinstance(target.active, Version) and target.active is not version:
                try:
                    return await target.active.answer(body, head_length)
                except ModelError:
                    target.active.meter.failures += 1
            return 500, [JSON], error_body(str(error))

    def _send(self, proto: Proto, version: Version, answer: Answer, start: float) -> None:
        """Sends an answer and counts it."""
        proto.response_bytes(*answer)
        version.meter.count(answer[0], perf_counter() - start)

    async def body(self, headers: Headers, proto: Proto) -> bytes:
        """A body of any kind, within its limit."""
        body = await self._read(headers.get("content-length"), proto)
        encoding = headers.get("content-encoding")
        if encoding not in (None, "", "identity"):  # said once the body is read: the connection can go on
            raise RequestError(415, f'content-encoding "{encoding}" is not taken; send the body as it is')
        return body

    async def _read(self, length: str | None, proto: Proto) -> bytes:
        """The bytes of a body, by its length or by its chunks."""
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
        """What a body beyond the limit is told."""
        return RequestError(413, f"the body is larger than {self._body_bytes} bytes")

    def _too_long(self) -> RequestError:
        """What a request beyond its time is told."""
        return RequestError(408, f"the request took longer than {self._limits.time_s:g} s")

    async def _page(self, scope: Scope, proto: Proto, start: float) -> None:
        """Answers anything but inference, held to the same limits."""
        if len(self._clock) >= self._most and not scope.path.startswith(("/v2/health", "/metrics")):
            proto.response_bytes(*refused(_full()))
            return
        task = asyncio.current_task()
        assert task is not None
        self._clock[task] = start
        answer: Answer | None
        try:
            answer = await self._pages.answer(self, scope, proto)
        except RequestError as error:
            answer = refused(error)
        except asyncio.CancelledError:
            answer = refused(self._too_long())
        except GONE:
            return
        except Exception:
            log.exception("a request failed")
            answer = 500, [JSON], error_body("internal error")
        finally:
            self._clock.pop(task, None)
        if answer is not None:
            proto.response_bytes(*answer)

    def unclocked(self) -> None:
        """Frees the request that calls from the limit of time: its answer has begun."""
        task = asyncio.current_task()
        if task is not None:
            self._clock.pop(task, None)

    def sweep(self) -> None:
        """Ends the requests that have taken too long: a client that sends too slowly, a model that is stuck."""
        oldest = perf_counter() - self._limits.time_s
        for task, start in list(self._clock.items()):
            if start < oldest:
                task.cancel()


def _chosen(target: Slot | Version) -> Version:
    """The version that answers."""
    chosen = target.chosen() if isinstance(target, Slot) else target
    assert isinstance(chosen, Version), "only tensors have inference paths"
    return chosen


def _full() -> RequestError:
    """What a request is told when there are too many."""
    return RequestError(503, "the server is full; come back later")
