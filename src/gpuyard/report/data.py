"""Telling of data: what every step did to how many rows, what a folder holds, how far a pass is."""

from __future__ import annotations

from gpuyard.datasets import Manifest, Progress
from gpuyard.datasets.compare import Difference, Shown
from gpuyard.report.table import Column, Table
from gpuyard.units import BYTES, DURATION, show

__all__ = ["columns_table", "differences_table", "progress_line", "splits_table", "steps_table"]


def steps_table(manifest: Manifest) -> Table:
    """What every step did to how many rows."""
    headings = ("step", "rows in", "rows out", "dropped", "quarantined", "columns")
    rows = [
        (
            one.step, f"{one.rows_in:,}", f"{one.rows_out:,}", f"{one.dropped:,}", f"{one.quarantined:,}",
            f"{one.columns_out:,}",
        )
        for one in manifest.counts
    ]  # fmt: skip
    total = f"{manifest.rows_in:,} in = {manifest.rows_out:,} out + {manifest.dropped:,} dropped"
    notes = [f"{total} + {manifest.quarantined:,} quarantined", f"passes: {', '.join(manifest.lineage.passes)}"]
    if manifest.quarantine:
        notes.append("quarantined rows are kept in quarantine/, with the reason")
    return Table(columns=_columns(headings), rows=tuple(rows), notes=tuple(notes))


def splits_table(manifest: Manifest) -> Table:
    """The splits with their shards."""
    rows = [
        (
            split.name, f"{split.rows:,}", str(len(split.shards)),
            show(sum(shard.size_bytes for shard in split.shards), BYTES),
        )
        for split in manifest.splits
    ]  # fmt: skip
    notes = [f"{manifest.kind}, version {manifest.version}, {len(manifest.features)} features"]
    if manifest.label:
        classes = f", classes {', '.join(manifest.classes[:12])}" if manifest.classes else ""
        notes.append(f"label {manifest.label}: {manifest.problem}{classes}")
    return Table(columns=_columns(("split", "rows", "shards", "size")), rows=tuple(rows), notes=tuple(notes))


def columns_table(shown: Shown) -> Table:
    """The columns of a source or of shards."""
    rows = tuple((column.name, column.dtype) for column in shown.columns)
    return Table(
        columns=(Column(heading="column"), Column(heading="type")), rows=rows,
        notes=(f"{shown.path}: {shown.rows:,} rows, {len(rows)} columns",),
    )  # fmt: skip


def differences_table(found: tuple[Difference, ...]) -> Table:
    """In what two sets of data differ."""
    rows = tuple((one.what, one.before[:80], one.after[:80]) for one in found)
    headings = (Column(heading="what"), Column(heading="first"), Column(heading="second"))
    return Table(columns=headings, rows=rows, notes=() if rows else ("no difference",))


def progress_line(progress: Progress) -> str:
    """How far a pass is: rows, speed, time left."""
    left = "" if progress.left_s is None else f", {show(max(progress.left_s, 0.001), DURATION, digits=2)} left"
    share = 100 * progress.rows_done / max(1, progress.rows)
    return f"{progress.name}: {progress.rows_done:,} rows ({share:.0f} %), {progress.rows_per_s:,.0f} rows/s{left}"


def _columns(headings: tuple[str, ...]) -> tuple[Column, ...]:
    """The first to the left, numbers to the right."""
    return tuple(Column(heading=heading, numeric=place > 0) for place, heading in enumerate(headings))
