"""Endpoints as a table."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gpuyard.report.table import NOT_KNOWN, Table, TableColumn
from gpuyard.serving.endpoints import Endpoint
from gpuyard.units import RATIO, show


def endpoints_table(endpoints: Sequence[Endpoint]) -> Table:
    """One row per endpoint."""
    headings = ("name", "state", "models", "canary", "url", "pid", "workers", "started")
    rows = tuple(
        (
            item.name,
            item.state,
            " ".join(item.models),
            _canaries(item),
            " ".join(filter(None, (item.url, item.grpc_url))),
            str(item.pid),
            str(item.workers),
            time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(item.started_s)),
        )
        for item in endpoints
    )
    return Table(columns=tuple(TableColumn(heading=heading) for heading in headings), rows=rows)


def calls(url: str, model: str, example: tuple[str, str], *, with_key: bool) -> str:
    """How to call a server, as commands to paste."""
    path, body = example
    curl = "curl -H 'X-API-Key: KEY'" if with_key else "curl"
    data = f"'{body}'" if body else "@request.json"
    return f"  {curl} {url}/v2/models/{model}\n  {curl} {url}{path} -d {data}"


def _canaries(endpoint: Endpoint) -> str:
    words = (f"{canary.model} {show(canary.share_ratio, RATIO)}" for canary in endpoint.canaries)
    return ", ".join(words) or NOT_KNOWN
