"""Prepared data: what every step did to how many rows, splits, columns."""

from __future__ import annotations

from html import escape
from pathlib import Path

from gpuyard.datasets.manifest import DatasetManifest
from gpuyard.datasets.saved_manifest import load_manifest
from gpuyard.errors import GpuyardError
from gpuyard.home import Home
from gpuyard.report.data import splits_table, steps_table
from gpuyard.report.page import titled
from gpuyard.report.table import Table, table_columns
from gpuyard.web.view import (
    Fragment,
    NotFoundError,
    PageRequest,
    WebPage,
    empty_note,
    link,
    linked_table,
)


def _manifest(folder: Path) -> DatasetManifest | None:
    """A manifest; None for another version's, or for one that is being written."""
    try:
        return load_manifest(folder)
    except GpuyardError:
        return None


def find_manifest(home: Home, name: str) -> DatasetManifest:
    """The manifest of the data of that name."""
    manifest = _manifest(home.data / name)
    if manifest is None:
        raise NotFoundError
    return manifest


def data_view(request: PageRequest) -> WebPage:
    """Every prepared data set."""
    folders = sorted(path.parent for path in request.home.data.glob("*/manifest.json"))
    manifests = {folder.name: item for folder in folders if (item := _manifest(folder)) is not None}
    headings = ("folder", "version", "kind", "label", "rows in", "rows out", "features", "source")
    columns = table_columns(*headings, numeric=("rows in", "rows out", "features"))
    rows = tuple(
        (
            name,
            item.version[:12],
            item.kind,
            item.label or "–",
            f"{item.rows_in:,}",
            f"{item.rows_out:,}",
            f"{len(item.features):,}",
            item.lineage.source,
        )
        for name, item in manifests.items()
    )
    body = empty_note("No data was prepared yet.", "gpuyard data run FILE")
    if rows:
        body = linked_table(
            Table(columns=columns, rows=rows), [f"/data/{name}" for name in manifests]
        )
    return WebPage(title="Data", fragments=(Fragment(id="data", html=body),))


def data_set_view(request: PageRequest) -> WebPage:
    """One data set."""
    name = request.words["name"]
    item = find_manifest(request.home, name)
    facts = (
        f"<p>{escape(item.lineage.source)}, {escape(item.kind)}, version"
        f" <code>{escape(item.version)}</code></p>"
    )
    if item.kind == "table":
        facts += (
            f"<p>{link(f'/data/{name}/profile', 'Profile of the rows that are trained on')}</p>"
        )
    columns = Table(
        columns=table_columns("column", "type"),
        rows=tuple((column.name, str(column.dtype)) for column in item.schema),
    )
    steps = (
        "<h2>What every step"
        f" did</h2>{titled(steps_table(item))}<h2>Splits</h2>{titled(splits_table(item))}"
    )
    body = f"<h2>Columns</h2>{titled(columns)}"
    fragments = (
        Fragment(id="facts", html=facts),
        Fragment(id="steps", html=steps),
        Fragment(id="columns", html=body),
    )
    return WebPage(title=f"Data {name}", fragments=fragments, above=("/data", "Data"))
