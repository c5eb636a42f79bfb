"""How long work tells what it is doing."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Tell", "silent"]


class Tell(Protocol):
    """Hears what is being done, and how much of it is done where that is counted."""

    def __call__(self, text: str, done: int = 0, total: int = 0, /) -> None: ...


def silent(text: str, done: int = 0, total: int = 0, /) -> None:
    """Tells nobody."""
