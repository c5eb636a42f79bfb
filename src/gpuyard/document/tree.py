"""A file as a tree of values, each of which knows the line that it stands on."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.errors import Problem

__all__ = ["Document", "Mapping", "Node", "Place", "Scalar", "Sequence"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a value stands: its file, its line (where the format tells), and its path from the root."""

    file: str
    line: int | None
    path: str

    def __str__(self) -> str:
        at = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{at}: {self.path}" if self.path else at

    def problem(self, what: str, fix: str) -> Problem:
        """A problem at this place."""
        return Problem(where=str(self), what=what, fix=fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A leaf: its text as written, and the value that its format reads there."""

    place: Place
    text: str
    value: str | int | float | bool | datetime.date | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    """A list of nodes."""

    place: Place
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """Keys and nodes in the order of the file; `key_places` holds where each key stands."""

    place: Place
    items: tuple[tuple[str, Node], ...]
    key_places: tuple[Place, ...]

    def get(self, key: str) -> Node | None:
        """The node under `key`, or None."""
        return next((node for name, node in self.items if name == key), None)


Node = Scalar | Sequence | Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A file that was read: its name and its root."""

    file: str
    root: Node

    def place(self, path: str) -> Place:
        """Where `path` stands; a path that the file does not hold gets the place of its nearest parent."""
        best = self.root.place
        for place in _places(self.root):
            at = place.path
            inside = path == at or path.startswith((f"{at}.", f"{at}["))
            if at and inside and len(at) > len(best.path):
                best = place
        return Place(file=best.file, line=best.line, path=path)


def _places(node: Node) -> Iterator[Place]:
    """The places of the node and of all below it; of a key and its value, the key's comes first."""
    yield node.place
    if isinstance(node, Sequence):
        for item in node.items:
            yield from _places(item)
    elif isinstance(node, Mapping):
        for place, (_, child) in zip(node.key_places, node.items, strict=True):
            yield place
            yield from _places(child)
