"""What the rows of a catalog say of each other: every name that a row uses must be the name of a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Protocol

from gpuyard.errors import nearest

if TYPE_CHECKING:
    from gpuyard.catalog.load import Catalog

__all__ = ["CHECKS", "BrokenReference", "broken_references"]

CATALOGUED_PROVIDERS = ("google", "onprem")  # all their machines are under machines; of others there may be prices only


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenReference:
    """A row whose `key` names something that is not there."""

    table: str
    row: str
    key: str
    what: str
    fix: str


class _Named(Protocol):
    """A row of any kind."""

    @property
    def name(self) -> str: ...


Check = Callable[["Catalog"], Iterator[BrokenReference]]


def broken_references(catalog: Catalog) -> tuple[BrokenReference, ...]:
    """Every reference of the catalog that leads nowhere."""
    return tuple(broken for check in CHECKS for broken in check(catalog))


def _sources(catalog: Catalog) -> Iterator[BrokenReference]:
    """Every row has a source, and the source is described."""
    known = _names(catalog.sources)
    for table in _tables(catalog):
        for row in getattr(catalog, table):
            if not row.source:
                fix = 'write source = ["own"], and describe it: [sources.own] title, url, date'
                yield BrokenReference(table=table, row=row.name, key="source", what="no source is named", fix=fix)
            for name in row.source:
                if name not in known:
                    fix = f"add [sources.{name}] with title, url and date"
                    yield _unknown(table, row.name, "source", "source", name, known, fix)


def _machine_chips(catalog: Catalog) -> Iterator[BrokenReference]:
    """A machine's chip is under chips."""
    known = _names(catalog.chips)
    for machine in catalog.machines:
        if machine.chip is not None and machine.chip not in known:
            fix = f"add [chips.{machine.chip}]"
            yield _unknown("machines", machine.name, "chip", "chip", machine.chip, known, fix)


def _switch_asics(catalog: Catalog) -> Iterator[BrokenReference]:
    """A switch's ASIC is under asics."""
    known = _names(catalog.asics)
    for switch in catalog.switches:
        if switch.asic is not None and switch.asic not in known:
            fix = f"add [asics.{switch.asic}]"
            yield _unknown("switches", switch.name, "asic", "asic", switch.asic, known, fix)


def _price_machines(catalog: Catalog) -> Iterator[BrokenReference]:
    """A price of a provider whose machines we hold is the price of one of them, of a bare host or of a chip."""
    machines, chips = _names(catalog.machines), _names(catalog.chips)
    for price in catalog.prices:
        known = {"machine": machines, "accelerators": machines | chips, "host": {price.machine}}[price.covers]
        if price.provider in CATALOGUED_PROVIDERS and price.machine not in known:
            fix = f"add [machines.{price.machine}]"
            yield _unknown("prices", price.name, "machine", "machine", price.machine, known, fix)


def _price_chips(catalog: Catalog) -> Iterator[BrokenReference]:
    """The chip that a price names is under chips."""
    known = _names(catalog.chips)
    for price in catalog.prices:
        if price.chip is not None and price.chip not in known:
            yield _unknown("prices", price.name, "chip", "chip", price.chip, known, f"add [chips.{price.chip}]")


def _chip_facts(catalog: Catalog) -> Iterator[BrokenReference]:
    """What is said of a chip elsewhere is said of a chip that is under chips."""
    known = _names(catalog.chips)
    for engine in catalog.graphics:
        if engine.name not in known:
            yield _unknown("graphics", engine.name, "source", "chip", engine.name, known, f"add [chips.{engine.name}]")
    for record in catalog.interruptions:
        for name in record.chips:
            if name not in known:
                fix = f"add [chips.{name}]"
                yield _unknown("interruptions", record.name, "chips", "chip", name, known, fix)


def _shared_names(catalog: Catalog) -> Iterator[BrokenReference]:
    """A name or alias belongs to one row of its table."""
    for table in ("chips", "switches", "models"):
        owners: dict[str, str] = {}
        for row in getattr(catalog, table):
            for name in dict.fromkeys(name.casefold() for name in (row.name, *row.aliases)):
                owner = owners.setdefault(name, row.name)
                if owner != row.name:
                    what = f'"{name}" is also a name of "{owner}"'
                    yield BrokenReference(table=table, row=row.name, key="aliases", what=what, fix="keep one of them")


CHECKS: tuple[Check, ...] = (
    _sources, _machine_chips, _switch_asics, _price_machines, _price_chips, _chip_facts, _shared_names,
)  # fmt: skip


def _unknown(table: str, row: str, key: str, noun: str, name: str, known: set[str], add: str) -> BrokenReference:
    """The reference to a name that no row has, with the name that was likely meant."""
    meant = nearest(name, known)
    fix = f'use "{meant}", or {add}' if meant else add
    return BrokenReference(table=table, row=row, key=key, what=f'no {noun} named "{name}"', fix=fix)


def _names(rows: Iterable[_Named]) -> set[str]:
    """The names of the rows."""
    return {row.name for row in rows}


def _tables(catalog: Catalog) -> Iterator[str]:
    """The tables whose rows have sources."""
    return (table.name for table in fields(catalog) if table.name != "sources")
