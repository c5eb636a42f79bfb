"""Facts of virtual workstations: the driver of each chip, and what their desktop is made of."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from gpuyard.catalog.rows import Source
from gpuyard.document import Doc, Keys, decode, read_file

__all__ = ["Driver", "Fitting", "Ingredient", "WorkstationFacts", "read_workstation_facts"]

PATH = Path(__file__).parent / "data" / "workstations.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """A driver with the licence of workstations, in Google's bucket."""

    name: Annotated[str, Doc("the release of NVIDIA's vGPU software")]
    version: str
    url: str
    sha256: str
    source: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """How the driver is put on a machine with this chip."""

    name: Annotated[str, Doc("a name under chips of the catalog")]
    driver: Annotated[str, Doc("a name under drivers")]
    kernel_module: Literal["open", "proprietary"]
    source: tuple[str, ...]
    options: Annotated[str, Doc("of the module nvidia")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingredient:
    """An image or a package that the desktop is made of."""

    name: str
    address: str
    source: tuple[str, ...]
    sha256: Annotated[str, Doc("empty where the address always gives the newest")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkstationFacts:
    """All of them."""

    sources: tuple[Source, ...]
    drivers: tuple[Driver, ...]
    chips: tuple[Fitting, ...]
    parts: tuple[Ingredient, ...]

    def fitting(self, chip: str | None) -> Fitting | None:
        """How a chip is fitted out; None where no source tells."""
        return next((row for row in self.chips if row.name == chip), None)

    def driver(self, fitting: Fitting) -> Driver:
        """The driver of a fitting."""
        return next(row for row in self.drivers if row.name == fitting.driver)

    def part(self, name: str) -> Ingredient:
        """A part of the desktop."""
        return next(row for row in self.parts if row.name == name)


@functools.cache
def read_workstation_facts() -> WorkstationFacts:
    """The facts that are shipped."""
    return decode(read_file(PATH).root, WorkstationFacts, Keys.SUFFIXED)
