"""A parsed file as a tree of values with source locations."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuyard.errors import Problem

_SEPARATOR = re.compile(r"[.\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    """File, line (if the format has lines) and key path of a value."""

    file: str
    line: int | None
    path: str

    def __str__(self) -> str:
        at = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{at}: {self.path}" if self.path else at

    def problem(self, what: str, fix: str) -> Problem:
        return Problem(where=str(self), what=what, fix=fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A leaf: its text as written, and its parsed value."""

    location: SourceLocation
    text: str
    value: str | int | float | bool | datetime.date | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    """A list of nodes."""

    location: SourceLocation
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """Keys and nodes in the order of the file, and the location of each key."""

    location: SourceLocation
    items: tuple[tuple[str, Node], ...]
    key_locations: tuple[SourceLocation, ...]

    def get(self, key: str) -> Node | None:
        return next((node for name, node in self.items if name == key), None)


Node = Scalar | Sequence | Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed file: its name and its root node."""

    file: str
    root: Node
    _index: dict[str, SourceLocation] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )  # filled when a location is first asked for

    def location(self, path: str) -> SourceLocation:
        """Return the location of a key path; a missing key has the line of its nearest parent."""
        if not self._index:
            for location in _locations(self.root):
                self._index.setdefault(location.path, location)
        parents = (path[: match.start()] for match in reversed(list(_SEPARATOR.finditer(path))))
        known = (self._index[at] for at in (path, *parents) if at and at in self._index)
        best = next(known, self.root.location)
        return SourceLocation(file=best.file, line=best.line, path=path)


# Of a key and its value the key comes first, so that a section is reported at its key.
def _locations(node: Node) -> Iterator[SourceLocation]:
    yield node.location
    if isinstance(node, Sequence):
        for item in node.items:
            yield from _locations(item)
    elif isinstance(node, Mapping):
        for location, (_, child) in zip(node.key_locations, node.items, strict=True):
            yield location
            yield from _locations(child)
