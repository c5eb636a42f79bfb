"""Commented starter files, one per task."""

from __future__ import annotations

import importlib.resources

from gpuyard.catalog.platforms import TaskName


def starter(task: TaskName) -> str:
    """Return a commented workload file for the task; it passes its own checks."""
    return (importlib.resources.files("gpuyard.workload") / "starters" / f"{task}.yaml").read_text(
        encoding="utf-8"
    )
