"""Work in processes, and processes that are killed."""

from __future__ import annotations

import os
import signal

import pytest

from gpuyard.errors import RefusedError
from gpuyard.learn.evaluate import pool as module
from gpuyard.learn.evaluate.pool import Pool, open_pool


def _killed(job: int) -> int:
    """Ends its own process at the third job."""
    if job == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return job


def test_a_killed_worker_is_told() -> None:
    with open_pool(2, preload=(), patience_s=0.0) as pool, pytest.raises(RefusedError, match="was killed"):
        pool.run(_killed, range(8))


def test_workers_that_cannot_be_started_any_more_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        """An executor whose server of processes was killed."""

        def submit(self, *_: object) -> None:
            raise EOFError("unexpected EOF")

    monkeypatch.setattr(module, "_executor", lambda *_: Gone())
    pool = Pool(workers=2, preload=(), patience_s=0.0)
    with pytest.raises(RefusedError, match="was killed"):
        pool.run(_killed, range(4))
