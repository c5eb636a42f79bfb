"""What a dataclass says about the file it is read from: its keys, their types and their limits.

The annotations of a frozen dataclass are the only description of a file format. `decode` reads values by them,
`json_schema` exports them for editors, and a field is written once:

    deadline_s: Annotated[float | None, DURATION, Doc("the run must be finished by then")] = None
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
import typing
from dataclasses import dataclass

from gpuyard.units import Dimension

__all__ = ["AtLeast", "Doc", "Field", "Keys", "Shape", "fields_of", "shape_of"]


class Keys(enum.Enum):
    """How a file names a quantity."""

    BARE = "deadline: 3d"  # people's files: the value carries the unit
    SUFFIXED = "deadline_s: 259200"  # catalogs and saved values: the key carries it; a text with a unit may stand too


@dataclass(frozen=True, slots=True, kw_only=True)
class Doc:
    """What a field means, in one line; shown by editors."""

    text: str

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "text", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLeast:
    """The least value that a number may have."""

    limit: float

    def __init__(self, limit: float) -> None:
        object.__setattr__(self, "limit", limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A type with what was annotated on it; a union is its alternatives."""

    base: typing.Any  # a class, or typing.Literal, tuple or union form
    options: tuple[Shape, ...] = ()  # alternatives of a union, the item of a tuple, or each of its few
    literals: tuple[str, ...] = ()
    optional: bool = False
    dimension: Dimension | None = None
    at_least: float | None = None
    doc: str = ""

    @property
    def is_record(self) -> bool:
        """True of a dataclass."""
        return dataclasses.is_dataclass(self.base)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One key of a record."""

    name: str
    shape: Shape
    required: bool

    def key(self, keys: Keys) -> str:
        """The key's spelling in a file."""
        dimension = self.shape.dimension
        return self.name.removesuffix(dimension.suffix) if keys is Keys.BARE and dimension else self.name


def shape_of(hint: typing.Any) -> Shape:
    """The shape of a type annotation."""
    if typing.get_origin(hint) is typing.Annotated:
        inner, *extras = typing.get_args(hint)
        shape = shape_of(inner)
        for extra in extras:
            if isinstance(extra, Dimension):
                shape = dataclasses.replace(shape, dimension=extra)
            elif isinstance(extra, AtLeast):
                shape = dataclasses.replace(shape, at_least=extra.limit)
            elif isinstance(extra, Doc):
                shape = dataclasses.replace(shape, doc=extra.text)
        return shape
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        options = tuple(shape_of(option) for option in arguments if option is not type(None))
        optional = type(None) in arguments
        if len(options) == 1:
            return dataclasses.replace(options[0], optional=optional)
        return Shape(base=typing.Union, options=options, optional=optional)
    if origin is typing.Literal:
        return Shape(base=typing.Literal, literals=tuple(str(value) for value in arguments))
    if origin is tuple:
        return Shape(base=tuple, options=tuple(shape_of(item) for item in arguments if item is not Ellipsis))
    return Shape(base=hint)


@functools.cache
def fields_of(record: type) -> tuple[Field, ...]:
    """The fields of a dataclass with their shapes, in order."""
    hints = typing.get_type_hints(record, include_extras=True)
    return tuple(
        Field(
            name=field.name,
            shape=shape_of(hints[field.name]),
            required=field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
        )
        for field in dataclasses.fields(record)
        if field.init
    )
