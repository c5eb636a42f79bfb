"""Local engine: a few partitions at a time, each of which Polars processes on all cores."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from gpuyard.datasets.data_pass import DataPass, PartitionTask, Result
from gpuyard.datasets.engines.data_engine import OnResult
from gpuyard.datasets.execute import execute

_CORES_PER_PARTITION = 4  # Polars uses all cores for one; several keep many cores busy


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalDataEngine:
    """Engine in this process; the number of partitions in flight bounds its memory."""

    in_flight: int = max(1, (os.cpu_count() or 1) // _CORES_PER_PARTITION)

    @property
    def name(self) -> str:
        return "local"

    def run(self, data_pass: DataPass, tasks: Sequence[PartitionTask], on_result: OnResult) -> None:
        waiting: dict[Future[Result], PartitionTask] = {}
        queue = iter(tasks)
        with ThreadPoolExecutor(self.in_flight) as pool:
            try:
                while True:
                    while len(waiting) < self.in_flight and (task := next(queue, None)) is not None:
                        waiting[pool.submit(execute, data_pass, task)] = task
                    if not waiting:
                        return
                    ready, _ = wait(waiting, return_when=FIRST_COMPLETED)
                    for future in ready:
                        on_result(waiting.pop(future), future.result())
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
