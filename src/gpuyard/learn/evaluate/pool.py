"""Run jobs in processes on this host, with results in the order of the jobs."""

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

from gpuyard.errors import ExternalError

Job = typing.TypeVar("Job")
Done = typing.TypeVar("Done")
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "POLARS_MAX_THREADS",
)
START_S = 10.0  # remaining work that pays for starting processes and importing a framework there
KILLED = (BrokenProcessPool, EOFError, ConnectionError)  # the last two: the fork server was killed
PATIENCE_S = 30.0  # of short jobs in this process, before processes are started


class WorkerPool:
    """Runs jobs in this process at first, and in worker processes once that pays off."""

    def __init__(self, workers: int, preload: Sequence[str], patience_s: float) -> None:
        self.workers = workers
        self.preload = tuple(preload)
        self.patience_s = patience_s
        self.spent_s = 0.0
        self.done = 0
        self.executor: concurrent.futures.ProcessPoolExecutor | None = None

    def run(
        self,
        function: Callable[[Job], Done],
        jobs: Sequence[Job],
        on_result: Callable[[Done], None] | None = None,
    ) -> list[Done]:
        """Return the results in the order of the jobs; `on_result` gets each as it arrives."""
        on_result = on_result or (lambda _done: None)
        results: list[Done] = []
        while len(results) < len(jobs) and not self._pays_off(len(jobs) - len(results)):
            began = time.perf_counter()
            results.append(function(jobs[len(results)]))
            self.spent_s += time.perf_counter() - began
            self.done += 1
            on_result(results[-1])
        return results + self._run_in_processes(function, jobs[len(results) :], on_result)

    def _pays_off(self, jobs: int) -> bool:
        if self.workers <= 1 or jobs == 1:
            return False
        left_s = self.spent_s / self.done * jobs if self.done else 0.0
        return self.executor is not None or self.spent_s >= self.patience_s or left_s > START_S

    def _run_in_processes(
        self,
        function: Callable[[Job], Done],
        jobs: Sequence[Job],
        on_result: Callable[[Done], None],
    ) -> list[Done]:
        if not jobs:
            return []
        if self.executor is None:
            self.executor = _executor(self.workers, self.preload)
        futures: list[concurrent.futures.Future[Done]] = []
        try:
            futures += [self.executor.submit(function, job) for job in jobs]
            for future in concurrent.futures.as_completed(futures):
                on_result(future.result())
            return [future.result() for future in futures]
        except KILLED as error:
            raise ExternalError(
                "worker",
                "a worker process was killed",
                "provide more memory, or use fewer workers (--workers 1)",
            ) from error
        finally:
            for future in futures:
                future.cancel()


def cores() -> int:
    """Return the number of CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def open_pool(
    workers: int, preload: Sequence[str] = (), patience_s: float = PATIENCE_S
) -> Iterator[WorkerPool]:
    """Open a pool for the block; workers import the `preload` modules once, before they fork."""
    pool = WorkerPool(workers, preload, patience_s)
    try:
        yield pool
    finally:
        if pool.executor is not None:
            pool.executor.shutdown(wait=True, cancel_futures=True)


def _executor(workers: int, preload: Sequence[str]) -> concurrent.futures.ProcessPoolExecutor:
    # Forked from a server that has only imported the modules: imports are paid for once, and no
    # thread or lock of this process is copied.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["gpuyard.learn.evaluate.pool", *preload])
    threads = str(max(1, cores() // workers))
    return concurrent.futures.ProcessPoolExecutor(
        workers, mp_context=context, initializer=_initialize_worker, initargs=(threads,)
    )


def _initialize_worker(threads: str) -> None:
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, threads)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
