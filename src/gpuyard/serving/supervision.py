"""The main process of a server: granian that replaces every worker that dies once it has served.

granian exits when a worker dies twice within 5.5 s. That is right for a server that cannot start,
and wrong for one under load: a worker that the kernel kills for memory, or that a library crashes,
would take its healthy siblings with it.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from granian import Granian

from gpuyard.serving.worker_board import has_reported

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("gpuyard.serving")
FAILED_STARTS = 2  # of a worker, before any worker has served
FIRST_WAIT_S, MAX_WAIT_S = 0.1, 5.0  # between the starts of a worker that keeps dying
STEP_S = 0.05  # how late a stop may be noticed while it waits


class SupervisedServer(Granian):  # type: ignore[misc]
    """granian with workers that are always replaced after the first one has served.

    Idea: a worker that dies before any worker has served is tried again once, and then the server
    exits with an error. Later deaths never end the server; a worker that dies again before it has
    served waits twice as long each time, at most `MAX_WAIT_S`.
    """

    def __init__(self, *arguments: Any, board: Path, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._board = board
        self._has_served = False
        self._failed_starts: dict[int, int] = {}

    # In place of granian's own loop. Invariants: `main_loop_interrupt` is cleared before the lists
    # that it announces are read, so no death and no signal is missed; workers are replaced here
    # only, in this thread.
    def _serve_loop(self, spawn_target: Callable[..., None], target_loader: object) -> None:
        while not self.interrupt_signal:
            self.main_loop_interrupt.wait()
            self.main_loop_interrupt.clear()
            while self.interrupt_children and not self.interrupt_signal:
                index = self.interrupt_children[0]
                if not self._may_restart(index):
                    return  # its entry in the list makes the exit code 1
                self.interrupt_children.pop(0)
                if not self.interrupt_signal:
                    self._respawn_workers([index], spawn_target, target_loader)

    def _may_restart(self, index: int) -> bool:
        """Wait before a worker is started again; False if the server cannot start."""
        process = self.wrks[index].inner
        if has_reported(self._board, process.pid):
            self._has_served = True
            self._failed_starts.pop(index, None)
        else:
            self._failed_starts[index] = self._failed_starts.get(index, 0) + 1
        failed_starts = self._failed_starts.get(index, 0)
        if failed_starts >= FAILED_STARTS and not self._has_served:
            self._has_served = any(
                has_reported(self._board, worker.inner.pid) for worker in self.wrks
            )
            if not self._has_served:
                return False
        log.warning("worker %d (%s) is replaced", index + 1, _end_of(process.exitcode))
        if failed_starts:
            self._pause(min(MAX_WAIT_S, FIRST_WAIT_S * 2**failed_starts))
        return True

    def _pause(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while not self.interrupt_signal and time.monotonic() < until_s:
            time.sleep(STEP_S)


def _end_of(code: int | None) -> str:
    return f"killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}"
