"""The engine's own files of a job, in a folder that every node sees.

log            what its processes wrote
task.json      what was submitted
exit-I.json    how copy I ended; written whole, last
cancelled      somebody asked for its end
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuyard.document import dump_json, load_json
from gpuyard.errors import InputError
from gpuyard.home import write_whole
from gpuyard.jobs.task import Handle, Status, Task

__all__ = ["JobFiles", "follow_files", "together"]

PIECE_BYTES = 1 << 16
FOLLOW_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFiles:
    """Where the files of one job are."""

    folder: Path

    @classmethod
    def of(cls, handle: Handle) -> JobFiles:
        """The files of a job."""
        return cls(folder=Path(handle.folder))

    @property
    def log(self) -> Path:
        """What the processes wrote, in order."""
        return self.folder / "log"

    def keep_task(self, task: Task) -> None:
        """Writes down what is submitted."""
        write_whole(self.folder / "task.json", dump_json(task))

    def task(self) -> Task:
        """What was submitted."""
        file = self.folder / "task.json"
        return load_json(file.read_text(encoding="utf-8"), Task, str(file))

    def keep_exit(self, index: int, status: Status) -> None:
        """Writes down how a copy ended."""
        write_whole(self.folder / f"exit-{index}.json", dump_json(status))

    def exit(self, index: int) -> Status | None:
        """How a copy ended; None while it has not."""
        return _status(self.folder / f"exit-{index}.json")

    def exits(self, copies: int) -> list[Status | None]:
        """How each copy ended."""
        return [self.exit(index) for index in range(copies)]

    def ask_cancel(self) -> None:
        """Notes that the job is to end, for whoever looks at it later."""
        write_whole(self.folder / "cancelled", "")

    @property
    def cancel_asked(self) -> bool:
        """Whether somebody asked for its end."""
        return (self.folder / "cancelled").exists()


def _status(path: Path) -> Status | None:
    """A status from its file; None where there is none that is whole."""
    try:
        return load_json(path.read_text(encoding="utf-8"), Status, str(path))
    except (OSError, InputError, UnicodeDecodeError):
        return None


def together(parts: list[Status]) -> Status:
    """The status of all copies as one: it fails with the first that failed, and runs while one runs."""
    states = {part.state for part in parts}
    order = ("failed", "lost", "cancelled") if not states & {"pending", "running"} else ("running", "pending")
    first = next((part for state in order for part in parts if part.state == state), parts[0])
    started = [part.started_s for part in parts if part.started_s is not None]
    ended = [part.ended_s for part in parts if part.ended_s is not None]
    partly = first.state == "pending" and bool(states - {"pending"})  # some have ended, others wait for a place
    return Status(
        state="running" if partly else first.state,
        exit_code=first.exit_code if first.ended else None,
        reason=first.reason,
        started_s=min(started, default=None),
        ended_s=max(ended, default=None) if first.ended else None,
        attempts=max(part.attempts for part in parts),
    )


class _Tail:
    """A file that may still grow, read by lines."""

    def __init__(self, path: Path) -> None:
        self.path, self.offset, self.rest = path, 0, b""

    def lines(self) -> Iterator[str]:
        """The whole lines since the last time."""
        while piece := self._piece():
            self.offset += len(piece)
            *lines, self.rest = (self.rest + piece).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines)

    def _piece(self) -> bytes:
        """The next bytes; empty at the end, or where the file is not there yet."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                return file.read(PIECE_BYTES)
        except FileNotFoundError:
            return b""


def follow_files(
    named: Mapping[str, Path], ended: Callable[[], bool], follow: bool, ask_s: float = FOLLOW_S
) -> Iterator[str]:
    """The lines of files that may still grow, each behind its label; with `follow`, until `ended` and all is read.

    `ended` is asked every `ask_s` seconds at most, for it may cost its engine something.
    """
    tails = {label: _Tail(path) for label, path in named.items()}
    next_s, last = 0.0, not follow
    while True:
        if not last and time.monotonic() >= next_s:
            last = ended()  # asked before reading: what was written before the end is read below
            next_s = time.monotonic() + ask_s
        for label, tail in tails.items():
            yield from (label + line for line in tail.lines())
            if last and tail.rest:
                yield label + tail.rest.decode(errors="replace")
        if last:
            return
        time.sleep(FOLLOW_S)
