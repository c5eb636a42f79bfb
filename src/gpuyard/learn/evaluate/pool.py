"""Work spread over processes of this machine, results in the order of the jobs."""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import threading
import time
import typing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool

from gpuyard.errors import RefusedError

__all__ = ["Pool", "cores", "open_pool"]

Job = typing.TypeVar("Job")
Done = typing.TypeVar("Done")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")
START_S = 10.0  # starting processes and importing a framework there costs three to four seconds of CPU
PATIENCE_S = 30.0  # of short jobs, before processes are worth it


class Pool:
    """Jobs run here until that has taken a while, then in processes: short work does not pay for starting them."""

    def __init__(self, workers: int, preload: Sequence[str], patience_s: float) -> None:
        self.workers, self.preload, self.patience_s = workers, tuple(preload), patience_s
        self.spent_s, self.done = 0.0, 0
        self.executor: concurrent.futures.ProcessPoolExecutor | None = None

    def run(
        self, function: Callable[[Job], Done], jobs: Sequence[Job], each: Callable[[Done], None] | None = None
    ) -> list[Done]:
        """What the function makes of each job, in order; `each` gets every result as soon as it is there."""
        told = each or (lambda _done: None)
        found: list[Done] = []
        while len(found) < len(jobs) and not self._worth(len(jobs) - len(found)):
            began = time.perf_counter()
            found.append(function(jobs[len(found)]))
            self.spent_s += time.perf_counter() - began
            self.done += 1
            told(found[-1])
        return found + self._spread(function, jobs[len(found) :], told)

    def _worth(self, jobs: int) -> bool:
        """Whether processes pay for the jobs that are left."""
        if self.workers <= 1 or jobs == 1:
            return False
        left_s = self.spent_s / self.done * jobs if self.done else 0.0
        return self.executor is not None or self.spent_s >= self.patience_s or left_s > START_S

    def _spread(self, function: Callable[[Job], Done], jobs: Sequence[Job], told: Callable[[Done], None]) -> list[Done]:
        """The same in processes."""
        if not jobs:
            return []
        if self.executor is None:
            self.executor = _executor(self.workers, self.preload)
        futures: list[concurrent.futures.Future[Done]] = []
        try:
            futures += [self.executor.submit(function, job) for job in jobs]
            for future in concurrent.futures.as_completed(futures):
                told(future.result())
            return [future.result() for future in futures]
        except (BrokenProcessPool, EOFError, ConnectionError) as error:  # the last two: what starts them was killed
            raise RefusedError(
                "worker", "a worker process was killed", "give it more memory, or fewer workers (--workers 1)"
            ) from error
        finally:
            for future in futures:
                future.cancel()


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def open_pool(workers: int, preload: Sequence[str] = (), patience_s: float = PATIENCE_S) -> Iterator[Pool]:
    """A pool for the block; `preload` are modules that all processes need."""
    pool = Pool(workers, preload, patience_s)
    try:
        yield pool
    finally:
        if pool.executor is not None:
            pool.executor.shutdown(wait=True, cancel_futures=True)


def _executor(workers: int, preload: Sequence[str]) -> concurrent.futures.ProcessPoolExecutor:
    """Processes forked from a server that has imported the modules and nothing else.

    The cost of importing is paid once, and no thread or lock of this process is copied.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["gpuyard.learn.evaluate.pool", *preload])
    threads = str(max(1, cores() // workers))
    return concurrent.futures.ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(threads,))


def _begin(threads: str) -> None:
    """Keeps a worker's libraries to its share of the processors, and has it leave when its parent is killed."""
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, threads)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """Waits for the end of the parent, then ends this process: nobody wants its work any more."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
