"""Datasets as text: rows per step, contents of a folder, progress of a pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuyard.datasets.compare import DatasetSummary, Difference
from gpuyard.datasets.manifest import DatasetManifest
from gpuyard.report.table import Table, TableColumn, table_columns
from gpuyard.units import BYTES, DURATION, show

if TYPE_CHECKING:
    from gpuyard.datasets.passes import PassProgress


def steps_table(manifest: DatasetManifest) -> Table:
    """Rows in and out of every step."""
    headings = ("step", "rows in", "rows out", "dropped", "quarantined", "columns")
    rows = [
        (
            one.step,
            f"{one.rows_in:,}",
            f"{one.rows_out:,}",
            f"{one.dropped:,}",
            f"{one.quarantined:,}",
            f"{one.columns_out:,}",
        )
        for one in manifest.counts
    ]
    total = f"{manifest.rows_in:,} in = {manifest.rows_out:,} out + {manifest.dropped:,} dropped"
    notes = [
        f"{total} + {manifest.quarantined:,} quarantined",
        f"passes: {', '.join(manifest.lineage.passes)}",
    ]
    if manifest.quarantine:
        notes.append("quarantined rows are kept in quarantine/, with the reason")
    return Table(columns=_columns(headings), rows=tuple(rows), notes=tuple(notes))


def splits_table(manifest: DatasetManifest) -> Table:
    """Splits with their shards."""
    rows = [
        (
            split.name,
            f"{split.rows:,}",
            str(len(split.shards)),
            show(sum(shard.size_bytes for shard in split.shards), BYTES),
        )
        for split in manifest.splits
    ]
    notes = [f"{manifest.kind}, version {manifest.version}, {len(manifest.features)} features"]
    if manifest.label:
        classes = f", classes {', '.join(manifest.classes[:12])}" if manifest.classes else ""
        notes.append(f"label {manifest.label}: {manifest.problem}{classes}")
    return Table(
        columns=_columns(("split", "rows", "shards", "size")), rows=tuple(rows), notes=tuple(notes)
    )


def columns_table(shown: DatasetSummary) -> Table:
    """Columns of a source or of shards."""
    rows = tuple((column.name, column.dtype) for column in shown.columns)
    return Table(
        columns=table_columns("column", "type"),
        rows=rows,
        notes=(f"{shown.path}: {shown.rows:,} rows, {len(rows)} columns",),
    )


def differences_table(differences: tuple[Difference, ...]) -> Table:
    """Differences between two datasets."""
    rows = tuple((one.what, one.before[:80], one.after[:80]) for one in differences)
    headings = table_columns("what", "first", "second")
    return Table(columns=headings, rows=rows, notes=() if rows else ("no difference",))


def pass_progress_text(progress: PassProgress) -> str:
    """Progress of a pass: rows, speed, time left."""
    left = (
        ""
        if progress.left_s is None
        else f", {show(max(progress.left_s, 0.001), DURATION, digits=2)} left"
    )
    share = 100 * progress.rows_done / max(1, progress.rows)
    return (
        f"{progress.name}: {progress.rows_done:,} rows ({share:.0f} %), {progress.rows_per_s:,.0f}"
        f" rows/s{left}"
    )


def _columns(headings: tuple[str, ...]) -> tuple[TableColumn, ...]:
    return tuple(
        TableColumn(heading=heading, numeric=place > 0) for place, heading in enumerate(headings)
    )
