"""Jobs in worker processes, and workers that are killed."""

from __future__ import annotations

import os
import signal

import pytest

from gpuyard.errors import ExternalError
from gpuyard.learn.evaluate import pool as module
from gpuyard.learn.evaluate.pool import WorkerPool, open_pool


def _killed(job: int) -> int:
    """Ends its own process at the third job."""
    if job == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return job


def test_killed_worker_raises_external_error() -> None:
    with (
        open_pool(2, preload=(), patience_s=0.0) as pool,
        pytest.raises(ExternalError, match="was killed"),
    ):
        pool.run(_killed, range(8))


def test_killed_fork_server_raises_external_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        """An executor whose server of processes was killed."""

        def submit(self, *_: object) -> None:
            raise EOFError("unexpected EOF")

    monkeypatch.setattr(module, "_executor", lambda *_: Gone())
    pool = WorkerPool(workers=2, preload=(), patience_s=0.0)
    with pytest.raises(ExternalError, match="was killed"):
        pool.run(_killed, range(4))
