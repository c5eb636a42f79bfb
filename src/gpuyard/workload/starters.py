"""Commented files to start from, one for each task."""

from __future__ import annotations

import importlib.resources

from gpuyard.catalog import Task

__all__ = ["starter"]


def starter(task: Task) -> str:
    """A workload file of that task, with comments, that passes its own checks."""
    return (importlib.resources.files("gpuyard.workload") / "starters" / f"{task}.yaml").read_text(encoding="utf-8")
