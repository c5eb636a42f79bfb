"""OpenAI-compatible completions and chats for small language models, whole or as events."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import AsyncGenerator, Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import msgspec

from gpuyard.serving.completion_requests import CompletionRequest
from gpuyard.serving.completion_responses import NOTHING, Choice, ResponseObjects
from gpuyard.serving.language import GenerationRequest, LanguageEngine, Token
from gpuyard.serving.request_errors import ModelError, RequestError
from gpuyard.serving.version_metrics import MetricsSnapshot, VersionMetrics
from gpuyard.serving.version_sources import ResolvedVersion

log = logging.getLogger("gpuyard.serving")
_END = object()


class CompletionStream(Protocol):
    """A response that is sent in chunks."""

    def send_bytes(self, data: bytes) -> Awaitable[None]: ...


class LanguageVersion:
    """A loaded language-model version that generates one choice at a time."""

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

    async def pieces(self, generation: GenerationRequest) -> AsyncGenerator[Token]:
        """Yield the text as it is generated; closing the generator stops the generation."""
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

    async def _choices(self, request: CompletionRequest) -> AsyncGenerator[Choice]:
        """Yield the pieces of every choice, one choice after another."""
        generations = request.generations
        if request.is_chat:
            prompt = self._engine.chat_prompt(request.messages)
            generations = tuple(
                dataclasses.replace(generation, prompt=prompt) for generation in generations
            )
        for generation in generations[1:]:  # a wrong prompt fails before anything is generated
            self._engine.tokens_of(generation)
        for index, generation in enumerate(generations):
            async with contextlib.aclosing(self.pieces(generation)) as pieces:
                async for token in pieces:
                    yield Choice(index=index, text=token.text, last=token, scores=token.scores)

    async def complete(
        self, request: CompletionRequest
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Return all choices as one response."""
        start = time.perf_counter()
        whole = [Choice(index=at, text="", last=NOTHING) for at in range(len(request.generations))]
        async with contextlib.aclosing(self._choices(request)) as pieces:
            async for piece in pieces:
                whole[piece.index] = _joined(whole[piece.index], piece)
        objects = self._objects(request)
        body = msgspec.json.encode(objects.whole(whole, request.choices_per_prompt))
        self.metrics.rows += sum(choice.last.completion_tokens for choice in whole)
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

    async def events(self, request: CompletionRequest) -> AsyncGenerator[bytes]:
        """Yield the choices as server-sent events."""
        objects = self._objects(request)
        whole = [Choice(index=at, text="", last=NOTHING) for at in range(len(request.generations))]
        begun: set[int] = set()
        async with contextlib.aclosing(self._choices(request)) as pieces:
            async for piece in pieces:
                whole[piece.index] = _joined(whole[piece.index], piece)
                if piece.text or piece.last.finish or piece.scores:
                    yield _event(objects.chunk(piece, first=piece.index not in begun))
                    begun.add(piece.index)
        if request.include_usage:
            yield _event(objects.usage_chunk(whole, request.choices_per_prompt))
        yield b"data: [DONE]\n\n"

    def _objects(self, request: CompletionRequest) -> ResponseObjects:
        return ResponseObjects(
            self.resolved.name, is_chat=request.is_chat, with_logprobs=request.with_logprobs
        )


def _joined(choice: Choice, piece: Choice) -> Choice:
    return Choice(
        index=choice.index,
        text=choice.text + piece.text,
        last=piece.last,
        scores=choice.scores + piece.scores,
    )


def _event(part: dict[str, object]) -> bytes:
    return b"data: " + msgspec.json.encode(part) + b"\n\n"
