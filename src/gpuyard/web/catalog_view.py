"""The catalog: kinds of rows, their tables with filter and order, and a row with its sources."""

from __future__ import annotations

from html import escape

from gpuyard.app.catalog import COLUMNS, KINDS, field_paths, find_field, row_type
from gpuyard.app.planner import builtin_catalog
from gpuyard.catalog.load import Row
from gpuyard.report.page import html_table
from gpuyard.report.table import Table, TableColumn, show_value, table_columns
from gpuyard.web.view import Fragment, NotFoundError, PageRequest, WebPage, link, linked_table

FILTER = (
    '<p class="filter"><label>Filter <input type="search" data-filter autocomplete="off"></label>'
    ' <output role="status"></output></p>'
)


def catalog_view(request: PageRequest) -> WebPage:  # noqa: ARG001
    """The kinds of rows."""
    catalog = builtin_catalog()
    items = "".join(
        f'<div class="card"><b>{len(getattr(catalog, kind))}</b>'
        f"{link(f'/catalog/{kind}', kind)}</div>"
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
    rows = _rows(kind)
    paths = field_paths(row_type(kind))
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
    addresses = [f"/catalog/{kind}/row?name={row.name}" for row in rows]
    body = f"{FILTER}{linked_table(table, addresses)}"
    return WebPage(
        title=f"Catalog: {kind}",
        fragments=(Fragment(id="rows", html=body),),
        is_live=False,
        above=("/catalog", "Catalog"),
    )


def catalog_row_view(request: PageRequest) -> WebPage:
    """Every field of a row, and where its values come from."""
    kind, name = request.words["kind"], request.query.get("name", "")
    row = next((row for row in _rows(kind) if row.name == name), None)
    if row is None:
        raise NotFoundError
    known = [(path, path.of(row)) for path in field_paths(row_type(kind))]
    fields = Table(
        columns=table_columns("field", "value"),
        rows=tuple(
            (path.name, show_value(value, path.dimension))
            for path, value in known
            if value not in (None, "", ())
        ),
    )
    return WebPage(
        title=f"{kind}: {name}",
        fragments=(
            Fragment(id="fields", html=html_table(fields)),
            Fragment(id="sources", html=_sources(row)),
        ),
        is_live=False,
        above=(f"/catalog/{kind}", f"Catalog: {kind}"),
    )


def _rows(kind: str) -> tuple[Row, ...]:
    if kind not in KINDS:
        raise NotFoundError
    rows: tuple[Row, ...] = getattr(builtin_catalog(), kind)
    return rows


def _sources(row: Row) -> str:
    """The sources of a row, as links that leave the page."""
    names = getattr(row, "source", ())
    sources = [builtin_catalog().source(name) for name in names]
    items = "".join(
        f'<li><a href="{escape(source.url)}" rel="noreferrer">{escape(source.title)}</a>,'
        f" {escape(str(source.date))}</li>"
        for source in sources
    )
    return f"<h2>Sources</h2><ul>{items}</ul>" if items else ""
