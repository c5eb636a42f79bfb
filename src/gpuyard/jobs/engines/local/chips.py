"""GPUs of this host, and which of them a process may use."""

from __future__ import annotations

import os
import re
from pathlib import Path

from gpuyard.jobs.task import Task


def local_chips(devices: Path = Path("/dev")) -> tuple[str, ...]:
    """Return the GPUs this process may use, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return tuple(
            name.strip() for name in named.split(",") if name.strip() and name.strip() != "-1"
        )
    matches = (re.fullmatch(r"nvidia(\d+)", path.name) for path in devices.glob("nvidia*"))
    return tuple(sorted((match.group(1) for match in matches if match), key=int))


def chip_environment(task: Task, rank: int, index: int) -> dict[str, str]:
    """Return CUDA_VISIBLE_DEVICES for one process, or nothing if the task needs no chips."""
    chips = local_chips()
    if not task.chips_per_process or not chips:
        return {}
    first = (rank + index * task.processes) * task.chips_per_process
    own = [chips[(first + place) % len(chips)] for place in range(task.chips_per_process)]
    return {"CUDA_VISIBLE_DEVICES": ",".join(own)}
