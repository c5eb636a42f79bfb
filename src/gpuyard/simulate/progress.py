"""Progress of long simulations."""

from __future__ import annotations

from collections.abc import Callable

OnProgress = Callable[[int, int], None]  # flows received, and all flows


def ignore_progress(done: int, total: int) -> None:
    """Show nothing."""
