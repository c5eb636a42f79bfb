"""Progress of a stage on one line of standard error, printed only to a terminal."""

from __future__ import annotations

import sys

from gpuyard.jobs.task_runner import TaskProgress
from gpuyard.units import DURATION, show


def progress_words(progress: TaskProgress) -> str:
    """Progress of a stage as text."""
    parts = [progress.stage, progress.state]
    if progress.step is not None:
        parts.append(f"step {progress.step}" + (f" of {progress.steps}" if progress.steps else ""))
    if progress.loss is not None:
        parts.append(f"loss {progress.loss:.4g}")
    if progress.tokens_per_s:
        parts.append(f"{progress.tokens_per_s:,.0f} tokens/s")
    elif progress.samples_per_s:
        parts.append(f"{progress.samples_per_s:,.0f} rows/s")
    if progress.left_s is not None:
        parts.append(f"{show(progress.left_s, DURATION)} left")
    if progress.attempts > 1:
        parts.append(f"attempt {progress.attempts}")
    return " · ".join(parts)


def progress_line(progress: TaskProgress) -> None:
    """Print the progress of a stage."""
    if sys.stderr.isatty():
        end = "\n" if progress.state in ("done", "failed", "cancelled", "lost") else ""
        sys.stderr.write(f"\r\x1b[K{progress_words(progress)}{end}")
        sys.stderr.flush()
