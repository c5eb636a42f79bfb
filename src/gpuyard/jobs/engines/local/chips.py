"""The GPUs of this machine, and which of them a process may see."""

from __future__ import annotations

import os
import re
from pathlib import Path

from gpuyard.jobs.task import Task

__all__ = ["chip_environment", "local_chips"]


def local_chips(devices: Path = Path("/dev")) -> tuple[str, ...]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return tuple(name.strip() for name in named.split(",") if name.strip() and name.strip() != "-1")
    found = (re.fullmatch(r"nvidia(\d+)", path.name) for path in devices.glob("nvidia*"))
    return tuple(sorted((match.group(1) for match in found if match), key=int))


def chip_environment(task: Task, rank: int, index: int) -> dict[str, str]:
    """The chips of one process; a task that asks for none sees what its parent sees."""
    chips = local_chips()
    if not task.chips_per_process or not chips:
        return {}
    first = (rank + index * task.processes) * task.chips_per_process
    own = [chips[(first + place) % len(chips)] for place in range(task.chips_per_process)]
    return {"CUDA_VISIBLE_DEVICES": ",".join(own)}
