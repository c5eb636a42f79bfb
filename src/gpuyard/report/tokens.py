"""Packed tokens as text: every text and every token accounted for."""

from __future__ import annotations

from gpuyard.datasets import Prepared
from gpuyard.report.table import Column, Table

__all__ = ["tokens_table"]


def tokens_table(prepared: Prepared) -> Table:
    """What every split holds: tokens in = packed + left."""
    rows = []
    for split in prepared.manifest.splits:
        if not split.shards:
            continue
        totals = prepared.tokens(split.name).totals
        counts = (totals.texts_count, totals.empty_count, totals.in_tokens, totals.packed_tokens, totals.left_tokens)
        rows.append((split.name, f"{split.rows:,}", *(f"{count:,}" for count in counts)))
    names = ("split", "sequences", "texts", "empty", "tokens in", "packed", "left")
    columns = tuple(Column(heading=name, numeric=name != "split") for name in names)
    note = f"sequences of {prepared.manifest.sequence_tokens} tokens; left: fewer than a sequence at the end of a shard"
    return Table(columns=columns, rows=tuple(rows), notes=(note,))
