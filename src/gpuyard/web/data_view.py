"""Prepared data: what every step did to how many rows, splits, columns; and the catalog."""

from __future__ import annotations

import functools
from html import escape
from pathlib import Path

from gpuyard.app.catalog import COLUMNS, KINDS, field_paths, find_field, row_type
from gpuyard.catalog import Catalog, load_catalog
from gpuyard.datasets import Manifest
from gpuyard.document import load_json
from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.report.data import splits_table, steps_table
from gpuyard.report.page import html_table, titled
from gpuyard.report.table import Column, Table, show_value
from gpuyard.web.view import Asked, Fragment, NotFoundError, View, empty, link, linked_table

__all__ = ["catalog_kind_view", "catalog_view", "data_set_view", "data_view", "manifest_of"]


def _manifest(path: Path) -> Manifest | None:
    """A manifest; None for another version's, or for one that is being written."""
    try:
        return load_json(path.read_text(encoding="utf-8"), Manifest, str(path))
    except (InputError, OSError):
        return None


def manifest_of(home: Home, name: str) -> Manifest:
    """The manifest of the data of that name."""
    found = _manifest(home.data / name / "manifest.json")
    if found is None:
        raise NotFoundError
    return found


def data_view(asked: Asked) -> View:
    """Every prepared data set."""
    paths = sorted(asked.home.data.glob("*/manifest.json"))
    found = {path.parent.name: item for path in paths if (item := _manifest(path)) is not None}
    headings = ("folder", "version", "kind", "label", "rows in", "rows out", "features", "source")
    columns = tuple(Column(heading=name, numeric=name in ("rows in", "rows out", "features")) for name in headings)
    rows = tuple(
        (
            name, item.version[:12], item.kind, item.label or "–", f"{item.rows_in:,}", f"{item.rows_out:,}",
            f"{len(item.features):,}", item.lineage.source,
        )
        for name, item in found.items()
    )  # fmt: skip
    body = empty("No data was prepared yet.", "gpuyard data run FILE")
    if rows:
        body = linked_table(Table(columns=columns, rows=rows), [f"/data/{name}" for name in found])
    return View(title="Data", fragments=(Fragment(id="data", html=body),))


def data_set_view(asked: Asked) -> View:
    """One data set."""
    name = asked.words["name"]
    item = manifest_of(asked.home, name)
    facts = f"<p>{escape(item.lineage.source)}, {escape(item.kind)}, version <code>{escape(item.version)}</code></p>"
    if item.kind == "table":
        facts += f"<p>{link(f'/data/{name}/profile', 'Profile of the rows that are trained on')}</p>"
    columns = Table(
        columns=(Column(heading="column"), Column(heading="type")),
        rows=tuple((column.name, str(column.dtype)) for column in item.schema),
    )
    steps = f"<h2>What every step did</h2>{titled(steps_table(item))}<h2>Splits</h2>{titled(splits_table(item))}"
    body = f"<h2>Columns</h2>{titled(columns)}"
    fragments = (Fragment(id="facts", html=facts), Fragment(id="steps", html=steps), Fragment(id="columns", html=body))
    return View(title=f"Data {name}", fragments=fragments, above=("/data", "Data"))


@functools.cache
def _catalog() -> Catalog:
    """The catalog of the package: it does not change while the server runs."""
    return load_catalog()


def catalog_view(asked: Asked) -> View:  # noqa: ARG001
    """The kinds of rows."""
    catalog = _catalog()
    items = "".join(
        f'<div class="card"><b>{len(getattr(catalog, kind))}</b>{link(f"/catalog/{kind}", kind)}</div>'
        for kind in KINDS
    )
    return View(
        title="Catalog", fragments=(Fragment(id="kinds", html=f'<div class="cards">{items}</div>'),), is_live=False
    )


def catalog_kind_view(asked: Asked) -> View:
    """The rows of a kind, with the fields that the command shows."""
    kind = asked.words["kind"]
    if kind not in KINDS:
        raise NotFoundError
    paths, rows = field_paths(row_type(kind)), getattr(_catalog(), kind)
    shown = [(heading, find_field(paths, word)) for heading, word in COLUMNS.get(kind, (("name", "name"),))]
    table = Table(
        columns=tuple(Column(heading=heading, numeric=path.numeric) for heading, path in shown),
        rows=tuple(tuple(show_value(path.of(row), path.dimension) for _, path in shown) for row in rows),
    )
    note = f"<p>{len(rows)} rows; <code>gpuyard catalog {escape(kind)} --sources</code> tells where each comes from</p>"
    body = note + html_table(table)
    return View(
        title=f"Catalog: {kind}", fragments=(Fragment(id="rows", html=body),), is_live=False,
        above=("/catalog", "Catalog"),
    )  # fmt: skip
