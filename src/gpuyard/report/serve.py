"""Endpoints as a table."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gpuyard.report.table import Column, Table
from gpuyard.serving import Endpoint

__all__ = ["endpoints_table"]


def endpoints_table(endpoints: Sequence[Endpoint]) -> Table:
    """One row for each endpoint."""
    headings = ("name", "state", "models", "url", "pid", "workers", "started")
    rows = tuple(
        (
            item.name, item.state, " ".join(item.models), item.url, str(item.pid), str(item.workers),
            time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(item.started_s)),
        )
        for item in endpoints
    )  # fmt: skip
    return Table(columns=tuple(Column(heading=heading) for heading in headings), rows=rows)
