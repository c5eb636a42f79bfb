"""Interface of an engine: it runs the partitions of a pass and reports results as they finish."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from gpuyard.datasets.data_pass import DataPass, PartitionTask, Result

OnResult = Callable[[PartitionTask, Result], None]


class DataEngine(Protocol):
    """Engine that runs passes."""

    @property
    def name(self) -> str: ...

    @property
    def in_flight(self) -> int:
        """Partitions that share the memory of one machine at a time."""
        ...

    def run(self, data_pass: DataPass, tasks: Sequence[PartitionTask], on_result: OnResult) -> None:
        """Run every task; call `on_result` in this thread for each; the first error stops it."""
        ...
