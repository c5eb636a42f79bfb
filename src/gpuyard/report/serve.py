"""Endpoints as a table."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gpuyard.report.table import NOT_KNOWN, Column, Table
from gpuyard.serving import Endpoint
from gpuyard.units import RATIO, show

__all__ = ["endpoints_table"]


def endpoints_table(endpoints: Sequence[Endpoint]) -> Table:
    """One row for each endpoint."""
    headings = ("name", "state", "models", "canary", "url", "pid", "workers", "started")
    rows = tuple(
        (
            item.name, item.state, " ".join(item.models), _canaries(item), item.url, str(item.pid), str(item.workers),
            time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(item.started_s)),
        )
        for item in endpoints
    )  # fmt: skip
    return Table(columns=tuple(Column(heading=heading) for heading in headings), rows=rows)


def _canaries(endpoint: Endpoint) -> str:
    """The versions that answer a part of the requests, each with its share."""
    words = (f"{canary.model} {show(canary.share_ratio, RATIO)}" for canary in endpoint.canaries)
    return ", ".join(words) or NOT_KNOWN
