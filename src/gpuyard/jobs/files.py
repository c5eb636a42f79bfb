"""The engine's files of a job, in a folder that every node can read.

log            output of its processes
task.json      the submitted task
exit-I.json    how copy I ended; written last, atomically
cancelled      a cancellation was requested
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuyard.document.encode import dump_json, load_json_file
from gpuyard.errors import GpuyardError
from gpuyard.home import write_atomic
from gpuyard.jobs.task import Handle, Task, TaskStatus

PIECE_BYTES = 1 << 16
FOLLOW_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFiles:
    """Paths and contents of the files of one job."""

    folder: Path

    @classmethod
    def of(cls, handle: Handle) -> JobFiles:
        return cls(folder=Path(handle.folder))

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def attempts(self) -> int:
        """Number of attempts started so far, as the engine's own process recorded it."""
        file = self.folder / "attempts"
        return int(file.read_text(encoding="ascii") or 0) if file.exists() else 0

    def save_task(self, task: Task) -> None:
        write_atomic(self.folder / "task.json", dump_json(task))

    def task(self) -> Task:
        file = self.folder / "task.json"
        return load_json_file(file, Task)

    def save_exit(self, index: int, status: TaskStatus) -> None:
        write_atomic(self.folder / f"exit-{index}.json", dump_json(status))

    def exit(self, index: int) -> TaskStatus | None:
        """Return how a copy ended, or None while it runs."""
        file = self.folder / f"exit-{index}.json"
        try:
            return load_json_file(file, TaskStatus)
        except GpuyardError:
            return None

    def exits(self, copies: int) -> list[TaskStatus | None]:
        return [self.exit(index) for index in range(copies)]

    def request_cancel(self) -> None:
        """Record that the job is to be cancelled, for every process that looks at it later."""
        write_atomic(self.folder / "cancelled", "")

    @property
    def cancel_requested(self) -> bool:
        """Whether the job is to be cancelled."""
        return (self.folder / "cancelled").exists()


def combined_status(parts: list[TaskStatus]) -> TaskStatus:
    """Combine the statuses of all copies: failed if one failed, running while one runs."""
    states = {part.state for part in parts}
    is_active = bool(states & {"pending", "running"})
    order = ["running", "pending"] if is_active else ["failed", "lost", "cancelled"]
    first = next((part for state in order for part in parts if part.state == state), parts[0])
    started = [part.started_s for part in parts if part.started_s is not None]
    ended = [part.ended_s for part in parts if part.ended_s is not None]
    # Some copies have ended while others are still queued.
    is_partly_done = first.state == "pending" and bool(states - {"pending"})
    return TaskStatus(
        state="running" if is_partly_done else first.state,
        exit_code=first.exit_code if first.ended else None,
        reason=first.reason,
        started_s=min(started, default=None),
        ended_s=max(ended, default=None) if first.ended else None,
        attempts=max(part.attempts for part in parts),
    )


class _Tail:
    """A growing file, read line by line."""

    def __init__(self, path: Path) -> None:
        self.path, self.offset, self.rest = path, 0, b""

    def lines(self) -> Iterator[str]:
        """Yield the lines that were completed since the last call."""
        while piece := self._piece():
            self.offset += len(piece)
            *lines, self.rest = (self.rest + piece).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines)

    def _piece(self) -> bytes:
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                return file.read(PIECE_BYTES)
        except FileNotFoundError:  # not written yet
            return b""


# Following growing files. Invariant: every line written before the end is yielded. `ended` is
# therefore called before the files are read, so that a writer that ends in between is read once
# more, and a last line without a newline is yielded only after the end.
def follow_files(
    named: Mapping[str, Path], ended: Callable[[], bool], follow: bool, poll_s: float = FOLLOW_S
) -> Iterator[str]:
    """Yield the lines of growing files with their labels; with `follow`, until `ended`.

    `ended` is called at most every `poll_s` seconds, because it may query the engine.
    """
    tails = {label: _Tail(path) for label, path in named.items()}
    next_s, is_last = 0.0, not follow
    while True:
        if not is_last and time.monotonic() >= next_s:
            is_last = ended()
            next_s = time.monotonic() + poll_s
        for label, tail in tails.items():
            yield from (label + line for line in tail.lines())
            if is_last and tail.rest:
                yield label + tail.rest.decode(errors="replace")
        if is_last:
            return
        time.sleep(FOLLOW_S)
