"""The memory that this process used at its peak."""

from __future__ import annotations

import resource
import sys

__all__ = ["peak_bytes"]


def peak_bytes() -> float:
    """The largest resident set of this process so far."""
    scale = 1 if sys.platform == "darwin" else 1024  # getrusage(2): Linux counts in KiB
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale)
