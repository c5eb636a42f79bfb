"""Field types: what the annotations of a dataclass say about the keys of the file it is read from.

The annotations of a frozen dataclass are the only description of a file format: `decode` reads
values by them and `json_schema` exports them for editors.

    deadline_s: Annotated[float | None, DURATION, Doc("time limit of the run")] = None
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
import typing
from dataclasses import dataclass

from gpuyard.units import Dimension


class Keys(enum.Enum):
    """How a file names a quantity."""

    BARE = "deadline: 3d"  # workload files: the value has the unit
    # Catalogs and saved values: the key has the unit; text with a unit is accepted too.
    SUFFIXED = "deadline_s: 259200"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doc:
    """The meaning of a field in one line, shown by editors."""

    text: str

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "text", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLeast:
    """The minimum of a number."""

    limit: float

    def __init__(self, limit: float) -> None:
        object.__setattr__(self, "limit", limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerName:
    """The key under which earlier releases saved a field; files that use it can still be read."""

    name: str

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "name", name)


# Metadata of a field that holds named records: JSON has them as a mapping by name.
BY_NAME = {"by_name": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """The allowed values of a text that come from a list in the code instead of a Literal."""

    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldType:
    """A type with its annotations."""

    base: typing.Any  # a class, typing.Literal, tuple or typing.Union
    # The alternatives of a union, the item of `tuple[T, ...]`, or the items of a fixed tuple.
    options: tuple[FieldType, ...] = ()
    literals: tuple[str, ...] = ()
    optional: bool = False
    dimension: Dimension | None = None
    at_least: float | None = None
    doc: str = ""
    former_name: str | None = None

    @property
    def is_record(self) -> bool:
        return dataclasses.is_dataclass(self.base)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One key of a record."""

    name: str
    type: FieldType
    required: bool

    def key(self, keys: Keys) -> str:
        """Return the key as files spell it."""
        dimension = self.type.dimension
        if keys is Keys.BARE and dimension:
            return self.name.removesuffix(dimension.suffix)
        return self.name


def field_type_of(hint: typing.Any) -> FieldType:
    """Return the field type of a type annotation."""
    if typing.get_origin(hint) is typing.Annotated:
        inner, *extras = typing.get_args(hint)
        field_type = field_type_of(inner)
        for extra in extras:
            if isinstance(extra, Dimension):
                field_type = dataclasses.replace(field_type, dimension=extra)
            elif isinstance(extra, AtLeast):
                field_type = dataclasses.replace(field_type, at_least=extra.limit)
            elif isinstance(extra, OneOf):
                field_type = dataclasses.replace(
                    field_type, base=typing.Literal, literals=extra.values
                )
            elif isinstance(extra, Doc):
                field_type = dataclasses.replace(field_type, doc=extra.text)
            elif isinstance(extra, FormerName):
                field_type = dataclasses.replace(field_type, former_name=extra.name)
        return field_type
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        options = tuple(field_type_of(option) for option in arguments if option is not type(None))
        optional = type(None) in arguments
        if len(options) == 1:
            return dataclasses.replace(options[0], optional=optional)
        return FieldType(base=typing.Union, options=options, optional=optional)
    if origin is typing.Literal:
        return FieldType(base=typing.Literal, literals=tuple(str(value) for value in arguments))
    if origin is tuple:
        return FieldType(
            base=tuple,
            options=tuple(field_type_of(item) for item in arguments if item is not Ellipsis),
        )
    return FieldType(base=hint)


@functools.cache
def fields_of(record: type) -> tuple[Field, ...]:
    """Return the fields of a dataclass in order."""
    hints = typing.get_type_hints(record, include_extras=True)
    return tuple(
        Field(
            name=field.name,
            type=field_type_of(hints[field.name]),
            required=field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING,
        )
        for field in dataclasses.fields(record)
        if field.init
    )
