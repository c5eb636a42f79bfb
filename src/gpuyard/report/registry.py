"""Registered models as tables."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace

from gpuyard.registry.bundle import ModelBundle
from gpuyard.registry.registry import ModelVersion
from gpuyard.report.table import Table, table_columns
from gpuyard.units import BYTES, COUNT, show

MOST_METRICS = 3


def models_table(versions: Sequence[ModelVersion]) -> Table:
    """One row per version, oldest first."""
    rows = tuple(
        (
            version.name,
            str(version.version),
            ", ".join(version.aliases),
            version.bundle.kind,
            version.bundle.trainer,
            ", ".join(
                f"{metric.name} {metric.value:.4g}" for metric in version.metrics[:MOST_METRICS]
            ),
            show(version.bundle.size_bytes, BYTES),
            when(version.created_s),
        )
        for version in versions
    )
    headings = ("name", "version", "aliases", "kind", "trainer", "measured", "size", "registered")
    numeric = ("version", "size")
    return Table(
        columns=table_columns(*headings, numeric=numeric),
        rows=rows,
    )


def detail_tables(
    version: ModelVersion, changes: Sequence[tuple[str, int | None, float]]
) -> tuple[Table, ...]:
    """A version in full: facts, metrics, lineage, alias history."""
    bundle = replace(version.bundle, metrics=version.metrics, lineage=version.lineage)
    facts = (
        ("aliases", ", ".join(version.aliases)),
        ("registered", when(version.created_s)),
        ("folder", version.folder),
        ("digest", version.digest),
    )
    moved = [
        (f"{when(at_s)} {alias}", "taken away" if number is None else f"version {number}")
        for alias, number, at_s in changes
    ]
    tables = (
        *bundle_tables(bundle, version.reference, facts),
        _pairs("aliases of the model over time", moved),
    )
    return tuple(table for table in tables if table.rows)


def bundle_tables(
    bundle: ModelBundle, title: str, facts: Sequence[tuple[str, str]] = ()
) -> tuple[Table, ...]:
    """A model's facts with further ones, its metrics, hyperparameters and environment."""
    lineage = bundle.lineage
    known = (
        ("kind", bundle.kind),
        ("trainer", bundle.trainer),
        ("framework", bundle.framework),
        ("parameters", show(bundle.parameters_count, COUNT)),
        ("size", show(bundle.size_bytes, BYTES)),
        *facts,
        ("data", lineage.data),
        ("transform", lineage.transform),
        ("code", lineage.code),
        ("run", lineage.run),
        ("parent", lineage.parent),
    )
    metrics = [(item.name, _measured(item.value, item.low, item.high)) for item in bundle.metrics]
    tables = (
        _pairs(title, [(key, value) for key, value in known if value]),
        _pairs("measured", metrics),
        _pairs("parameters", [(pair.name, pair.value) for pair in lineage.parameters]),
        _pairs("environment", [(pair.name, pair.value) for pair in lineage.environment]),
    )
    return tuple(table for table in tables if table.rows)


def when(unix_s: float) -> str:
    """A time to the minute, in UTC."""
    return datetime.datetime.fromtimestamp(unix_s, tz=datetime.UTC).strftime("%Y-%m-%d %H:%M")


def _measured(value: float, low: float | None, high: float | None) -> str:
    return (
        f"{value:.6g}" if low is None or high is None else f"{value:.6g} ({low:.4g} to {high:.4g})"
    )


def _pairs(title: str, rows: Sequence[tuple[str, str]]) -> Table:
    return Table(columns=table_columns("", ""), rows=tuple(rows), title=title)
