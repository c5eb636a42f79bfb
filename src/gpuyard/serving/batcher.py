"""Dynamic batching on the event loop: concurrent requests are computed as one batch.

A row never waits for rows that may not arrive: while one batch runs, the next one fills; a single
request runs immediately; with `wait_s`, rows wait only while another request for the same version
is still being received.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from gpuyard.serving.request_errors import ModelError, RequestError
from gpuyard.serving.request_parser import Rows
from gpuyard.serving.spec import BatchSpec

# Faster batches run on the event loop: a thread switch would cost more than it frees.
INLINE_S = 0.002


class QueuedRequest(NamedTuple):
    """The rows of one request and the future that receives their result."""

    rows: Rows
    size: int  # number of rows
    result: asyncio.Future[BatchSlice]


class BatchSlice(NamedTuple):
    """The part of a batch's outputs that belongs to one request."""

    # One flat list or array per output, for the whole batch.
    outputs: Sequence[Sequence[object] | np.ndarray]
    start: int
    size: int


Compute = Callable[[Sequence[QueuedRequest]], Sequence[BatchSlice | Exception]]


class Batcher:
    """The request queue of one model version."""

    __slots__ = (
        "_busy",
        "_compute",
        "_inline",
        "_loop",
        "_pool",
        "_queue",
        "_queued",
        "_scheduled",
        "_spec",
        "arriving",
        "batches",
    )

    def __init__(
        self, compute: Compute, spec: BatchSpec, pool: ThreadPoolExecutor, *, inline: bool
    ) -> None:
        self._compute = compute
        self._spec = spec
        self._pool = pool
        self._inline = inline
        self._loop = asyncio.get_running_loop()
        self._queue: deque[QueuedRequest] = deque()
        self._queued = 0  # rows in the queue
        self._busy = False
        self._scheduled: asyncio.Handle | None = None
        self.arriving = 0  # requests whose body is still being received
        self.batches = 0

    def submit(self, rows: Rows, size: int) -> asyncio.Future[BatchSlice]:
        """Queue rows and return a future for their result."""
        result: asyncio.Future[BatchSlice] = self._loop.create_future()
        self._queue.append(QueuedRequest(rows, size, result))
        self._queued += size
        if self._busy:
            return result
        if self._queued >= self._spec.rows:
            self._flush()
        elif self._scheduled is None:
            if self._spec.wait_s > 0 and self.arriving > 0:
                self._scheduled = self._loop.call_later(self._spec.wait_s, self._flush)
            else:
                self._scheduled = self._loop.call_soon(self._flush)
        elif self.arriving == 0 and isinstance(self._scheduled, asyncio.TimerHandle):
            self._flush()
        return result

    def _flush(self) -> None:
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None
        while self._queue and not self._busy:
            requests = self._take()
            if not requests:
                continue
            self.batches += 1
            if self._inline and sum(request.size for request in requests) <= self._spec.rows:
                self._resolve(requests, self._compute_safely(requests))
            else:
                self._busy = True
                done = self._loop.run_in_executor(self._pool, self._compute_safely, requests)
                done.add_done_callback(functools.partial(self._on_done, requests))

    # Requests that were cancelled (timeout, client gone) are skipped.
    def _take(self) -> list[QueuedRequest]:
        requests: list[QueuedRequest] = []
        rows = 0
        while self._queue and (not requests or rows + self._queue[0].size <= self._spec.rows):
            request = self._queue.popleft()
            self._queued -= request.size
            if not request.result.done():
                requests.append(request)
                rows += request.size
        return requests

    def _on_done(
        self, requests: list[QueuedRequest], done: asyncio.Future[Sequence[BatchSlice | Exception]]
    ) -> None:
        self._busy = False
        failed = done.exception() if not done.cancelled() else asyncio.CancelledError()
        self._resolve(
            requests, done.result() if failed is None else [ModelError(str(failed))] * len(requests)
        )
        self._flush()

    # A failed batch is computed again request by request, so that one bad request fails alone.
    def _compute_safely(
        self, requests: Sequence[QueuedRequest]
    ) -> Sequence[BatchSlice | Exception]:
        try:
            return self._compute(requests)
        except (ModelError, RequestError) as error:
            if len(requests) == 1:
                return [error]
        except Exception as error:  # a bug or a broken model must not stop the server
            if len(requests) == 1:
                return [ModelError(f"{type(error).__name__}: {error}")]
        return [result for request in requests for result in self._compute_safely((request,))]

    def _resolve(
        self, requests: Sequence[QueuedRequest], results: Sequence[BatchSlice | Exception]
    ) -> None:
        for request, result in zip(requests, results, strict=True):
            if request.result.done():
                continue
            if isinstance(result, Exception):
                request.result.set_exception(result)
            else:
                request.result.set_result(result)
