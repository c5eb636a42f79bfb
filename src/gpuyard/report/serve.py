"""Endpoints, input drift and shadows as tables."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gpuyard.report.table import NOT_KNOWN, Table, table_columns
from gpuyard.serving.drift import ModelDrift
from gpuyard.serving.endpoints import Endpoint
from gpuyard.serving.monitoring import Monitoring
from gpuyard.serving.shadow_counts import ShadowCounts
from gpuyard.units import DURATION, RATIO, show


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
    return Table(columns=table_columns(*headings), rows=rows)


def calls(url: str, model: str, example: tuple[str, str], *, with_key: bool) -> str:
    """How to call a server, as commands to paste."""
    path, body = example
    curl = "curl -H 'X-API-Key: KEY'" if with_key else "curl"
    data = f"'{body}'" if body else "@request.json"
    return f"  {curl} {url}/v2/models/{model}\n  {curl} {url}{path} -d {data}"


def _canaries(endpoint: Endpoint) -> str:
    words = (f"{canary.model} {show(canary.share_ratio, RATIO)}" for canary in endpoint.canaries)
    return ", ".join(words) or NOT_KNOWN


def monitoring_tables(monitoring: Monitoring) -> tuple[Table, ...]:
    """Input drift per version, and the shadows."""
    tables = [_drift_table(item) for item in monitoring.drift]
    if monitoring.shadows:
        tables.append(_shadow_table(monitoring.shadows))
    if monitoring.without_profile or not tables:
        names = ", ".join(monitoring.without_profile) or "no model"
        note = f"{names}: no drift, because the bundle has no profile.json; train it again"
        tables.append(Table(columns=(), rows=(), notes=(note,)))
    return tuple(tables)


def _drift_table(drift: ModelDrift) -> Table:
    rows = tuple(
        (
            row.feature,
            f"{row.psi:.3f}",
            f"{row.ks:.3f}",
            show(row.missing_training_ratio, RATIO),
            show(row.missing_served_ratio, RATIO),
            row.verdict,
        )
        for row in drift.features
    )
    return Table(
        title=f"{drift.model}/{drift.version}: {drift.rows:,} recent rows against training",
        columns=table_columns(
            "feature", ">PSI", ">KS", ">missing, training", ">missing, served", "drift"
        ),
        rows=rows,
    )


def _shadow_table(shadows: Sequence[ShadowCounts]) -> Table:
    rows = tuple(
        (
            f"{item.model}/{item.version}",
            item.active or NOT_KNOWN,
            f"{item.requests:,}",
            f"{item.failures:,}",
            f"{item.dropped:,}",
            f"{item.rows:,}",
            show(item.rows_different / max(1, item.rows), RATIO),
            f"{item.difference_sum / max(1, item.values):.3g}",
            f"{item.difference_max:.3g}",
            show(item.seconds_sum / max(1, item.requests), DURATION),
        )
        for item in shadows
    )
    counts = table_columns("shadow", "active", ">requests", ">failed", ">dropped", ">rows")
    columns = (*counts, *table_columns(">different", ">mean difference", ">largest", ">mean time"))
    return Table(title="Shadows", columns=columns, rows=rows)
