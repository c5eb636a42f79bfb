"""The catalog: built-in data files, with the user's files layered over them row by row."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol, TypeVar, cast

from gpuyard.catalog.checkpoints import Checkpoint
from gpuyard.catalog.chips import Chip
from gpuyard.catalog.graphics import GraphicsEngine
from gpuyard.catalog.guidance import Guidance
from gpuyard.catalog.interruptions import Interruption
from gpuyard.catalog.machines import Machine
from gpuyard.catalog.models import Model
from gpuyard.catalog.optics import Optic
from gpuyard.catalog.platforms import PlatformInfo
from gpuyard.catalog.prices import Price
from gpuyard.catalog.providers import CloudProvider
from gpuyard.catalog.quotas import Quota
from gpuyard.catalog.references import broken_references
from gpuyard.catalog.regions import Region
from gpuyard.catalog.rows import Source
from gpuyard.catalog.storage import Storage
from gpuyard.catalog.switches import Asic, Switch
from gpuyard.document.decode import decode
from gpuyard.document.field_types import Keys
from gpuyard.document.read import read_file
from gpuyard.errors import Finding, InputError, Problem, closest_match

BUILTIN = Path(__file__).parent / "data"


class Row(Protocol):
    """Common attributes of rows."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> tuple[str, ...]: ...


R = TypeVar("R", bound=Row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """All tables; a catalog file has this form too, with any of the tables, rows by name."""

    sources: tuple[Source, ...] = ()
    chips: tuple[Chip, ...] = ()
    machines: tuple[Machine, ...] = ()
    platforms: tuple[PlatformInfo, ...] = ()
    storage: tuple[Storage, ...] = ()
    guidance: tuple[Guidance, ...] = ()
    graphics: tuple[GraphicsEngine, ...] = ()
    interruptions: tuple[Interruption, ...] = ()
    asics: tuple[Asic, ...] = ()
    switches: tuple[Switch, ...] = ()
    providers: tuple[CloudProvider, ...] = ()
    optics: tuple[Optic, ...] = ()
    regions: tuple[Region, ...] = ()
    prices: tuple[Price, ...] = ()
    quotas: tuple[Quota, ...] = ()
    models: tuple[Model, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()

    def chip(self, name: str) -> Chip:
        return find("chips", name, self.chips)

    def machine(self, name: str) -> Machine:
        return find("machines", name, self.machines)

    def model(self, name: str) -> Model:
        return find("models", name, self.models)

    def switch(self, name: str) -> Switch:
        return find("switches", name, self.switches)

    def asic(self, name: str) -> Asic:
        return find("asics", name, self.asics)

    def source(self, name: str) -> Source:
        return next(source for source in self.sources if source.name == name)


def find(kind: str, name: str, rows: Sequence[R]) -> R:
    """Return the row with this name or alias; InputError suggests the closest name."""
    folded = name.casefold()
    for row in rows:
        if folded == row.name.casefold() or folded in (
            alias.casefold() for alias in getattr(row, "aliases", ())
        ):
            return row
    meant = closest_match(name, [row.name for row in rows])
    fix = f'use "{meant}"' if meant else f"see `gpuyard catalog {kind}`"
    raise InputError.one("catalog", f'no row named "{name}" under {kind}', fix)


def load_catalog(layers: Iterable[Path] = (), base: Catalog | None = None) -> Catalog:
    """Return a catalog, by default the built-in one, with files or folders over it.

    The last row of a name wins.
    """
    files = [path for layer in layers for path in _files(layer)]
    catalog = functools.reduce(overlay, (_read(path) for path in files), base or _builtin())
    if files and (findings := broken_references(catalog)):
        paths = [*_builtin_files(), *files]
        raise InputError(_located(finding, paths) for finding in findings)
    return catalog


@functools.cache
def _builtin() -> Catalog:
    return functools.reduce(overlay, (_read(path) for path in _builtin_files()), Catalog())


def _builtin_files() -> list[Path]:
    return sorted(BUILTIN.rglob("*.toml"))


def _read(path: Path) -> Catalog:
    return decode(read_file(path).root, Catalog, Keys.SUFFIXED)


def _located(finding: Finding, paths: Sequence[Path]) -> Problem:
    """Replace `table.row.key` by the location in the last file that contains the row."""
    table, _, rest = finding.where.partition(".")
    row_name = rest.rpartition(".")[0]
    for path in reversed(paths):
        if any(row.name == row_name for row in getattr(_read(path), table)):
            location = read_file(path).location(finding.where)
            return location.problem(finding.what, finding.fix)
    raise AssertionError(f"no file contains {finding.where}")


def _files(layer: Path) -> list[Path]:
    if not layer.is_dir():
        return [layer]
    files = sorted(path for path in layer.iterdir() if path.suffix in (".toml", ".yaml", ".yml"))
    if not files:
        raise InputError.one(
            str(layer), "no catalog file in this folder", "add .toml or .yaml files to it"
        )
    return files


def overlay(below: Catalog, above: Catalog) -> Catalog:
    """Merge two catalogs; a row above replaces the row with the same name below."""
    tables = {}
    for field in fields(Catalog):
        rows: dict[str, object] = {row.name: row for row in getattr(below, field.name)}
        rows |= {row.name: row for row in getattr(above, field.name)}
        tables[field.name] = tuple(rows.values())
    return Catalog(**cast("dict[str, tuple[()]]", tables))
