"""metrics.jsonl: one JSON object per line, appended during training; torn lines are skipped."""

from __future__ import annotations

import errno
import json
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuyard.document.frozen_json import Plain
from gpuyard.errors import ExternalError


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMetrics:
    """Metrics up to a step; those that a trainer does not measure are None."""

    step: int
    time_s: float = 0.0  # unix time; 0: set when it is recorded
    steps: int | None = None  # total number of steps, if known
    epoch: float | None = None
    loss: float | None = None
    validation_loss: float | None = None
    learning_rate: float | None = None
    gradient_norm: float | None = None
    step_s: float | None = None
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    memory_bytes: float | None = None
    flop_per_s: float | None = None
    others: tuple[tuple[str, float], ...] = ()  # further metrics of the user's own command


NAMES = tuple(name for name in StepMetrics.__dataclass_fields__ if name != "others")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsLog:
    """The metrics file of one task, written by rank 0."""

    path: Path

    def record(self, metrics: StepMetrics) -> None:
        pairs: dict[str, Plain] = {name: getattr(metrics, name) for name in NAMES}
        pairs["time_s"] = metrics.time_s or time.time()
        known = {name: value for name, value in pairs.items() if value is not None}
        self._append({**known, **dict(metrics.others)})

    def event(self, what: str, step: int, detail: str = "") -> None:
        """Append an event: `resumed`, `corrupt checkpoint`, `checkpoint` or `stopped`."""
        line: dict[str, Plain] = {"event": what, "step": step, "time_s": time.time()}
        self._append(line | ({"detail": detail} if detail else {}))

    def _append(self, line: dict[str, Plain]) -> None:
        # A single write, preceded by a newline if a killed process left a torn line.
        text = json.dumps(_finite(line), ensure_ascii=False, allow_nan=False) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                size = os.fstat(handle).st_size
                torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
                data = (b"\n" if torn else b"") + text.encode()
                if os.write(handle, data) != len(data):
                    raise OSError(errno.ENOSPC, "No space left on device")
            finally:
                os.close(handle)
        except OSError as error:
            raise ExternalError(
                str(self.path),
                f"cannot be written: {error.strerror}",
                "free disk space, then resume the run",
            ) from error


def _finite(line: dict[str, Plain]) -> dict[str, Plain]:
    # JSON has no infinity or NaN: they are written as text.
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in line.items()
    }


def _lines(path: Path) -> Iterator[dict[str, Plain]]:
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for text in file:
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict) and isinstance(line.get("step"), int):
                yield line


def read_metrics(path: Path) -> tuple[StepMetrics, ...]:
    """Read the metrics in step order; of a step repeated after a resume, the last line counts."""
    by_step: dict[int, StepMetrics] = {}
    for line in _lines(path):
        if "event" in line:
            continue
        numbers = {name: _number(line[name]) for name in NAMES if line.get(name) is not None}
        others = tuple(
            (name, float(value))
            for name, value in line.items()
            if name not in NAMES and isinstance(value, int | float) and not isinstance(value, bool)
        )
        step = int(numbers.pop("step"))
        steps = {"steps": int(numbers.pop("steps"))} if "steps" in numbers else {}
        by_step[step] = StepMetrics(step=step, others=others, **steps, **numbers)  # type: ignore[arg-type]
    return tuple(by_step[step] for step in sorted(by_step))


def read_events(path: Path) -> tuple[tuple[str, int, str], ...]:
    """Read the events in order: name, step, detail."""
    return tuple(
        (str(line["event"]), int(str(line["step"])), str(line.get("detail", "")))
        for line in _lines(path)
        if "event" in line
    )


def _number(value: Plain) -> float:
    return float(str(value))
