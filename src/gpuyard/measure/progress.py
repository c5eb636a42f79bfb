"""Progress reports of long-running measurements."""

from __future__ import annotations

from typing import Protocol


class ProgressCallback(Protocol):
    """Receives a text and, where the work is counted, the units done and the total."""

    def __call__(self, text: str, done: int = 0, total: int = 0, /) -> None: ...


def silent(text: str, done: int = 0, total: int = 0, /) -> None:
    """Ignore the report."""
