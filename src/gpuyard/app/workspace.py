"""The workspace: what a command works on, read once at the edge and passed on as a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.catalog.load import Catalog, load_catalog, overlay
from gpuyard.document.tree import Document
from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.workload.read import (
    own_catalogs,
    own_catalogs_of,
    read_workload,
    workload_of,
)
from gpuyard.workload.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Workspace:
    """A workload, the catalog with every layer it needs, and the state directory."""

    workload: Workload
    catalog: Catalog  # built-in rows, refreshed ones, the user's layers, then those of the workload
    home: Home
    folder: Path  # relative paths in the workload start here
    file: Path | None = None  # None for a workload that was not read from a file

    def __repr__(self) -> str:
        model = f", {self.workload.model.name}" if self.workload.model else ""
        return f"<Workspace: {self.workload.task} {self.workload.name}{model}>"

    @property
    def path(self) -> Path:
        """The workload file; InputError for a workload that was not read from one."""
        if self.file is None:
            raise InputError.one("workload", "was not read from a file", "save it as YAML first")
        return self.file


def open_workspace(file: Path, layers: Sequence[Path] = (), home: Home | None = None) -> Workspace:
    """Read a workload file and its catalog; InputError with every problem if the file is wrong."""
    home = home or Home.for_workload(file)
    catalog = load_catalog((*home.catalog_layers, *layers, *own_catalogs(file)))
    return Workspace(
        workload=read_workload(file, catalog),
        catalog=catalog,
        home=home,
        folder=file.parent,
        file=file,
    )


def workspace_of(
    document: Document,
    layers: Sequence[Path] = (),
    home: Home | None = None,
    folder: Path | None = None,
) -> Workspace:
    """Make a workspace of a workload that is in no file; its paths start at the folder."""
    folder = folder or Path()
    home = home or Home.for_workload(folder / "workload.yaml")
    own = own_catalogs_of(document, folder)
    catalog = load_catalog((*home.catalog_layers, *layers, *own))
    workload = workload_of(document, catalog, folder)
    return Workspace(workload=workload, catalog=catalog, home=home, folder=folder)


def catalog_with_blueprint(catalog: Catalog, blueprint: Blueprint | None) -> Catalog:
    """The catalog with the machine and chip of a blueprint, which may be the user's own."""
    if blueprint is None:
        return catalog
    chips = () if blueprint.chip is None else (blueprint.chip,)
    return overlay(catalog, Catalog(machines=(blueprint.machine,), chips=chips))
