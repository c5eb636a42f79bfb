"""This machine: a few partitions at a time, each of which Polars works on with all cores."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from gpuyard.datasets.engines.engine import Done
from gpuyard.datasets.execute import execute
from gpuyard.datasets.job import Job, Result, Work

__all__ = ["LocalEngine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalEngine:
    """Partitions in flight are bounded, and with them memory."""

    in_flight: int = max(1, (os.cpu_count() or 1) // 4)  # Polars uses all cores for one; more keep many cores busy

    @property
    def name(self) -> str:
        """local."""
        return "local"

    def run(self, job: Job, works: Sequence[Work], done: Done) -> None:
        """Runs every partition."""
        waiting: dict[Future[Result], Work] = {}
        queue = iter(works)
        with ThreadPoolExecutor(self.in_flight) as pool:
            try:
                while True:
                    while len(waiting) < self.in_flight and (work := next(queue, None)) is not None:
                        waiting[pool.submit(execute, job, work)] = work
                    if not waiting:
                        return
                    ready, _ = wait(waiting, return_when=FIRST_COMPLETED)
                    for future in ready:
                        done(waiting.pop(future), future.result())
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
