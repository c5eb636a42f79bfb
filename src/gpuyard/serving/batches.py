"""Dynamic batching on the event loop: requests that are there together are computed together.

A row never waits for rows that may not come. While one batch is computed the next gathers; a lone request is computed
at once; and with a wait, rows wait only while another request for the same version is still being received.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from gpuyard.serving.asks import Rows
from gpuyard.serving.failures import ModelError, RequestError
from gpuyard.serving.spec import BatchSpec

__all__ = ["Batcher", "Slice", "Work"]

INLINE_S = 0.002  # a batch that takes less is computed on the event loop: another thread would cost more than it frees


class Work(NamedTuple):
    """One request's rows, and where its answer goes."""

    rows: Rows
    size: int  # how many rows
    answer: asyncio.Future[Slice]


class Slice(NamedTuple):
    """A request's part of what a batch gave."""

    outputs: Sequence[Sequence[object] | np.ndarray]  # by output: flat lists of the whole batch, or arrays
    start: int
    size: int


Compute = Callable[[Sequence[Work]], Sequence[Slice | Exception]]


class Batcher:
    """The queue of one version."""

    __slots__ = (
        "_busy", "_compute", "_inline", "_loop", "_pool", "_queue", "_queued", "_scheduled", "_spec", "arriving",
        "batches",
    )  # fmt: skip

    def __init__(self, compute: Compute, spec: BatchSpec, pool: ThreadPoolExecutor, *, inline: bool) -> None:
        self._compute = compute
        self._spec = spec
        self._pool = pool
        self._inline = inline
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Work] = deque()
        self._queued = 0  # rows in the queue
        self._busy = False
        self._scheduled: asyncio.Handle | None = None
        self.arriving = 0  # requests that are known and not yet in the queue
        self.batches = 0

    def submit(self, rows: Rows, size: int) -> asyncio.Future[Slice]:
        """The answer to come for these rows."""
        answer: asyncio.Future[Slice] = self._loop.create_future()
        self._queue.append(Work(rows, size, answer))
        self._queued += size
        if self._busy:
            return answer
        if self._queued >= self._spec.rows:
            self._flush()
        elif self._scheduled is None:
            if self._spec.wait_s > 0 and self.arriving > 0:
                self._scheduled = self._loop.call_later(self._spec.wait_s, self._flush)
            else:
                self._scheduled = self._loop.call_soon(self._flush)
        elif self.arriving == 0 and isinstance(self._scheduled, asyncio.TimerHandle):
            self._flush()
        return answer

    def _flush(self) -> None:
        """Computes what is queued, a batch at a time."""
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None
        while self._queue and not self._busy:
            works = self._take()
            if not works:
                continue
            self.batches += 1
            if self._inline and sum(work.size for work in works) <= self._spec.rows:
                self._settle(works, self._safely(works))
            else:
                self._busy = True
                done = self._loop.run_in_executor(self._pool, self._safely, works)
                done.add_done_callback(lambda done, works=works: self._finished(works, done))  # type: ignore[misc]

    def _take(self) -> list[Work]:
        """The next batch; requests whose client or time is gone are left out."""
        works: list[Work] = []
        rows = 0
        while self._queue and (not works or rows + self._queue[0].size <= self._spec.rows):
            work = self._queue.popleft()
            self._queued -= work.size
            if not work.answer.done():
                works.append(work)
                rows += work.size
        return works

    def _finished(self, works: list[Work], done: asyncio.Future[Sequence[Slice | Exception]]) -> None:
        """A batch came back from its thread: answer it and start the next."""
        self._busy = False
        failed = done.exception() if not done.cancelled() else asyncio.CancelledError()
        self._settle(works, done.result() if failed is None else [ModelError(str(failed))] * len(works))
        self._flush()

    def _safely(self, works: Sequence[Work]) -> Sequence[Slice | Exception]:
        """What a batch gives; where it fails, each request alone, so that one does not take the others with it."""
        try:
            return self._compute(works)
        except (ModelError, RequestError) as error:
            if len(works) == 1:
                return [error]
        except Exception as error:  # a bug or a broken model: the request is told, the server goes on
            if len(works) == 1:
                return [ModelError(f"{type(error).__name__}: {error}")]
        return [found for work in works for found in self._safely((work,))]

    def _settle(self, works: Sequence[Work], found: Sequence[Slice | Exception]) -> None:
        """Hands the answers out."""
        for work, answer in zip(works, found, strict=True):
            if work.answer.done():
                continue
            if isinstance(answer, Exception):
                work.answer.set_exception(answer)
            else:
                work.answer.set_result(answer)
