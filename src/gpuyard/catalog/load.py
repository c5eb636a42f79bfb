"""The catalog: our data files, with the user's own layered over them row by row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol, TypeVar, cast

from gpuyard.catalog.chips import Chip
from gpuyard.catalog.graphics import GraphicsEngine
from gpuyard.catalog.guidance import Guidance
from gpuyard.catalog.interruptions import Interruption
from gpuyard.catalog.machines import Machine
from gpuyard.catalog.models import Model
from gpuyard.catalog.platforms import Platform
from gpuyard.catalog.prices import Price
from gpuyard.catalog.references import BrokenReference, broken_references
from gpuyard.catalog.regions import Region
from gpuyard.catalog.rows import Source
from gpuyard.catalog.storage import Storage
from gpuyard.catalog.switches import Asic, Switch
from gpuyard.document import Document, Keys, decode, read_file
from gpuyard.errors import InputError, Problem, nearest

__all__ = ["Catalog", "Row", "find", "load_catalog"]


OURS = Path(__file__).parent / "data"


class Row(Protocol):
    """What rows of every kind have."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> tuple[str, ...]: ...


R = TypeVar("R", bound=Row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """What exists. A catalog file has this form too: any of these tables, each row under its name."""

    sources: tuple[Source, ...] = ()
    chips: tuple[Chip, ...] = ()
    machines: tuple[Machine, ...] = ()
    platforms: tuple[Platform, ...] = ()
    storage: tuple[Storage, ...] = ()
    guidance: tuple[Guidance, ...] = ()
    graphics: tuple[GraphicsEngine, ...] = ()
    interruptions: tuple[Interruption, ...] = ()
    asics: tuple[Asic, ...] = ()
    switches: tuple[Switch, ...] = ()
    regions: tuple[Region, ...] = ()
    prices: tuple[Price, ...] = ()
    models: tuple[Model, ...] = ()

    def chip(self, name: str) -> Chip:
        """The chip of that name."""
        return find("chips", name, self.chips)

    def machine(self, name: str) -> Machine:
        """The machine of that name."""
        return find("machines", name, self.machines)

    def model(self, name: str) -> Model:
        """The model of that name."""
        return find("models", name, self.models)

    def switch(self, name: str) -> Switch:
        """The switch of that name."""
        return find("switches", name, self.switches)

    def asic(self, name: str) -> Asic:
        """The switching chip of that name."""
        return find("asics", name, self.asics)

    def source(self, name: str) -> Source:
        """The source of that name."""
        return next(source for source in self.sources if source.name == name)


def find(kind: str, name: str, rows: Sequence[R]) -> R:
    """The row of that name or alias; InputError with the nearest name if there is none."""
    wanted = name.casefold()
    for row in rows:
        if wanted == row.name.casefold() or wanted in (alias.casefold() for alias in getattr(row, "aliases", ())):
            return row
    meant = nearest(name, [row.name for row in rows])
    fix = f'use "{meant}"' if meant else f"`gpuyard catalog {kind}` lists them"
    raise InputError.one("catalog", f'no row named "{name}" under {kind}', fix)


def load_catalog(layers: Iterable[Path] = ()) -> Catalog:
    """Our catalog with the user's files (or folders of them) over it, later ones winning row by row."""
    catalog = Catalog()
    parts: list[tuple[Document, Catalog]] = []
    for layer in (OURS, *layers):
        for path in _files(layer):
            document = read_file(path)
            part = decode(document.root, Catalog, Keys.SUFFIXED)
            parts.append((document, part))
            catalog = _over(catalog, part)
    if broken := broken_references(catalog):
        raise InputError(_problem(reference, parts) for reference in broken)
    return catalog


def _problem(reference: BrokenReference, parts: Sequence[tuple[Document, Catalog]]) -> Problem:
    """The broken reference at its place: in the last file that holds the row."""
    for document, part in reversed(parts):
        if any(row.name == reference.row for row in getattr(part, reference.table)):
            place = document.place(f"{reference.table}.{reference.row}.{reference.key}")
            return place.problem(reference.what, reference.fix)
    raise AssertionError(f"no file holds {reference.table}.{reference.row}")


def _files(layer: Path) -> list[Path]:
    """The catalog files of a layer, in a fixed order."""
    if not layer.is_dir():
        return [layer]
    files = sorted(path for path in layer.iterdir() if path.suffix in (".toml", ".yaml", ".yml"))
    if not files:
        raise InputError.one(str(layer), "no catalog file in this folder", "put .toml or .yaml files there")
    return files


def _over(below: Catalog, above: Catalog) -> Catalog:
    """Both catalogs as one; a row above replaces the row of the same name below."""
    merged = {}
    for field in fields(Catalog):
        rows: dict[str, object] = {row.name: row for row in getattr(below, field.name)}
        rows |= {row.name: row for row in getattr(above, field.name)}
        merged[field.name] = tuple(rows.values())
    return Catalog(**cast("dict[str, tuple[()]]", merged))
