"""Peak memory of a process is its own, not its parent's."""

from __future__ import annotations

import subprocess
import sys

from gpuyard.learn.memory import peak_bytes

CHILD = "from gpuyard.learn.memory import peak_bytes; print(peak_bytes())"


def test_child_does_not_inherit_its_parents_peak() -> None:
    block = bytearray(600_000_000)
    block[::4096] = b"x" * len(block[::4096])
    assert peak_bytes() > 600_000_000
    child = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, check=True
    )
    assert 1_000_000 < float(child.stdout) < 500_000_000
