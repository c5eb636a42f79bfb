"""Metrics over time: read from where a worker appends them, kept in the ledger, each line once."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.records import Point, Series

__all__ = ["import_metrics", "series"]

PIECE_BYTES = 8 << 20  # at most this much in one transaction
NOT_VALUES = {"step", "time_s"}


def import_metrics(ledger: Ledger, run_id: str, stage: str, path: Path) -> tuple[Point, ...]:
    """The points that are new in a file of one JSON object a line; a last line without an end waits for it.

    How far the file was read is kept with the points in one transaction, so no line is lost or taken twice. A step
    that is written again, as after a restart from a checkpoint, replaces the old one.
    """
    found: list[Point] = []
    while piece := _import_piece(ledger, run_id, stage, path):
        found += piece[1]
        if not piece[0]:
            break
    return tuple(found)


def _import_piece(ledger: Ledger, run_id: str, stage: str, path: Path) -> tuple[bool, list[Point]]:
    """One piece of the file: whether there is more, and its points."""
    try:
        size = path.stat().st_size
    except OSError:  # not written yet
        return False, []
    key = (run_id, stage, str(path))
    with ledger.connect() as connection:
        row = connection.execute(
            "SELECT read_bytes FROM tails WHERE run = ? AND stage = ? AND path = ?", key
        ).fetchone()
        offset = int(row["read_bytes"]) if row else 0
        if size == offset:
            return False, []
        offset = offset if size > offset else 0  # shorter than what was read: another file of that name
        with path.open("rb") as file:
            file.seek(offset)
            whole = file.read(PIECE_BYTES)
        whole = whole[: whole.rfind(b"\n") + 1]
        points = [point for line in whole.splitlines() for point in _points(line)]
        connection.executemany(
            "INSERT OR REPLACE INTO metrics (run, stage, name, step, value, time_s) VALUES (?, ?, ?, ?, ?, ?)",
            [(run_id, stage, point.name, point.step, point.value, point.time_s) for point in points],
        )
        connection.execute("INSERT OR REPLACE INTO tails VALUES (?, ?, ?, ?)", (*key, offset + len(whole)))
    return bool(whole) and offset + len(whole) < size, points


def _points(line: bytes) -> Iterator[Point]:
    """The values of one line; a line that is not a JSON object with a step has none."""
    try:
        row = json.loads(line)
    except ValueError:
        return
    step = row.get("step") if isinstance(row, dict) else None
    if not isinstance(step, int) or isinstance(step, bool) or not -(2**63) <= step < 2**63:
        return
    time_s = row.get("time_s")
    known_s = float(time_s) if isinstance(time_s, int | float) and math.isfinite(time_s) else None
    for name, value in row.items():
        if name in NOT_VALUES or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        finite = abs(value) <= 1.7e308  # a loss that is not a number is told as none, not left out
        yield Point(step=step, name=name, value=float(value) if finite else None, time_s=known_s)


def series(ledger: Ledger, run_id: str, stage: str = "") -> tuple[Series, ...]:
    """Every metric of a run, or of one stage, by step."""
    gathered: dict[tuple[str, str], list[Point]] = {}
    with ledger.reading() as connection:
        rows = connection.execute(
            "SELECT * FROM metrics WHERE run = ? AND (? = '' OR stage = ?) ORDER BY stage, name, step",
            (run_id, stage, stage),
        )
        for row in rows:
            point = Point(step=row["step"], name=row["name"], value=row["value"], time_s=row["time_s"])
            gathered.setdefault((row["stage"], row["name"]), []).append(point)
    return tuple(Series(stage=at, name=name, points=tuple(points)) for (at, name), points in gathered.items())
