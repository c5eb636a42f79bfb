"""What the workers of one server tell each other, through small files in its folder.

worker-PID.json   the counts of a worker, written every second; kept when it dies, so that sums never fall
orders.json       what all workers must do: models to load or leave, canaries taken back
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from gpuyard.home import write_whole
from gpuyard.serving.meter import Reading

__all__ = ["Board", "Orders", "Report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one worker says of itself."""

    pid: int
    readings: tuple[Reading, ...] = ()
    swaps: int = 0
    serving: tuple[tuple[str, str], ...] = ()  # model, version


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What all workers must do."""

    loads: tuple[tuple[str, str], ...] = ()  # model, reference that replaces what the server was started with
    unloads: tuple[str, ...] = ()
    withdrawn: tuple[tuple[str, str], ...] = ()  # canaries taken back: model/version, and why

    def with_load(self, name: str, reference: str) -> Orders:
        """These orders and one to load."""
        kept = tuple(item for item in self.loads if item[0] != name)
        return replace(self, loads=(*kept, (name, reference)), unloads=tuple(u for u in self.unloads if u != name))

    def with_unload(self, name: str) -> Orders:
        """These orders and one to leave a model."""
        kept = tuple(item for item in self.loads if item[0] != name)
        return replace(self, loads=kept, unloads=(*(item for item in self.unloads if item != name), name))

    def with_withdrawn(self, label: str, why: str) -> Orders:
        """These orders and a canary to take back."""
        return replace(self, withdrawn=(*(item for item in self.withdrawn if item[0] != label), (label, why)))


class Board:
    """The files of one server, as one of its workers sees them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._orders = folder / "orders.json"
        self.pid = os.getpid()
        self._own = folder / f"worker-{self.pid}.json"
        self._seen: tuple[int, int] = (0, 0)

    def publish(self, report: Report) -> None:
        """Writes what this worker says; a reader never sees a part of it."""
        fresh = self._own.with_suffix(".new")
        with contextlib.suppress(OSError):  # counts that cannot be written must not stop a server
            fresh.write_bytes(msgspec.json.encode(report))
            fresh.replace(self._own)

    def others(self) -> Iterator[Report]:
        """What the other workers, living and dead, said last."""
        for path in sorted(self._folder.glob("worker-*.json")):
            if path != self._own:
                with contextlib.suppress(OSError, msgspec.MsgspecError):
                    yield msgspec.json.decode(path.read_bytes(), type=Report)

    def orders(self) -> Orders:
        """The orders in force."""
        try:
            return msgspec.json.decode(self._orders.read_bytes(), type=Orders)
        except FileNotFoundError:
            return Orders()

    def changed(self) -> bool:
        """Whether there are orders that this worker has not seen."""
        try:
            found = self._orders.stat()
        except FileNotFoundError:
            return False
        mark = (found.st_mtime_ns, found.st_ino)
        fresh, self._seen = mark != self._seen, mark
        return fresh

    def order(self, change: Callable[[Orders], Orders]) -> Orders:
        """Changes the orders; one worker at a time."""
        with (self._folder / "orders.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            fresh = change(self.orders())
            write_whole(self._orders, msgspec.json.encode(fresh))
        return fresh
