"""The memory that this process used at its peak."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

__all__ = ["peak_bytes"]

STATUS = Path("/proc/self/status")


def peak_bytes() -> float:
    """The largest resident set of this process so far.

    Linux keeps getrusage's figure over exec, so that a child starts with its parent's peak; VmHWM is its own.
    """
    if STATUS.exists():
        lines = STATUS.read_text(encoding="ascii", errors="replace").splitlines()
        found = next((line.split()[1] for line in lines if line.startswith("VmHWM:")), None)
        if found is not None:
            return float(found) * 1024
    scale = 1 if sys.platform == "darwin" else 1024  # getrusage(2): Linux counts in KiB
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale)
