"""Running services with their live metrics."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyard.report.table import Table, table_columns
from gpuyard.serving.live_metrics import LiveModelMetrics
from gpuyard.units import DURATION, show


def live_table(rows: Sequence[LiveModelMetrics]) -> Table:
    """Every service and model."""
    columns = table_columns(
        "service", "state", "model", ">requests", ">failed", ">p50", ">p99", "address"
    )
    cells = tuple(
        (
            row.service,
            row.state,
            row.model,
            f"{row.requests_count:,}",
            f"{row.failures_count:,}",
            show(row.p50_s, DURATION) if row.p50_s is not None else "–",
            show(row.p99_s, DURATION) if row.p99_s is not None else "–",
            row.url,
        )
        for row in rows
    )
    return Table(columns=columns, rows=cells)
