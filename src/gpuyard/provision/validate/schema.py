"""Checks a value against a schema, strictly: every fault with its place and what would mend it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.document import Plain
from gpuyard.errors import nearest, one_of
from gpuyard.provision.finding import Severity
from gpuyard.provision.schemas import Library, Schema
from gpuyard.provision.validate.cel import CelError, holds

__all__ = ["Fault", "faults", "is_placeholder", "is_placeholder_name", "with_defaults", "without_nulls"]

PLACEHOLDER = re.compile(r"\$\{[^}]+\}|\$\([A-Z_]+\)|<[A-Za-z_ -]+>|__[A-Z_]+__|\{\{")
CAPITALS = re.compile(r"\$?[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A value that its schema does not allow."""

    path: str
    what: str
    fix: str
    severity: Severity = "error"


def faults(value: Plain, schema: Schema, library: Library, method: str = "") -> tuple[Fault, ...]:
    """Everything wrong with a value; `method` also asks for the fields that this method requires."""
    whole = with_defaults(without_nulls(value), schema, library)
    return tuple(_Check(library, method).value(whole, schema, ""))


def is_placeholder(value: Plain) -> bool:
    """A text that somebody was to fill in: ${NAME}, <name>, __NAME__."""
    return isinstance(value, str) and PLACEHOLDER.search(value) is not None


def is_placeholder_name(value: str) -> bool:
    """The same where a name in capitals cannot be meant: MY_NAME."""
    return is_placeholder(value) or CAPITALS.fullmatch(value) is not None


def without_nulls(value: Plain) -> Plain:
    """The value without keys that hold nothing: the servers drop them before they look."""
    if isinstance(value, dict):
        return {key: without_nulls(child) for key, child in value.items() if child is not None}
    if isinstance(value, list):
        return [without_nulls(child) for child in value]
    return value


def with_defaults(value: Plain, schema: Schema, library: Library) -> Plain:
    """The value with the schema's defaults filled in, as the API server does before it validates."""
    schema = library.resolved(schema)
    if isinstance(value, list) and schema.items:
        return [with_defaults(item, schema.items, library) for item in value]
    if not isinstance(value, dict):
        return value
    known = schema.properties or {}
    filled: dict[str, Plain] = {}
    for key, child in value.items():
        inner = known.get(key) or schema.additional
        filled[key] = with_defaults(child, inner, library) if inner else child
    for key, inner in known.items():
        if key not in filled and inner.has_default:
            filled[key] = inner.default
    return filled


class _Check:
    """One pass over a value."""

    def __init__(self, library: Library, method: str) -> None:
        self.library = library
        self.method = method

    def value(self, value: Plain, given: Schema, path: str) -> Iterator[Fault]:
        """The faults of a value and of all below it."""
        schema = self.library.resolved(given)
        if wrong := _type_fault(value, schema, path):
            yield wrong
            return
        if isinstance(value, dict):
            yield from self.mapping(value, schema, path)
        elif isinstance(value, list):
            yield from self.sequence(value, schema, path)
        elif value is not None:
            yield from _scalar_faults(value, schema, path)
        yield from _rule_faults(value, schema, path)

    def mapping(self, value: dict[str, Plain], schema: Schema, path: str) -> Iterator[Fault]:
        """The faults of a mapping."""
        known = schema.properties or {}
        for key, child in value.items():
            place = f"{path}.{key}" if path else key
            inner = known.get(key) or schema.additional
            if inner is None:
                if not schema.is_open:
                    yield _unknown_key(place, key, tuple(known))
                continue
            yield from self.marks(place, inner)
            yield from self.value(child, inner, place)
        for key in schema.required:
            if key not in value:
                yield Fault(path=path, what=f'"{key}" is missing', fix=f"add {key}")
        for key, inner in known.items():
            if key not in value:
                yield from self.needed(path, key, inner)
        if schema.max_properties is not None and len(value) > schema.max_properties:
            yield Fault(path=path, what=f"{len(value)} keys, {schema.max_properties} at most", fix="remove some")

    def marks(self, path: str, schema: Schema) -> Iterator[Fault]:
        """What may stand there and should not."""
        if schema.is_read_only:
            yield Fault(path=path, what="is set by the server, not by you", fix="remove it", severity="warning")
        elif schema.is_deprecated:
            yield Fault(path=path, what="is deprecated in the API", fix="use its successor", severity="note")

    def needed(self, path: str, key: str, schema: Schema) -> Iterator[Fault]:
        """A field that the method, or any caller, has to give."""
        if self.method and self.method in schema.required_by:
            yield Fault(path=path, what=f'"{key}" is missing: {self.method} requires it', fix=f"add {key}")
        elif self.method and "*" in schema.required_by:
            what = f'"{key}" is missing: the API description calls it required'
            yield Fault(path=path, what=what, fix=f"add {key}", severity="warning")

    def sequence(self, value: list[Plain], schema: Schema, path: str) -> Iterator[Fault]:
        """The faults of a list."""
        if schema.min_items is not None and len(value) < schema.min_items:
            yield Fault(path=path, what=f"{len(value)} items, at least {schema.min_items}", fix="add what is missing")
        if schema.max_items is not None and len(value) > schema.max_items:
            yield Fault(path=path, what=f"{len(value)} items, at most {schema.max_items}", fix="remove some")
        seen: set[str] = set()
        for index, item in enumerate(value):
            if schema.list_keys and isinstance(item, dict):
                name = " ".join(str(item.get(key)) for key in schema.list_keys)
                if name in seen and any(key in item for key in schema.list_keys):
                    what = f"a second item with {', '.join(schema.list_keys)} = {name}"
                    yield Fault(path=f"{path}[{index}]", what=what, fix="keep one, or give it another name")
                seen.add(name)
            if schema.items:
                yield from self.value(item, schema.items, f"{path}[{index}]")


_PYTHON: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def _type_fault(value: Plain, schema: Schema, path: str) -> Fault | None:
    """The fault of a value of the wrong type."""
    if not schema.types or any(_is(value, kind) for kind in schema.types):
        return None
    if is_placeholder(value):
        return Fault(path=path, what=f"the placeholder {value} is left", fix="fill it in")
    wanted, got = one_of(schema.types), _kind(value)
    quotes = "string" in schema.types and not isinstance(value, dict | list)
    fix = f'quote it: "{_spelled(value)}"' if quotes else f"write {'an' if wanted[0] in 'aio' else 'a'} {wanted}"
    return Fault(path=path, what=f"{got} where the API takes {wanted}", fix=fix)


def _is(value: Plain, kind: str) -> bool:
    """Whether a value is of a type; true and false are no numbers."""
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _PYTHON[kind])


def _kind(value: Plain) -> str:
    """What a value is, in words, with the value where it is short."""
    names = {dict: "a mapping", list: "a list", type(None): "nothing"}
    return names.get(type(value)) or f"{type(value).__name__.replace('str', 'text')} {_spelled(value)[:40]!r}"


def _spelled(value: Plain) -> str:
    """A scalar as YAML writes it."""
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def _scalar_faults(value: str | int | float | bool, schema: Schema, path: str) -> Iterator[Fault]:
    """The faults of a scalar of the right type."""
    known = not schema.enum or value in schema.enum
    formed = schema.pattern is None or not isinstance(value, str) or schema.pattern.search(value) is not None
    if is_placeholder(value) and not (known and formed):
        yield Fault(path=path, what=f"the placeholder {value} is left", fix="fill it in")
        return
    if not known:
        names = tuple(str(word) for word in schema.enum if word != "")
        meant = nearest(str(value), names)
        fix = f'use "{meant}"' if meant else f"use {one_of(names)}"
        yield Fault(path=path, what=f'"{_spelled(value)}" is none of its values', fix=fix)
    if isinstance(value, str):
        if schema.pattern and not formed:
            fix = f"write it as {schema.pattern.pattern}"
            yield Fault(path=path, what=f'"{value[:60]}" does not have the form of this field', fix=fix)
        if schema.max_length is not None and len(value) > schema.max_length:
            yield Fault(path=path, what=f"{len(value)} characters, at most {schema.max_length}", fix="shorten it")
        if schema.min_length is not None and len(value) < schema.min_length:
            yield Fault(path=path, what=f"{len(value)} characters, at least {schema.min_length}", fix="write it out")
    elif not isinstance(value, bool):
        if schema.minimum is not None and value < schema.minimum:
            yield Fault(path=path, what=f"{value} is below {schema.minimum:g}", fix=f"write {schema.minimum:g} or more")
        if schema.maximum is not None and value > schema.maximum:
            yield Fault(path=path, what=f"{value} is above {schema.maximum:g}", fix=f"write {schema.maximum:g} or less")


def _unknown_key(path: str, key: str, known: tuple[str, ...]) -> Fault:
    """A key that the API does not know."""
    meant = nearest(key, known)
    fix = f'did you mean "{meant}"?' if meant else f"use {one_of(known)}" if known else "remove it"
    return Fault(path=path, what=f'the API has no field "{key}" here', fix=fix)


def _rule_faults(value: Plain, schema: Schema, path: str) -> Iterator[Fault]:
    """The CEL rules that a value breaks; a rule that has no value is broken too, as on the server."""
    for rule in schema.rules:
        try:
            if holds(rule.rule, value):
                continue
            what = rule.message or f"breaks the rule {rule.rule}"
        except CelError as error:
            what = f"{rule.message or rule.rule} (the rule cannot be evaluated: {error})"
        yield Fault(path=path, what=what, fix=f"keep the rule: {rule.rule}")
