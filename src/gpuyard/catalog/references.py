"""References between catalog rows: every name that a row uses must be the name of a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Protocol

from gpuyard.errors import Finding, closest_match

if TYPE_CHECKING:
    from gpuyard.catalog.load import Catalog

# All machines of these providers are under machines; of others there may be prices only.
CATALOGUED_PROVIDERS = ("google", "onprem")
REFERENCES = (  # table, key, and the table whose rows it names
    ("machines", "chip", "chips"),
    ("switches", "asic", "asics"),
    ("prices", "chip", "chips"),
    ("interruptions", "chips", "chips"),
    ("checkpoints", "model", "models"),
)


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Check = Callable[["Catalog"], Iterator[Finding]]


def broken_references(catalog: Catalog) -> tuple[Finding, ...]:
    """Return a finding for every name without a row; `where` is `table.row.key`."""
    return tuple(finding for check in CHECKS for finding in check(catalog))


def _sources(catalog: Catalog) -> Iterator[Finding]:
    known = _names(catalog.sources)
    for table in _tables(catalog):
        for row in getattr(catalog, table):
            if not row.source:
                yield Finding(
                    rule="missing-source",
                    severity="error",
                    where=f"{table}.{row.name}.source",
                    what="the source is missing",
                    fix='write source = ["own"], and describe it: [sources.own] title, url, date',
                )
            for name in row.source:
                if name not in known:
                    add = f"add [sources.{name}] with title, url and date"
                    yield _unknown(f"{table}.{row.name}.source", "source", name, known, add)


def _references(catalog: Catalog) -> Iterator[Finding]:
    for table, key, target in REFERENCES:
        known = _names(getattr(catalog, target))
        for row in getattr(catalog, table):
            value = getattr(row, key)
            for name in value if isinstance(value, tuple) else (value,):
                if name is not None and name not in known:
                    where = f"{table}.{row.name}.{key}"
                    yield _unknown(where, target.removesuffix("s"), name, known)


def _price_machines(catalog: Catalog) -> Iterator[Finding]:
    machines = _names(catalog.machines)
    chips = _names(catalog.chips)
    for price in catalog.prices:
        known = {"machine": machines, "accelerators": machines | chips, "host": {price.machine}}[
            price.covers
        ]
        if price.provider in CATALOGUED_PROVIDERS and price.machine not in known:
            yield _unknown(f"prices.{price.name}.machine", "machine", price.machine, known)


def _graphics_chips(catalog: Catalog) -> Iterator[Finding]:
    known = _names(catalog.chips)
    for engine in catalog.graphics:
        if engine.name not in known:
            yield _unknown(f"graphics.{engine.name}.source", "chip", engine.name, known)


def _checkpoint_chips(catalog: Catalog) -> Iterator[Finding]:
    known = _names(catalog.chips)
    for row in catalog.checkpoints:
        for name in (name for item in row.minimum_chips for name in item.chips):
            if name not in known:
                yield _unknown(f"checkpoints.{row.name}.minimum_chips", "chip", name, known)


def _shared_names(catalog: Catalog) -> Iterator[Finding]:
    """A name or alias belongs to one row of its table."""
    for table in ("chips", "switches", "models"):
        owners: dict[str, str] = {}
        for row in getattr(catalog, table):
            for name in dict.fromkeys(name.casefold() for name in (row.name, *row.aliases)):
                owner = owners.setdefault(name, row.name)
                if owner != row.name:
                    yield Finding(
                        rule="shared-name",
                        severity="error",
                        where=f"{table}.{row.name}.aliases",
                        what=f'"{name}" is also a name of "{owner}"',
                        fix="keep one of them",
                    )


CHECKS: tuple[Check, ...] = (
    _sources,
    _references,
    _price_machines,
    _graphics_chips,
    _checkpoint_chips,
    _shared_names,
)


def _unknown(where: str, noun: str, name: str, known: set[str], add: str = "") -> Finding:
    add = add or f"add [{noun}s.{name}]"
    meant = closest_match(name, known)
    return Finding(
        rule=f"unknown-{noun}",
        severity="error",
        where=where,
        what=f'no {noun} named "{name}"',
        fix=f'use "{meant}", or {add}' if meant else add,
    )


def _names(rows: Iterable[_Named]) -> set[str]:
    return {row.name for row in rows}


def _tables(catalog: Catalog) -> Iterator[str]:
    return (table.name for table in fields(catalog) if table.name != "sources")
