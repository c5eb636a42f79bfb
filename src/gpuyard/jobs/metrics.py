"""Metrics over time: imported from the files that workers append to, each line once."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.records import MetricPoint, Series

PIECE_BYTES = 8 << 20  # at most this much in one transaction
NOT_VALUES = {"step", "time_s"}


def import_metrics(ledger: Ledger, run_id: str, stage: str, path: Path) -> tuple[MetricPoint, ...]:
    """Return the new points of a JSON-lines file; an incomplete last line is left for later.

    The read position is stored with the points in one transaction, so no line is lost or read
    twice. A step that is written again, as after a restart from a checkpoint, replaces the old one.
    """
    points: list[MetricPoint] = []
    has_more = True
    while has_more:
        has_more, piece = _import_piece(ledger, run_id, stage, path)
        points += piece
    return tuple(points)


def _import_piece(
    ledger: Ledger, run_id: str, stage: str, path: Path
) -> tuple[bool, list[MetricPoint]]:
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
        points, end = read_points(path, offset)
        connection.executemany(
            "INSERT OR REPLACE INTO metrics (run, stage, name, step, value, time_s)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            [
                (run_id, stage, point.name, point.step, point.value, point.time_s)
                for point in points
            ],
        )
        connection.execute("INSERT OR REPLACE INTO tails VALUES (?, ?, ?, ?)", (*key, end))
    return end != offset and end < size, points


def read_points(path: Path, offset: int) -> tuple[list[MetricPoint], int]:
    """Return the points of complete lines after `offset`, at most a few MB, and where they end.

    A file shorter than `offset` has replaced the one read before and is read from its beginning.
    """
    try:
        with path.open("rb") as file:
            if file.seek(0, 2) < offset:
                offset = 0
            file.seek(offset)
            data = file.read(PIECE_BYTES)
    except FileNotFoundError:  # not written yet
        return [], offset
    lines = data[: data.rfind(b"\n") + 1]
    return [point for line in lines.splitlines() for point in _points(line)], offset + len(lines)


def _points(line: bytes) -> Iterator[MetricPoint]:
    try:
        row = json.loads(line)
    except ValueError:
        return
    step = row.get("step") if isinstance(row, dict) else None
    if not isinstance(step, int) or isinstance(step, bool) or not -(2**63) <= step < 2**63:
        return
    time_s = row.get("time_s")
    point_s = float(time_s) if isinstance(time_s, int | float) and math.isfinite(time_s) else None
    for name, value in row.items():
        if name in NOT_VALUES or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        is_finite = abs(value) <= 1.7e308  # a NaN loss is stored as None, not dropped
        yield MetricPoint(
            step=step, name=name, value=float(value) if is_finite else None, time_s=point_s
        )


def series(ledger: Ledger, run_id: str, stage: str = "") -> tuple[Series, ...]:
    """Return every metric of a run, or of one stage, by step."""
    points: dict[tuple[str, str], list[MetricPoint]] = {}
    with ledger.reading() as connection:
        rows = connection.execute(
            "SELECT * FROM metrics WHERE run = ? AND (? = '' OR stage = ?)"
            " ORDER BY stage, name, step",
            (run_id, stage, stage),
        )
        for row in rows:
            point = MetricPoint(
                step=row["step"], name=row["name"], value=row["value"], time_s=row["time_s"]
            )
            points.setdefault((row["stage"], row["name"]), []).append(point)
    return tuple(
        Series(stage=key[0], name=key[1], points=tuple(values)) for key, values in points.items()
    )
