"""Services with what they measure of themselves."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyard.report.table import Column, Table
from gpuyard.serving.live import Live
from gpuyard.units import DURATION, show

__all__ = ["live_table"]


def live_table(rows: Sequence[Live]) -> Table:
    """Every service and model."""
    columns = (
        Column(heading="service"), Column(heading="state"), Column(heading="model"),
        Column(heading="requests", numeric=True), Column(heading="failed", numeric=True),
        Column(heading="p50", numeric=True), Column(heading="p99", numeric=True), Column(heading="address"),
    )  # fmt: skip
    cells = tuple(
        (
            row.service, row.state, row.model, f"{row.requests_count:,}", f"{row.failures_count:,}",
            show(row.p50_s, DURATION) if row.p50_s is not None else "–",
            show(row.p99_s, DURATION) if row.p99_s is not None else "–", row.url,
        )
        for row in rows
    )  # fmt: skip
    return Table(columns=columns, rows=cells)
