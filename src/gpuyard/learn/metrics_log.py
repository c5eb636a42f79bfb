"""metrics.jsonl: one JSON object a line, appended as the training goes; a torn line is skipped when read."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuyard.document import Plain
from gpuyard.errors import RefusedError

__all__ = ["MetricsLog", "StepMetrics", "read_events", "read_metrics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMetrics:
    """One line: what was measured up to a step; names that a trainer does not measure are left out."""

    step: int
    time_s: float = 0.0  # unix time; 0: when it is recorded
    steps: int | None = None  # of the whole training, where it is known
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
    others: tuple[tuple[str, float], ...] = ()  # what the user's own command measures beside


NAMES = tuple(name for name in StepMetrics.__dataclass_fields__ if name != "others")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsLog:
    """The file of one task; only its first process writes it."""

    path: Path

    def record(self, metrics: StepMetrics) -> None:
        """Appends one line of metrics."""
        pairs: dict[str, Plain] = {name: getattr(metrics, name) for name in NAMES}
        pairs["time_s"] = metrics.time_s or time.time()
        told = {name: value for name, value in pairs.items() if value is not None}
        self._append({**told, **dict(metrics.others)})

    def event(self, what: str, step: int, detail: str = "") -> None:
        """Appends what happened: `resumed`, `corrupt checkpoint`, `checkpoint`, `stopped`."""
        line: dict[str, Plain] = {"event": what, "step": step, "time_s": time.time()}
        self._append(line | ({"detail": detail} if detail else {}))

    def _append(self, line: dict[str, Plain]) -> None:
        """One line, whole: a single write, after the end of a line that a killed process left torn."""
        text = json.dumps(_finite(line), ensure_ascii=False, allow_nan=False) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                size = os.fstat(handle).st_size
                torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
                data = (b"\n" if torn else b"") + text.encode()
                if os.write(handle, data) != len(data):
                    raise OSError(28, "No space left on device")
            finally:
                os.close(handle)
        except OSError as error:
            raise RefusedError(
                str(self.path), f"cannot be written: {error.strerror}", "free disk space, then resume the run"
            ) from error


def _finite(line: dict[str, Plain]) -> dict[str, Plain]:
    """The line with infinities and NaN, which JSON does not have, as text."""
    inf = float("inf")
    return {
        name: value if not isinstance(value, float) or abs(value) < inf else str(value) for name, value in line.items()
    }


def _lines(path: Path) -> Iterator[dict[str, Plain]]:
    """The objects of the file, torn and foreign lines skipped."""
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
    """The metrics by step, in order; steps done again after a resume count once, as they were last."""
    found: dict[int, StepMetrics] = {}
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
        found[step] = StepMetrics(step=step, others=others, **steps, **numbers)  # type: ignore[arg-type]
    return tuple(found[step] for step in sorted(found))


def read_events(path: Path) -> tuple[tuple[str, int, str], ...]:
    """What happened, in order: event, step, detail."""
    return tuple(
        (str(line["event"]), int(str(line["step"])), str(line.get("detail", "")))
        for line in _lines(path)
        if "event" in line
    )


def _number(value: Plain) -> float:
    """A number of a line; infinities and NaN are written as text."""
    return float(str(value))
