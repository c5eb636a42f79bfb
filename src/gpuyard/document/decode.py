"""Decode a tree of nodes to a frozen value, strictly; report every problem with its location."""

from __future__ import annotations

import datetime
import typing

from gpuyard.document.field_types import Field, FieldType, Keys, field_type_of, fields_of
from gpuyard.document.frozen_json import FrozenJson, plain_tree
from gpuyard.document.tree import Mapping, Node, Scalar, Sequence, SourceLocation
from gpuyard.errors import InputError, Problem, choices_text, closest_match
from gpuyard.units import UnitError, parse

T = typing.TypeVar("T")


def decode(node: Node, record: type[T], keys: Keys) -> T:
    """Return the value of type `record` that `node` describes; InputError lists every problem."""
    return typing.cast(T, decode_as(node, field_type_of(record), keys))


def decode_as(node: Node, field_type: FieldType, keys: Keys) -> object:
    """Return the value of a field type that `node` describes; InputError lists every problem."""
    decoder = _Decoder(keys)
    value = decoder.value(node, field_type)
    if decoder.problems:
        raise InputError(decoder.problems)
    return value


class _Wrong:
    """Marks a value that could not be decoded; its problem is already recorded."""


_WRONG = _Wrong()
_SCALARS: dict[type, str] = {
    str: "a text",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    datetime.date: "a date such as 2026-08-21",
}


class _Decoder:
    """One pass over a tree that collects problems."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self.problems: list[Problem] = []

    def wrong(self, location: SourceLocation, what: str, fix: str) -> _Wrong:
        self.problems.append(location.problem(what, fix))
        return _WRONG

    def value(self, node: Node, field_type: FieldType) -> object:
        if isinstance(node, Scalar) and node.value is None and field_type.optional:
            return None
        if field_type.base is typing.Union:
            return self.union(node, field_type)
        if field_type.base is FrozenJson:
            return self.frozen_json(node)
        if field_type.is_record:
            return self.record(node, field_type.base)
        if field_type.base is tuple:
            if len(field_type.options) == 1:
                return self.items(node, field_type.options[0])
            return self.fixed_tuple(node, field_type.options)
        if not isinstance(node, Scalar):
            return self.wrong(
                node.location,
                f"expected {_expected(field_type)}, got {_kind(node)}",
                f"write {_expected(field_type)} here",
            )
        if node.value is None:
            return self.wrong(
                node.location, "no value", f"write {_expected(field_type)}, or remove the key"
            )
        return self.scalar(node, field_type)

    def scalar(self, node: Scalar, field_type: FieldType) -> object:
        if field_type.dimension:
            return self.quantity(node, field_type)
        if field_type.base is typing.Literal:
            return self.literal(node, field_type)
        if field_type.base is str:
            return node.text
        if field_type.base is datetime.date:
            return self.date(node, field_type)
        fits = isinstance(node.value, field_type.base) and not (
            isinstance(node.value, bool) and field_type.base is not bool
        )
        if (
            field_type.base is float
            and isinstance(node.value, int)
            and not isinstance(node.value, bool)
        ):
            return self.bounded(node, _float(node.value), field_type)
        if not fits:
            return self.wrong(
                node.location,
                f'expected {_expected(field_type)}, got "{_short(node.text)}"',
                f"write {_expected(field_type)}",
            )
        return self.bounded(node, node.value, field_type)

    def date(self, node: Scalar, field_type: FieldType) -> object:
        try:
            return datetime.date.fromisoformat(node.text)  # JSON has dates as text
        except ValueError:
            return self.wrong(
                node.location,
                f'"{_short(node.text)}" is not a date',
                f"write {_expected(field_type)}",
            )

    def bounded(self, node: Scalar, value: object, field_type: FieldType) -> object:
        if isinstance(value, int | float) and not isinstance(value, bool):
            if not abs(value) < float("inf"):
                return self.wrong(
                    node.location, "not a finite number", f"write {_expected(field_type)}"
                )
            if field_type.at_least is not None and value < field_type.at_least:
                limit = f"{field_type.at_least:g}"
                return self.wrong(
                    node.location, f"{_short(node.text)} is below {limit}", f"write {limit} or more"
                )
        return value

    def quantity(self, node: Scalar, field_type: FieldType) -> object:
        dimension = field_type.dimension
        assert dimension
        if isinstance(node.value, bool):
            return self.wrong(
                node.location, f"expected {dimension.noun}", f"write it like {dimension.examples}"
            )
        if isinstance(node.value, int | float) and (self.keys is Keys.SUFFIXED or dimension.bare):
            value = _float(node.value)
            if value < 0:
                return self.wrong(
                    node.location,
                    f'"{node.text}" is negative',
                    f"write it like {dimension.examples}",
                )
        else:
            try:
                value = parse(node.text, dimension)
            except UnitError as error:
                return self.wrong(node.location, error.what, error.fix)
        if field_type.base is int and abs(value) < float("inf"):
            if value != round(value):
                return self.wrong(node.location, f'"{node.text}" is not an integer', "round it")
            return self.bounded(node, round(value), field_type)
        return self.bounded(node, value, field_type)

    def literal(self, node: Scalar, field_type: FieldType) -> object:
        if node.text in field_type.literals:
            return node.text
        meant = closest_match(node.text, field_type.literals)
        fix = f'did you mean "{meant}"?' if meant else f"use {choices_text(field_type.literals)}"
        if meant and len(field_type.literals) > 1:
            fix = f'use "{meant}" (of {choices_text(field_type.literals)})'
        return self.wrong(node.location, f'"{_short(node.text)}" is not a valid value', fix)

    def frozen_json(self, node: Node) -> object:
        if not isinstance(node, Mapping):
            return self.wrong(
                node.location,
                f"expected keys and values, got {_kind(node)}",
                "write `name: value` lines",
            )
        try:
            return FrozenJson.of(plain_tree(node))
        except InputError as error:
            self.problems += error.problems
            return _WRONG

    def union(self, node: Node, field_type: FieldType) -> object:
        for option in field_type.options:
            if option.is_record:
                matches = isinstance(node, Mapping)
            elif option.base is tuple:
                matches = isinstance(node, Sequence)
            else:
                matches = isinstance(node, Scalar)
            if matches:
                return self.value(node, option)
        expected = " or ".join(_expected(option) for option in field_type.options)
        return self.wrong(
            node.location, f"expected {expected}, got {_kind(node)}", f"write {expected}"
        )

    def items(self, node: Node, item: FieldType) -> object:
        """A list, or a mapping of named records whose keys are the names."""
        if isinstance(node, Sequence):
            values = tuple(self.value(child, item) for child in node.items)
        elif (
            isinstance(node, Mapping) and item.is_record and fields_of(item.base)[0].name == "name"
        ):
            values = tuple(self.record(child, item.base, name=key) for key, child in node.items)
        else:
            return self.wrong(
                node.location,
                f"expected a list, got {_kind(node)}",
                "write [a, b] or one `- item` per line",
            )
        return _WRONG if any(isinstance(value, _Wrong) for value in values) else values

    def fixed_tuple(self, node: Node, field_types: tuple[FieldType, ...]) -> object:
        if not isinstance(node, Sequence) or len(node.items) != len(field_types):
            got = f"{len(node.items)} values" if isinstance(node, Sequence) else _kind(node)
            return self.wrong(
                node.location, f"expected a list of {len(field_types)}, got {got}", "write [a, b]"
            )
        values = tuple(
            self.value(child, field_type)
            for child, field_type in zip(node.items, field_types, strict=True)
        )
        return _WRONG if any(isinstance(value, _Wrong) for value in values) else values

    def record(self, node: Node, record: type, name: str | None = None) -> object:
        """A dataclass from a mapping; `name` is its name when that is the mapping's key."""
        fields = fields_of(record)
        if name is not None and isinstance(node, Scalar) and len(fields) == 2:
            value = self.value(node, fields[1].type)  # `dgx-h100: 16` for a name and its count
            if isinstance(value, _Wrong):
                return value
            return record(**{"name": name, fields[1].name: value})
        if not isinstance(node, Mapping):
            what = "nothing" if isinstance(node, Scalar) and node.value is None else _kind(node)
            return self.wrong(
                node.location,
                f"expected keys and values, got {what}",
                f"write {_keys(record, self.keys)}",
            )
        known = {field.key(self.keys): field for field in fields}
        values: dict[str, object] = {}
        misspelt: set[str | None] = set()  # a misspelt key is not reported as missing too
        if name is not None:
            values[known.pop("name").name] = name
        former = {
            field.type.former_name: field for field in known.values() if field.type.former_name
        }
        for (key, child), location in zip(node.items, node.key_locations, strict=True):
            field = known.get(key) or former.get(key)
            if field is None:
                misspelt.add(self.unknown(location, key, known))
            else:
                values[field.name] = self.value(child, field.type)
        self.missing(
            node, {key: field for key, field in known.items() if key not in misspelt}, values
        )
        bad = any(isinstance(value, _Wrong) for value in values.values())
        if bad or any(field.required and field.name not in values for field in known.values()):
            return _WRONG
        return record(**values)

    def unknown(self, location: SourceLocation, key: str, known: dict[str, Field]) -> str | None:
        meant = closest_match(key, known)
        fix = (
            f'did you mean "{meant}"?'
            if meant
            else f"use {choices_text(list(known))}, or remove it"
        )
        self.wrong(location, f'unknown key "{_short(key)}"', fix)
        return meant

    def missing(self, node: Node, known: dict[str, Field], values: dict[str, object]) -> None:
        for key, field in known.items():
            if field.required and field.name not in values:
                self.wrong(
                    node.location, f'"{key}" is missing', f"add {key}: {_example(field.type)}"
                )


def _float(value: int | float) -> float:
    """An integer too large for a float is infinite."""
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _expected(field_type: FieldType) -> str:
    if field_type.dimension:
        return f"{field_type.dimension.noun} such as {field_type.dimension.examples}"
    if field_type.base is typing.Literal:
        return choices_text(field_type.literals)
    if field_type.base is tuple:
        return "a list"
    return "keys and values" if field_type.is_record else _SCALARS[field_type.base]


def _example(field_type: FieldType) -> str:
    return f"<{field_type.doc or _expected(field_type)}>"


def _kind(node: Node) -> str:
    if isinstance(node, Scalar):
        return f'"{_short(node.text)}"'
    return "a list" if isinstance(node, Sequence) else "keys and values"


def _keys(record: type, keys: Keys) -> str:
    return choices_text([field.key(keys) for field in fields_of(record)])


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else flat[:59] + "…"
