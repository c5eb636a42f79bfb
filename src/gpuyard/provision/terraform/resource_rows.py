"""The table of Google API methods and the Terraform resources that replace their requests."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from gpuyard.document.decode import decode
from gpuyard.document.field_types import Doc, Keys
from gpuyard.document.frozen_json import FrozenJson, Plain
from gpuyard.document.read import read_file

PATH = Path(__file__).parent / "data" / "resources.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A path in a request, and what it becomes."""

    name: str
    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRow:
    """How the request of one method becomes a resource."""

    method: str
    type: str
    moves: Annotated[tuple[Move, ...], Doc("path in the request: path in the resource")] = ()
    parameters: Annotated[tuple[Move, ...], Doc("parameter of the URL: argument")] = ()
    named: Annotated[tuple[Move, ...], Doc("path of a map: argument that takes its keys")] = ()
    separate: Annotated[tuple[Move, ...], Doc("path of a list: type of its resources")] = ()
    parent: Annotated[str, Doc("argument of separate resources that names this one")] = ""
    defaults: Annotated[FrozenJson, Doc("arguments that the API does not need")] = field(
        default_factory=FrozenJson
    )
    last_part: Annotated[tuple[str, ...], Doc("arguments that take a name, not a URL")] = ()
    ignored_changes: Annotated[tuple[str, ...], Doc("arguments that others change")] = ()
    runs_machines: bool = False

    def move_of(self, path: str) -> str | None:
        """Return what a path of the request becomes; None: its own name."""
        return _to(self.moves, path)

    def key_of(self, path: str) -> str | None:
        """Return the argument that takes the keys of a map; None: it is no such map."""
        return _to(self.named, path)

    def separate_type(self, path: str) -> str | None:
        """Return the type of the resources that a list becomes; None: it stays a block."""
        return _to(self.separate, path)

    def argument_of(self, parameter: str) -> str | None:
        """Return the argument that takes a parameter of the URL; None: its own name."""
        return _to(self.parameters, parameter)

    @property
    def default_values(self) -> dict[str, Plain]:
        """Arguments by their path in the resource."""
        values = self.defaults.plain()
        return values if isinstance(values, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    resource: tuple[ResourceRow, ...]


@functools.cache
def resource_rows() -> dict[str, ResourceRow]:
    """Return the rows by method."""
    table = decode(read_file(PATH).root, _Table, Keys.SUFFIXED)
    return {row.method: row for row in table.resource}


def _to(moves: tuple[Move, ...], path: str) -> str | None:
    return next((move.to for move in moves if move.name == path), None)
