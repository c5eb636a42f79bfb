"""The OpenAI form of completions for small language models: whole, or streamed as server-sent events."""

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

from gpuyard.serving.failures import ModelError, RequestError
from gpuyard.serving.language import Generation, LanguageEngine, Token
from gpuyard.serving.meter import Meter, Reading
from gpuyard.serving.sources import Found

__all__ = ["Completion", "LanguageVersion", "Stream", "read_completion"]

log = logging.getLogger("gpuyard.serving")
MOST_TOKENS = 4096  # of one completion
_END = object()


class Stream(Protocol):
    """An answer that is sent in pieces."""

    def send_bytes(self, data: bytes) -> Awaitable[None]: ...


class Completion(msgspec.Struct, kw_only=True):
    """A request as OpenAI's API writes it; fields that change nothing here are let through."""

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


_DECODER = msgspec.json.Decoder(Completion)


def read_completion(body: bytes) -> Completion:
    """The request; RequestError where it is wrong."""
    try:
        ask = _DECODER.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise RequestError(400, f"the request does not fit the API: {error}") from None
    if ask.n != 1:
        raise RequestError(400, "n must be 1")
    if not 1 <= ask.max_tokens <= MOST_TOKENS:
        raise RequestError(400, f"max_tokens must be 1 to {MOST_TOKENS}")
    if not 0 <= ask.temperature <= 2 or not 0 < ask.top_p <= 1:
        raise RequestError(400, "temperature must be 0 to 2, and top_p above 0 and at most 1")
    if ask.seed is not None and not 0 <= ask.seed < 1 << 63:
        raise RequestError(400, "seed must be a number of 63 bits")
    return ask


def _generation(ask: Completion) -> Generation:
    """What the engine is asked."""
    stops = (ask.stop,) if isinstance(ask.stop, str) else tuple(ask.stop or ())
    return Generation(
        prompt=ask.prompt if isinstance(ask.prompt, str) else tuple(ask.prompt), max_tokens=ask.max_tokens,
        temperature=ask.temperature, top_p=ask.top_p, seed=ask.seed, stop=tuple(stop for stop in stops if stop),
        echo=ask.echo,
    )  # fmt: skip


class LanguageVersion:
    """A version of a language model that answers, one request after another."""

    __slots__ = ("_engine", "_pool", "_turn", "created", "found", "meter", "requests")

    def __init__(self, found: Found, engine: LanguageEngine, pool: ThreadPoolExecutor) -> None:
        self.found = found
        self.meter = Meter(found.name, found.version)
        self.created = int(time.time())
        self.requests = 0
        self._engine = engine
        self._pool = pool
        self._turn = asyncio.Lock()

    def reading(self) -> Reading:
        """Its counts now."""
        return self.meter.reading(self.requests)

    async def pieces(self, ask: Completion) -> AsyncGenerator[Token]:
        """The text as it is written; leaving the loop early stops the writing."""
        wanted = _generation(ask)
        loop, stopped = asyncio.get_running_loop(), threading.Event()
        queue: asyncio.Queue[Token | Exception | object] = asyncio.Queue()

        def write() -> None:
            """In the thread: every piece to the loop."""
            try:
                for token in self._engine.generate(wanted, stopped):
                    loop.call_soon_threadsafe(queue.put_nowait, token)
            except RequestError as error:
                loop.call_soon_threadsafe(queue.put_nowait, error)
            except Exception as error:
                loop.call_soon_threadsafe(queue.put_nowait, ModelError(f"the model failed: {error}"))
            loop.call_soon_threadsafe(queue.put_nowait, _END)

        async with self._turn:
            self.requests += 1
            done = loop.run_in_executor(self._pool, write)
            try:
                while (item := await queue.get()) is not _END:
                    if isinstance(item, Exception):
                        raise item
                    assert isinstance(item, Token)
                    yield item
            finally:
                stopped.set()
                await asyncio.shield(done)

    async def complete(self, ask: Completion) -> tuple[int, list[tuple[str, str]], bytes]:
        """The answer in one piece."""
        start = time.perf_counter()
        texts, last = [], Token(text="", prompt_tokens=0, completion_tokens=0)
        async with contextlib.aclosing(self.pieces(ask)) as pieces:
            async for token in pieces:
                texts.append(token.text)
                last = token
        body = msgspec.json.encode(self._object("".join(texts), last, new_id(), usage=True))
        self.meter.rows += last.completion_tokens
        self.meter.count(200, time.perf_counter() - start)
        return 200, [("content-type", "application/json")], body

    async def send(self, stream: Stream, first: bytes, events: AsyncGenerator[bytes]) -> None:
        """Sends the events; a client that has gone ends the writing."""
        start = time.perf_counter()
        try:
            await stream.send_bytes(first)
            async for event in events:
                await stream.send_bytes(event)
        except Exception as error:  # what the server raises when the connection is closed, or a model that failed
            log.warning("a stream of %s ended early: %s", self.found.name, error)
        finally:
            await events.aclose()
            self.meter.count(200, time.perf_counter() - start)

    async def events(self, ask: Completion) -> AsyncGenerator[bytes]:
        """The answer as server-sent events."""
        ident, last = new_id(), Token(text="", prompt_tokens=0, completion_tokens=0)
        async with contextlib.aclosing(self.pieces(ask)) as pieces:
            async for token in pieces:
                last = token
                if token.text or token.finish:
                    part = self._object(token.text, token, ident, usage=False)
                    yield b"data: " + msgspec.json.encode(part) + b"\n\n"
        if (ask.stream_options or {}).get("include_usage"):
            final = self._object("", last, ident, usage=True) | {"choices": []}
            yield b"data: " + msgspec.json.encode(final) + b"\n\n"
        yield b"data: [DONE]\n\n"

    def _object(self, text: str, token: Token, ident: str, *, usage: bool) -> dict[str, object]:
        """A `text_completion` object."""
        found: dict[str, object] = {
            "id": ident, "object": "text_completion", "created": int(time.time()), "model": self.found.name,
            "choices": [{"index": 0, "text": text, "logprobs": None, "finish_reason": token.finish or None}],
        }  # fmt: skip
        if usage:
            found["usage"] = {
                "prompt_tokens": token.prompt_tokens, "completion_tokens": token.completion_tokens,
                "total_tokens": token.prompt_tokens + token.completion_tokens,
            }  # fmt: skip
        return found


def new_id() -> str:
    """A name for a completion."""
    return f"cmpl-{uuid.uuid4().hex}"
