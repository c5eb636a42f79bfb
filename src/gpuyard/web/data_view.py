"""Prepared data: what every step did to how many rows, splits, columns; and the catalog."""

from __future__ import annotations

import functools
from html import escape
from pathlib import Path

from gpuyard.app.catalog import COLUMNS, KINDS, field_paths, find_field, row_type
from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.datasets.manifest import DatasetManifest
from gpuyard.document.encode import load_json
from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.report.data import splits_table, steps_table
from gpuyard.report.page import html_table, titled
from gpuyard.report.table import Table, TableColumn, show_value
from gpuyard.web.view import (
    Fragment,
    NotFoundError,
    PageRequest,
    WebPage,
    empty_note,
    link,
    linked_table,
)


def _manifest(path: Path) -> DatasetManifest | None:
    """A manifest; None for another version's, or for one that is being written."""
    try:
        return load_json(path.read_text(encoding="utf-8"), DatasetManifest, str(path))
    except (InputError, OSError):
        return None


def find_manifest(home: Home, name: str) -> DatasetManifest:
    """The manifest of the data of that name."""
    manifest = _manifest(home.data / name / "manifest.json")
    if manifest is None:
        raise NotFoundError
    return manifest


def data_view(request: PageRequest) -> WebPage:
    """Every prepared data set."""
    paths = sorted(request.home.data.glob("*/manifest.json"))
    manifests = {path.parent.name: item for path in paths if (item := _manifest(path)) is not None}
    headings = ("folder", "version", "kind", "label", "rows in", "rows out", "features", "source")
    columns = tuple(
        TableColumn(heading=name, numeric=name in ("rows in", "rows out", "features"))
        for name in headings
    )
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
        columns=(TableColumn(heading="column"), TableColumn(heading="type")),
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


@functools.cache
def _catalog() -> Catalog:
    """The catalog of the package: it does not change while the server runs."""
    return load_catalog()


def catalog_view(request: PageRequest) -> WebPage:  # noqa: ARG001
    """The kinds of rows."""
    catalog = _catalog()
    items = "".join(
        "<div"
        f' class="card"><b>{len(getattr(catalog, kind))}</b>{link(f"/catalog/{kind}", kind)}</div>'
        for kind in KINDS
    )
    return WebPage(
        title="Catalog",
        fragments=(Fragment(id="kinds", html=f'<div class="cards">{items}</div>'),),
        is_live=False,
    )


def catalog_kind_view(request: PageRequest) -> WebPage:
    """The rows of a kind, with the fields that the command shows."""
    kind = request.words["kind"]
    if kind not in KINDS:
        raise NotFoundError
    paths, rows = field_paths(row_type(kind)), getattr(_catalog(), kind)
    shown = [
        (heading, find_field(paths, word))
        for heading, word in COLUMNS.get(kind, (("name", "name"),))
    ]
    table = Table(
        columns=tuple(
            TableColumn(heading=heading, numeric=path.numeric) for heading, path in shown
        ),
        rows=tuple(
            tuple(show_value(path.of(row), path.dimension) for _, path in shown) for row in rows
        ),
    )
    note = (
        f"<p>{len(rows)} rows; <code>gpuyard catalog {escape(kind)} --sources</code> shows where"
        " each comes from</p>"
    )
    body = note + html_table(table)
    return WebPage(
        title=f"Catalog: {kind}",
        fragments=(Fragment(id="rows", html=body),),
        is_live=False,
        above=("/catalog", "Catalog"),
    )
