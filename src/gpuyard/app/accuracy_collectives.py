"""`gpuyard accuracy collectives`: the NCCL time model against published bus bandwidths."""

from __future__ import annotations

from pathlib import Path

from gpuyard.app.accuracy import read_rows
from gpuyard.simulate.collectives.score import CollectiveScore, score_collectives

NEEDED = {"system", "fabric", "nodes", "gpus", "collective", "size_bytes", "time_us", "busbw_GBps"}
COLUMNS = (
    "system, fabric, nodes, gpus, collective, size_bytes, time_us, algbw_GBps, busbw_GBps, note"
)


def score_bandwidths(path: Path) -> CollectiveScore:
    """Score the model on the measured collectives of a CSV file."""
    return score_collectives(read_rows(path, NEEDED, "measured collectives", COLUMNS))
