"""A tree of nodes to a frozen value, strictly: every wrong key and value is named with its place and its fix."""

from __future__ import annotations

import datetime
import typing

from gpuyard.document.settings import Settings, plain_tree
from gpuyard.document.shape import Field, Keys, Shape, fields_of, shape_of
from gpuyard.document.tree import Mapping, Node, Place, Scalar, Sequence
from gpuyard.errors import InputError, Problem, nearest, one_of
from gpuyard.units import UnitError, parse

__all__ = ["decode"]

T = typing.TypeVar("T")


def decode(node: Node, record: type[T], keys: Keys) -> T:
    """The value of type `record` that `node` describes; InputError with every problem if it does not."""
    decoder = _Decoder(keys)
    value = decoder.value(node, shape_of(record))
    if decoder.problems:
        raise InputError(decoder.problems)
    return typing.cast(T, value)


class _Wrong:
    """Stands for a value that could not be read; its problem is already noted."""


_WRONG = _Wrong()
_SCALARS: dict[type, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    datetime.date: "a date such as 2026-08-21",
}


class _Decoder:
    """One pass over a tree, gathering problems as it goes."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self.problems: list[Problem] = []

    def wrong(self, place: Place, what: str, fix: str) -> _Wrong:
        """Notes a problem and stands in for the value."""
        self.problems.append(place.problem(what, fix))
        return _WRONG

    def value(self, node: Node, shape: Shape) -> object:
        """The value of one node."""
        if isinstance(node, Scalar) and node.value is None and shape.optional:
            return None
        if shape.base is typing.Union:
            return self.union(node, shape)
        if shape.base is Settings:
            return self.settings(node)
        if shape.is_record:
            return self.record(node, shape.base)
        if shape.base is tuple:
            return self.items(node, shape.options[0]) if len(shape.options) == 1 else self.few(node, shape.options)
        if not isinstance(node, Scalar):
            return self.wrong(
                node.place,
                f"expected {_expected(shape)}, got {_kind(node)}",
                f"write {_expected(shape)} here",
            )
        if node.value is None:
            return self.wrong(node.place, "no value", f"write {_expected(shape)}, or remove the key")
        return self.scalar(node, shape)

    def scalar(self, node: Scalar, shape: Shape) -> object:
        """A leaf, by its type."""
        if shape.dimension:
            return self.quantity(node, shape)
        if shape.base is typing.Literal:
            return self.literal(node, shape)
        if shape.base is str:
            return node.text
        if shape.base is datetime.date:
            return self.date(node, shape)
        fits = isinstance(node.value, shape.base) and not (isinstance(node.value, bool) and shape.base is not bool)
        if shape.base is float and isinstance(node.value, int) and not isinstance(node.value, bool):
            return self.bounded(node, _float(node.value), shape)
        if not fits:
            return self.wrong(
                node.place,
                f'expected {_expected(shape)}, got "{_short(node.text)}"',
                f"write {_expected(shape)}",
            )
        return self.bounded(node, node.value, shape)

    def date(self, node: Scalar, shape: Shape) -> object:
        """A day; JSON has no dates, so a text in their form is one too."""
        try:
            return datetime.date.fromisoformat(node.text)
        except ValueError:
            return self.wrong(node.place, f'"{_short(node.text)}" is not a date', f"write {_expected(shape)}")

    def bounded(self, node: Scalar, value: object, shape: Shape) -> object:
        """The number, if it is finite and not below its limit."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            if not abs(value) < float("inf"):
                return self.wrong(node.place, "not a finite number", f"write {_expected(shape)}")
            if shape.at_least is not None and value < shape.at_least:
                limit = f"{shape.at_least:g}"
                return self.wrong(node.place, f"{_short(node.text)} is below {limit}", f"write {limit} or more")
        return value

    def quantity(self, node: Scalar, shape: Shape) -> object:
        """A number with a unit."""
        dimension = shape.dimension
        assert dimension
        if isinstance(node.value, bool):
            return self.wrong(node.place, f"expected {dimension.noun}", f"write it like {dimension.examples}")
        if isinstance(node.value, int | float) and (self.keys is Keys.SUFFIXED or dimension.bare):
            value = _float(node.value)
            if value < 0:
                return self.wrong(node.place, f'"{node.text}" is negative', f"write it like {dimension.examples}")
        else:
            try:
                value = parse(node.text, dimension)
            except UnitError as error:
                return self.wrong(node.place, error.what, error.fix)
        if shape.base is int and abs(value) < float("inf"):
            if value != round(value):
                return self.wrong(node.place, f'"{node.text}" is not a whole number', "round it")
            return self.bounded(node, round(value), shape)
        return self.bounded(node, value, shape)

    def literal(self, node: Scalar, shape: Shape) -> object:
        """One of a few words."""
        if node.text in shape.literals:
            return node.text
        meant = nearest(node.text, shape.literals)
        fix = f'did you mean "{meant}"?' if meant else f"use {one_of(shape.literals)}"
        if meant and len(shape.literals) > 1:
            fix = f'use "{meant}" (of {one_of(shape.literals)})'
        return self.wrong(node.place, f'"{_short(node.text)}" is not known here', fix)

    def settings(self, node: Node) -> object:
        """Any keys and values."""
        if not isinstance(node, Mapping):
            return self.wrong(node.place, f"expected keys and values, got {_kind(node)}", "write `name: value` lines")
        try:
            return Settings.of(plain_tree(node))
        except InputError as error:
            self.problems += error.problems
            return _WRONG

    def union(self, node: Node, shape: Shape) -> object:
        """The alternative that has the node's form: a record for a mapping, a list for a list, else a scalar."""
        for option in shape.options:
            if isinstance(node, Mapping) and option.is_record:
                return self.value(node, option)
            if isinstance(node, Sequence) and option.base is tuple:
                return self.value(node, option)
        for option in shape.options:
            if isinstance(node, Scalar) and not option.is_record and option.base is not tuple:
                return self.value(node, option)
        expected = " or ".join(_expected(option) for option in shape.options)
        return self.wrong(node.place, f"expected {expected}, got {_kind(node)}", f"write {expected}")

    def items(self, node: Node, item: Shape) -> object:
        """A list; a mapping of named records is one too, its keys being the names."""
        if isinstance(node, Sequence):
            values = tuple(self.value(child, item) for child in node.items)
        elif isinstance(node, Mapping) and item.is_record and fields_of(item.base)[0].name == "name":
            values = tuple(self.record(child, item.base, name=key) for key, child in node.items)
        else:
            return self.wrong(
                node.place, f"expected a list, got {_kind(node)}", "write [a, b] or one `- item` per line"
            )
        return _WRONG if any(isinstance(value, _Wrong) for value in values) else values

    def few(self, node: Node, shapes: tuple[Shape, ...]) -> object:
        """A list of so many values, each of its own type."""
        if not isinstance(node, Sequence) or len(node.items) != len(shapes):
            got = f"{len(node.items)} values" if isinstance(node, Sequence) else _kind(node)
            return self.wrong(node.place, f"expected a list of {len(shapes)}, got {got}", "write [a, b]")
        values = tuple(self.value(child, shape) for child, shape in zip(node.items, shapes, strict=True))
        return _WRONG if any(isinstance(value, _Wrong) for value in values) else values

    def record(self, node: Node, record: type, name: str | None = None) -> object:
        """A dataclass from a mapping; `name` fills its first field when the mapping's own key is the name."""
        if name is not None and isinstance(node, Scalar) and len(fields_of(record)) == 2:
            value = self.value(node, fields_of(record)[1].shape)  # `dgx-h100: 16` for a name and its count
            return value if isinstance(value, _Wrong) else record(**{"name": name, fields_of(record)[1].name: value})
        if not isinstance(node, Mapping):
            what = "nothing" if isinstance(node, Scalar) and node.value is None else _kind(node)
            return self.wrong(node.place, f"expected keys and values, got {what}", f"write {_keys(record, self.keys)}")
        known = {field.key(self.keys): field for field in fields_of(record)}
        values: dict[str, object] = {}
        misspelt: set[str | None] = set()  # a key that was meant is not also reported as missing
        if name is not None:
            values[known.pop("name").name] = name
        for (key, child), place in zip(node.items, node.key_places, strict=True):
            field = known.get(key)
            if field is None:
                misspelt.add(self.unknown(place, key, known))
            else:
                values[field.name] = self.value(child, field.shape)
        self.missing(node, {key: field for key, field in known.items() if key not in misspelt}, values)
        bad = any(isinstance(value, _Wrong) for value in values.values())
        if bad or any(field.required and field.name not in values for field in known.values()):
            return _WRONG
        return record(**values)

    def unknown(self, place: Place, key: str, known: dict[str, Field]) -> str | None:
        """Notes a key that the record does not have; gives the key that was meant."""
        meant = nearest(key, known)
        fix = f'did you mean "{meant}"?' if meant else f"use {one_of(list(known))}, or remove it"
        self.wrong(place, f'unknown key "{_short(key)}"', fix)
        return meant

    def missing(self, node: Node, known: dict[str, Field], values: dict[str, object]) -> None:
        """Required keys that are not there."""
        for key, field in known.items():
            if field.required and field.name not in values:
                self.wrong(node.place, f'"{key}" is missing', f"add {key}: {_example(field.shape)}")


def _float(value: int | float) -> float:
    """The number as a float; one that no float can hold is infinite."""
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _expected(shape: Shape) -> str:
    """The value wanted, in words."""
    if shape.dimension:
        return f"{shape.dimension.noun} such as {shape.dimension.examples}"
    if shape.base is typing.Literal:
        return one_of(shape.literals)
    if shape.base is tuple:
        return "a list"
    return "keys and values" if shape.is_record else _SCALARS[shape.base]


def _example(shape: Shape) -> str:
    """What to write for a missing key."""
    return f"<{shape.doc or _expected(shape)}>"


def _kind(node: Node) -> str:
    """The node's form, in words."""
    if isinstance(node, Scalar):
        return f'"{_short(node.text)}"'
    return "a list" if isinstance(node, Sequence) else "keys and values"


def _keys(record: type, keys: Keys) -> str:
    """The keys of a record, as a phrase."""
    return one_of([field.key(keys) for field in fields_of(record)])


def _short(text: str) -> str:
    """The text on one line, cut."""
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else flat[:59] + "…"
