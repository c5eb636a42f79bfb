"""OpenAI-compatible completions for small language models, plain or as server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import msgspec

from gpuyard.serving.language import GenerationRequest, LanguageEngine, Token
from gpuyard.serving.request_errors import ModelError, RequestError
from gpuyard.serving.version_metrics import MetricsSnapshot, VersionMetrics
from gpuyard.serving.version_sources import ResolvedVersion

log = logging.getLogger("gpuyard.serving")
MAX_TOKENS = 4096  # per completion
_END = object()


class CompletionStream(Protocol):
    """A response that is sent in chunks."""

    def send_bytes(self, data: bytes) -> Awaitable[None]: ...


class Completion(msgspec.Struct, kw_only=True):
    """A completion request in the OpenAI format; fields that would change the answer are refused.

    The last ones are read only to refuse them: an ignored penalty gives another text than was
    requested.
    """

    model: str
    prompt: str | list[int]
    max_tokens: int = 16
    temperature: float = 1.0
    top_p: float = 1.0
    n: int = 1
    stream: bool = False
    stop: str | list[str] | None = None
    seed: int | None = None
    echo: bool = False
    stream_options: dict[str, object] | None = None
    logprobs: int | None = None
    best_of: int | None = None
    suffix: str | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None


_DECODER = msgspec.json.Decoder(Completion)


def read_completion(body: bytes) -> Completion:
    """Parse a request body. Raise RequestError if it is invalid."""
    try:
        request = _DECODER.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise RequestError(400, f"invalid request: {error}") from None
    unsupported = (
        ("logprobs", request.logprobs is not None),
        ("best_of", request.best_of not in (None, 1)),
        ("suffix", bool(request.suffix)),
        ("presence_penalty", bool(request.presence_penalty)),
        ("frequency_penalty", bool(request.frequency_penalty)),
        ("logit_bias", bool(request.logit_bias)),
    )
    for name, is_set in unsupported:
        if is_set:
            raise RequestError(400, f"{name} is not supported; leave it out")
    if request.n != 1:
        raise RequestError(400, "n must be 1")
    if not 1 <= request.max_tokens <= MAX_TOKENS:
        raise RequestError(400, f"max_tokens must be between 1 and {MAX_TOKENS}")
    if not 0 <= request.temperature <= 2 or not 0 < request.top_p <= 1:
        raise RequestError(400, "temperature must be between 0 and 2, top_p above 0 and at most 1")
    if request.seed is not None and not 0 <= request.seed < 1 << 63:
        raise RequestError(400, "seed must be an integer of at most 63 bits")
    return request


def _generation(request: Completion) -> GenerationRequest:
    stops = (request.stop,) if isinstance(request.stop, str) else tuple(request.stop or ())
    return GenerationRequest(
        prompt=request.prompt if isinstance(request.prompt, str) else tuple(request.prompt),
        max_tokens=request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        seed=request.seed,
        stop=tuple(stop for stop in stops if stop),
        echo=request.echo,
    )


class LanguageVersion:
    """A loaded language-model version that serves one request at a time."""

    __slots__ = ("_engine", "_lock", "_pool", "created", "metrics", "requests", "resolved")

    def __init__(
        self, resolved: ResolvedVersion, engine: LanguageEngine, pool: ThreadPoolExecutor
    ) -> None:
        self.resolved = resolved
        self.metrics = VersionMetrics(resolved.name, resolved.version)
        self.created = int(time.time())
        self.requests = 0
        self._engine = engine
        self._pool = pool
        self._lock = asyncio.Lock()

    def snapshot(self) -> MetricsSnapshot:
        return self.metrics.snapshot(self.requests)

    async def pieces(self, request: Completion) -> AsyncGenerator[Token]:
        """Yield the text as it is generated; closing the generator stops the generation."""
        generation = _generation(request)
        loop, stopped = asyncio.get_running_loop(), threading.Event()
        queue: asyncio.Queue[Token | Exception | object] = asyncio.Queue()

        def generate() -> None:
            try:
                for token in self._engine.generate(generation, stopped):
                    loop.call_soon_threadsafe(queue.put_nowait, token)
            except RequestError as error:
                loop.call_soon_threadsafe(queue.put_nowait, error)
            except Exception as error:
                loop.call_soon_threadsafe(
                    queue.put_nowait, ModelError(f"the model failed: {error}")
                )
            loop.call_soon_threadsafe(queue.put_nowait, _END)

        async with self._lock:
            self.requests += 1
            done = loop.run_in_executor(self._pool, generate)
            try:
                while (item := await queue.get()) is not _END:
                    if isinstance(item, Exception):
                        raise item
                    assert isinstance(item, Token)
                    yield item
            finally:
                stopped.set()
                await asyncio.shield(done)

    async def complete(self, request: Completion) -> tuple[int, list[tuple[str, str]], bytes]:
        """Return the whole completion as one response."""
        start = time.perf_counter()
        texts, last = [], Token(text="", prompt_tokens=0, completion_tokens=0)
        async with contextlib.aclosing(self.pieces(request)) as pieces:
            async for token in pieces:
                texts.append(token.text)
                last = token
        body = msgspec.json.encode(self._object("".join(texts), last, new_id(), usage=True))
        self.metrics.rows += last.completion_tokens
        self.metrics.count(200, time.perf_counter() - start)
        return 200, [("content-type", "application/json")], body

    async def send(
        self, stream: CompletionStream, first: bytes, events: AsyncGenerator[bytes]
    ) -> None:
        """Send the events; stop generating when the client disconnects."""
        start = time.perf_counter()
        try:
            await stream.send_bytes(first)
            async for event in events:
                await stream.send_bytes(event)
        except Exception as error:  # the connection was closed, or the model failed
            log.warning("%s: stream ended early: %s", self.resolved.name, error)
        finally:
            await events.aclose()
            self.metrics.count(200, time.perf_counter() - start)

    async def events(self, request: Completion) -> AsyncGenerator[bytes]:
        """Yield the completion as server-sent events."""
        ident, last = new_id(), Token(text="", prompt_tokens=0, completion_tokens=0)
        async with contextlib.aclosing(self.pieces(request)) as pieces:
            async for token in pieces:
                last = token
                if token.text or token.finish:
                    part = self._object(token.text, token, ident, usage=False)
                    yield b"data: " + msgspec.json.encode(part) + b"\n\n"
        if (request.stream_options or {}).get("include_usage"):
            final = self._object("", last, ident, usage=True) | {"choices": []}
            yield b"data: " + msgspec.json.encode(final) + b"\n\n"
        yield b"data: [DONE]\n\n"

    def _object(self, text: str, token: Token, ident: str, *, usage: bool) -> dict[str, object]:
        completion: dict[str, object] = {
            "id": ident,
            "object": "text_completion",
            "created": int(time.time()),
            "model": self.resolved.name,
            "choices": [
                {"index": 0, "text": text, "logprobs": None, "finish_reason": token.finish or None}
            ],
        }
        if usage:
            completion["usage"] = {
                "prompt_tokens": token.prompt_tokens,
                "completion_tokens": token.completion_tokens,
                "total_tokens": token.prompt_tokens + token.completion_tokens,
            }
        return completion


def new_id() -> str:
    """Return a new completion id."""
    return f"cmpl-{uuid.uuid4().hex}"
