"""`gy.catalog`: chips, machines, switches, prices and models, with their sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields

from gpuyard.api.result import ApiResult
from gpuyard.api.workloads import PathLike, catalog_files
from gpuyard.app.catalog import KINDS
from gpuyard.catalog.chips import Chip
from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.catalog.machines import Machine
from gpuyard.catalog.models import Model
from gpuyard.catalog.switches import Switch
from gpuyard.errors import InputError, choices_text
from gpuyard.report.page import html_table
from gpuyard.report.table import Table, table_columns


class CatalogView(ApiResult):
    """The catalog; `catalog.chip("h100-sxm")` returns a row, `table("machines")` all of a kind."""

    __slots__ = ("rows_by_kind",)

    def __init__(self, catalog: Catalog) -> None:
        self.rows_by_kind = catalog

    def chip(self, name: str) -> Chip:
        """Return a chip by name or alias."""
        return self.rows_by_kind.chip(name)

    def machine(self, name: str) -> Machine:
        """Return a machine by name."""
        return self.rows_by_kind.machine(name)

    def switch(self, name: str) -> Switch:
        """Return a switch by name or alias."""
        return self.rows_by_kind.switch(name)

    def model(self, name: str) -> Model:
        """Return a model by name or alias."""
        return self.rows_by_kind.model(name)

    def names(self, kind: str) -> tuple[str, ...]:
        """Return the names of the rows of a kind: chips, machines, switches, …"""
        return tuple(row.name for row in self._rows(kind))  # type: ignore[attr-defined]

    def table(self, kind: str) -> Sequence[Mapping[str, object]]:
        """Return the rows of a kind as mappings, nested values flattened with dots."""
        return [_flat(asdict(row)) for row in self._rows(kind)]  # type: ignore[call-overload]

    def _rows(self, kind: str) -> tuple[object, ...]:
        if kind not in KINDS:
            raise InputError.one("catalog", f'no kind "{kind}"', f"use {choices_text(KINDS, 20)}")
        rows: tuple[object, ...] = getattr(self.rows_by_kind, kind)
        return rows

    def headline(self) -> str:
        counts = (f"{len(self._rows(kind))} {kind}" for kind in KINDS)
        return ", ".join(counts)

    def sections(self) -> Sequence[str]:
        columns = table_columns("kind", ">rows")
        rows = tuple((kind, str(len(self._rows(kind)))) for kind in KINDS)
        return [html_table(Table(columns=columns, rows=rows))]

    def rows(self) -> Sequence[Mapping[str, object]]:
        return [
            {"kind": field.name, "name": row.name}
            for field in fields(self.rows_by_kind)
            for row in getattr(self.rows_by_kind, field.name)
        ]

    def value(self) -> object:
        return self.rows_by_kind


def _flat(tree: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def catalog(layers: PathLike | Sequence[PathLike] = ()) -> CatalogView:
    """Load the catalog, with your own catalog files over the built-in one."""
    return CatalogView(load_catalog(catalog_files(layers)))
