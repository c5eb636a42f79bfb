"""Arguments of the Python API: Python values as documents, decoded as strictly as files."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar, cast

from gpuyard.document.decode import decode, decode_as
from gpuyard.document.field_types import Field, Keys, fields_of
from gpuyard.document.read import read_plain
from gpuyard.errors import InputError, choices_text, closest_match
from gpuyard.units import Dimension, UnitError, parse

T = TypeVar("T")


def plain(value: object) -> object:
    """Mappings, sequences, paths, records and NumPy scalars as a file would hold them."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain(dataclasses.asdict(value))
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0:
        return value.item()  # type: ignore[attr-defined]
    return value


def check_type(value: object, types: tuple[type, ...], where: str, what: str, fix: str) -> None:
    """Raise InputError if an argument has another type."""
    if not isinstance(value, types):
        raise InputError.one(where, f"a {type(value).__name__} is not {what}", fix)


def decode_keywords(keywords: Mapping[str, object], record: type[T], function: str) -> T:
    """Decode keyword arguments as the keys of a record."""
    return decode(read_plain(plain(keywords), function).root, record, Keys.BARE)


def replace_keywords(base: T, keywords: Mapping[str, object], function: str) -> T:
    """Replace fields of a record, each written as in a file (`ttl="2d"`) or in SI (`ttl_s=3600`).

    Records are taken as they are.
    """
    fields = fields_of(cast(type, type(base)))
    named = {field.key(Keys.BARE): (field, Keys.BARE) for field in fields}
    named |= {field.name: (field, Keys.SUFFIXED) for field in fields if field.type.dimension}
    unknown = [key for key in keywords if key not in named]
    if unknown:
        raise unknown_keywords(unknown, named, function)
    values = {}
    for key, value in keywords.items():
        field, keys = named[key]
        values[field.name] = _decoded(field, value, keys, f"{function}: {key}")
    return dataclasses.replace(base, **values)  # type: ignore[type-var]


def _decoded(field: Field, value: object, keys: Keys, where: str) -> object:
    items = value if isinstance(value, list | tuple) else (value,)
    if items and all(dataclasses.is_dataclass(item) for item in items):
        return tuple(items) if field.type.base is tuple else value
    return decode_as(read_plain(plain(value), where).root, field.type, keys)


def unknown_keywords(
    unknown: Sequence[str], known: Mapping[str, object] | Sequence[str], function: str
) -> InputError:
    """The error of keyword arguments that a function does not have."""
    meant = closest_match(unknown[0], list(known))
    fix = f'did you mean "{meant}"?' if meant else f"use {choices_text(sorted(known), 60)}"
    return InputError.one(function, f'unknown keyword "{", ".join(unknown)}"', fix)


def check_choice(value: str, choices: Sequence[str], argument: str) -> None:
    """Raise InputError if an argument is none of its choices."""
    if value not in choices:
        meant = closest_match(str(value), choices)
        fix = f'did you mean "{meant}"?' if meant else f"use {choices_text(choices)}"
        raise InputError.one(argument, f'"{value}" is not a choice', fix)


def quantity(value: str | float, dimension: Dimension, argument: str) -> float:
    """A quantity given as text with a unit, or as a number in SI units."""
    try:
        return parse(value, dimension) if isinstance(value, str) else float(value)
    except UnitError as error:
        raise InputError.one(argument, error.what, error.fix) from None
    except TypeError:
        what = f"expected {dimension.noun}, got a {type(value).__name__}"
        raise InputError.one(argument, what, f"write it like {dimension.examples}") from None
