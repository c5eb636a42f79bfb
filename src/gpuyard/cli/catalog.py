"""`gpuyard catalog [KIND [NAME]]`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import yaml

from gpuyard.app.catalog import (
    COLUMNS,
    KINDS,
    FieldPath,
    Query,
    catalog_rows,
    field_paths,
    find_field,
    row_type,
    row_with_sources,
)
from gpuyard.catalog.load import Catalog, Row, find, load_catalog
from gpuyard.cli.catalog_refresh import refresh
from gpuyard.cli.home_option import add_home, home_of
from gpuyard.cli.options import add_catalog, add_json, add_option, catalog_layers
from gpuyard.document.encode import plain
from gpuyard.document.frozen_json import Plain
from gpuyard.report.table import Table, TableColumn, show_value, table_columns
from gpuyard.report.terminal import print_json, print_table, print_text

REFRESH = "refresh"  # in place of a kind of rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        'examples:\n  gpuyard catalog chips --where "memory>=80GB" --where kind=gpu --sort=-bf16\n'
        "  gpuyard catalog machines a3-ultragpu-8g --sources\n"
        "  gpuyard catalog prices --where machine=a3-* --sort spot\n"
        "  gpuyard catalog chips h100-sxm --yaml > my-chip.yaml     a row to start your own from\n"
        "  gpuyard catalog refresh --project my-project     today's prices, zones and quotas"
    )
    add_option(parser, "KIND?", ", ".join((*KINDS, REFRESH)))
    add_option(parser, "NAME?", "one row, with all its fields")
    add_option(
        parser, "--where CONDITION...", "field, operator (= != < > <= >= ~), value; repeat for more"
    )
    add_option(
        parser, "--sort FIELD", "sort by this field; --sort=-FIELD for descending", default=""
    )
    add_option(parser, "--columns FIELDS", "fields to show, separated by commas", default="")
    add_option(parser, "--sources", "show the source and date of each row")
    add_option(parser, "--yaml", "with NAME: print the row as your own catalog file")
    add_option(parser, "--project ID", f"{REFRESH}: your Google Cloud project", default="")
    add_home(parser)
    add_catalog(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print rows of the catalog, or refresh it."""
    if arguments.kind == REFRESH:
        return refresh(arguments)
    catalog = load_catalog((*home_of(arguments).catalog_layers, *catalog_layers(arguments)))
    if arguments.kind is None:
        _overview(catalog, arguments.json)
    elif arguments.name is not None:
        _one(catalog, arguments)
    else:
        _list(catalog, arguments)
    return 0


def _overview(catalog: Catalog, as_json: bool) -> None:
    counts = {kind: len(getattr(catalog, kind)) for kind in KINDS}
    if as_json:
        print_json(counts)
        return
    rows = tuple((kind, str(count)) for kind, count in counts.items())
    columns = table_columns("kind", ">rows")
    print_table(Table(columns=columns, rows=rows, notes=("`gpuyard catalog KIND` lists them.",)))


def _list(catalog: Catalog, arguments: argparse.Namespace) -> None:
    query = Query(kind=arguments.kind, where=tuple(arguments.where), sort=arguments.sort)
    rows = catalog_rows(catalog, query)
    if arguments.json:
        print_json(rows)
        return
    paths = field_paths(row_type(arguments.kind))
    names = [(word.strip(), word.strip()) for word in arguments.columns.split(",") if word.strip()]
    shown = [
        (heading, find_field(paths, word))
        for heading, word in names or COLUMNS.get(arguments.kind, (("name", "name"),))
    ]
    columns = tuple(TableColumn(heading=heading, numeric=path.numeric) for heading, path in shown)
    cells = tuple(
        tuple(show_value(path.of(row), path.dimension) for _, path in shown) for row in rows
    )
    total = len(getattr(catalog, arguments.kind))
    count = (
        f"{len(rows)} of {total} {arguments.kind}"
        if arguments.where
        else f"{total} {arguments.kind}"
    )
    notes = (count, *(_cited(catalog, rows) if arguments.sources else ()))
    print_table(Table(columns=columns, rows=cells, notes=notes))


def _one(catalog: Catalog, arguments: argparse.Namespace) -> None:
    record = row_type(arguments.kind)
    row = find(arguments.kind, arguments.name, getattr(catalog, arguments.kind))
    if arguments.json:
        print_json(row)
    elif arguments.yaml:
        print_text(_as_file(catalog, row))
    else:
        known = [path for path in field_paths(record) if path.of(row) not in (None, "", ())]
        cells = tuple((_label(path), show_value(path.of(row), path.dimension)) for path in known)
        notes = _cited(catalog, (row,)) if arguments.sources else ()
        print_table(
            Table(
                columns=table_columns("field", "value"),
                rows=cells,
                notes=notes,
            )
        )


def _label(path: FieldPath) -> str:
    """The field's name without its unit, which the value shows."""
    return path.name.removesuffix(path.dimension.suffix) if path.dimension else path.name


def _cited(catalog: Catalog, rows: Sequence[Row]) -> tuple[str, ...]:
    lines = []
    for row in rows:
        for name in getattr(row, "source", ()):
            source = catalog.source(name)
            lines.append(f"{row.name}: {source.title} ({source.date}) {source.url}")
    return tuple(lines)


def _as_file(catalog: Catalog, row: Row) -> str:
    """The row and its sources as YAML that `--catalog` reads."""
    tables = plain(row_with_sources(catalog, row))
    assert isinstance(tables, dict)
    named: dict[str, dict[str, Plain]] = {}
    for kind, items in tables.items():
        assert isinstance(items, list)
        for item in items:
            assert isinstance(item, dict)
            name = str(item.pop("name"))
            item.pop("aliases", None)  # they stay with our row
            named.setdefault(kind, {})[name] = item
    return yaml.safe_dump(named, sort_keys=False, allow_unicode=True, width=120)
