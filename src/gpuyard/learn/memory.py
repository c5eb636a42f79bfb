"""Peak memory of this process."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_bytes() -> float:
    """Return the peak resident set size of this process.

    On Linux getrusage survives exec, so that a child starts with its parent's peak; VmHWM does not.
    """
    if STATUS.exists():
        lines = STATUS.read_text(encoding="ascii", errors="replace").splitlines()
        kib = next((line.split()[1] for line in lines if line.startswith("VmHWM:")), None)
        if kib is not None:
            return float(kib) * 1024
    scale = 1 if sys.platform == "darwin" else 1024  # getrusage(2): Linux counts in KiB
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale)
