"""Packed tokens as text: every document and token accounted for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuyard.report.table import Table, table_columns

if TYPE_CHECKING:
    from gpuyard.datasets.prepared import PreparedDataset


def tokens_table(prepared: PreparedDataset) -> Table:
    """Contents of every split: tokens in = packed + left over."""
    rows = []
    for split in prepared.manifest.splits:
        if not split.shards:
            continue
        totals = prepared.tokens(split.name).totals
        counts = (
            totals.texts_count,
            totals.empty_count,
            totals.in_tokens,
            totals.packed_tokens,
            totals.left_tokens,
        )
        rows.append((split.name, f"{split.rows:,}", *(f"{count:,}" for count in counts)))
    columns = table_columns(
        "split", ">sequences", ">texts", ">empty", ">tokens in", ">packed", ">left"
    )
    note = (
        f"sequences of {prepared.manifest.sequence_tokens} tokens; left: fewer than a sequence at"
        " the end of a shard"
    )
    return Table(columns=columns, rows=tuple(rows), notes=(note,))
