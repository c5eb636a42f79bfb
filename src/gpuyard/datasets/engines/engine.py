"""What runs a pass: an engine takes the job and its partitions and hands back every result as it comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from gpuyard.datasets.job import Job, Result, Work

__all__ = ["Done", "Engine"]

Done = Callable[[Work, Result], None]


class Engine(Protocol):
    """Somewhere to run."""

    @property
    def name(self) -> str:
        """What the user calls it."""
        ...

    @property
    def in_flight(self) -> int:
        """Partitions that share the memory of one machine at a time."""
        ...

    def run(self, job: Job, works: Sequence[Work], done: Done) -> None:
        """Runs every partition, calling `done` in this thread as each ends; the first error stops the pass."""
        ...
