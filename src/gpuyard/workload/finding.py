"""One thing wrong with a workload, by the path of its key; the reader adds file and line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpuyard.catalog import Catalog
from gpuyard.workload.workload import Workload

__all__ = ["Check", "Finding"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is wrong at a key, and how to mend it."""

    path: str
    what: str
    fix: str


Check = Callable[[Workload, Catalog], Iterator[Finding]]
