"""Facts about virtual workstations: the driver of each chip, and the desktop packages."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from gpuyard.catalog.rows import Source
from gpuyard.document.decode import decode
from gpuyard.document.field_types import Doc, Keys
from gpuyard.document.read import read_file

PATH = Path(__file__).parent / "data" / "workstations.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """A driver with the virtual-workstation licence, in Google's bucket."""

    name: Annotated[str, Doc("release of NVIDIA's vGPU software")]
    version: str
    url: str
    sha256: str
    source: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverInstall:
    """How the driver is installed for a chip."""

    name: Annotated[str, Doc("a chip of the catalog")]
    driver: Annotated[str, Doc("a name under drivers")]
    kernel_module: Literal["open", "proprietary"]
    source: tuple[str, ...]
    options: Annotated[str, Doc("of the kernel module nvidia")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesktopPackage:
    """The OS image, or a package of the desktop."""

    name: str
    url: str
    source: tuple[str, ...]
    sha256: Annotated[str, Doc("empty if the URL always serves the newest version")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkstationFacts:
    """Contents of workstations.toml."""

    sources: tuple[Source, ...]
    drivers: tuple[Driver, ...]
    chips: tuple[DriverInstall, ...]
    packages: tuple[DesktopPackage, ...]

    def driver_install(self, chip: str | None) -> DriverInstall | None:
        """Return how the driver is installed for a chip; None if it is not documented."""
        return next((row for row in self.chips if row.name == chip), None)

    def driver(self, install: DriverInstall) -> Driver:
        return next(row for row in self.drivers if row.name == install.driver)

    def package(self, name: str) -> DesktopPackage:
        return next(row for row in self.packages if row.name == name)


@functools.cache
def read_workstation_facts() -> WorkstationFacts:
    """Return the facts that ship with gpuyard."""
    return decode(read_file(PATH).root, WorkstationFacts, Keys.SUFFIXED)
