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


def _machine_chips(catalog: Catalog) -> Iterator[Finding]:
    known = _names(catalog.chips)
    for machine in catalog.machines:
        if machine.chip is not None and machine.chip not in known:
            yield _unknown(f"machines.{machine.name}.chip", "chip", machine.chip, known)


def _switch_asics(catalog: Catalog) -> Iterator[Finding]:
    known = _names(catalog.asics)
    for switch in catalog.switches:
        if switch.asic is not None and switch.asic not in known:
            yield _unknown(f"switches.{switch.name}.asic", "asic", switch.asic, known)


def _price_machines(catalog: Catalog) -> Iterator[Finding]:
    machines = _names(catalog.machines)
    chips = _names(catalog.chips)
    for price in catalog.prices:
        known = {"machine": machines, "accelerators": machines | chips, "host": {price.machine}}[
            price.covers
        ]
        if price.provider in CATALOGUED_PROVIDERS and price.machine not in known:
            yield _unknown(f"prices.{price.name}.machine", "machine", price.machine, known)


def _price_chips(catalog: Catalog) -> Iterator[Finding]:
    known = _names(catalog.chips)
    for price in catalog.prices:
        if price.chip is not None and price.chip not in known:
            yield _unknown(f"prices.{price.name}.chip", "chip", price.chip, known)


def _graphics_chips(catalog: Catalog) -> Iterator[Finding]:
    known = _names(catalog.chips)
    for engine in catalog.graphics:
        if engine.name not in known:
            yield _unknown(f"graphics.{engine.name}.source", "chip", engine.name, known)


def _interruption_chips(catalog: Catalog) -> Iterator[Finding]:
    known = _names(catalog.chips)
    for record in catalog.interruptions:
        for name in record.chips:
            if name not in known:
                yield _unknown(f"interruptions.{record.name}.chips", "chip", name, known)


def _checkpoint_models(catalog: Catalog) -> Iterator[Finding]:
    known = _names(catalog.models)
    for row in catalog.checkpoints:
        if row.model not in known:
            yield _unknown(f"checkpoints.{row.name}.model", "model", row.model, known)


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
    _machine_chips,
    _switch_asics,
    _price_machines,
    _price_chips,
    _graphics_chips,
    _interruption_chips,
    _checkpoint_models,
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
