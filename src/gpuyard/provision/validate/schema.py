"""Strict validation of a value against a JSON Schema and its CEL rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.document.frozen_json import Plain
from gpuyard.errors import Finding, Severity, choices_text, closest_match
from gpuyard.provision.schemas.library import Library
from gpuyard.provision.schemas.schema import Schema
from gpuyard.provision.validate.cel_rules import evaluate_rule

PLACEHOLDER = re.compile(r"\$\{[^}]+\}|\$\([A-Z_]+\)|<[A-Za-z_ -]+>|__[A-Z_]+__|\{\{")
CAPITALS = re.compile(r"\$?[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def schema_findings(
    value: Plain, schema: Schema, library: Library, method: str = ""
) -> tuple[Finding, ...]:
    """Return everything wrong with a value; `where` is the path inside the value.

    With `method`, the fields that this API method requires must be set too.
    """
    complete = with_defaults(without_nulls(value), schema, library)
    return tuple(_Validator(library=library, method=method).value(complete, schema, ""))


def schema_error(path: str, what: str, fix: str, severity: Severity = "error") -> Finding:
    """Return a finding of the rule `schema` at a path."""
    return Finding(rule="schema", severity=severity, where=path, what=what, fix=fix)


def is_placeholder(value: Plain) -> bool:
    """Return True for a string to be filled in: ${NAME}, <name>, __NAME__."""
    return isinstance(value, str) and PLACEHOLDER.search(value) is not None


def is_placeholder_name(value: str) -> bool:
    """Return True for a placeholder, also in capitals (MY_NAME), where none can be a value."""
    return is_placeholder(value) or CAPITALS.fullmatch(value) is not None


def without_nulls(value: Plain) -> Plain:
    """Return the value without null fields, which API servers drop before validation."""
    if isinstance(value, dict):
        return {key: without_nulls(child) for key, child in value.items() if child is not None}
    if isinstance(value, list):
        return [without_nulls(child) for child in value]
    return value


def with_defaults(value: Plain, schema: Schema, library: Library) -> Plain:
    """Return the value with the schema's defaults, which API servers set before validation."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Validator:
    library: Library
    method: str

    def value(self, value: Plain, reference: Schema, path: str) -> Iterator[Finding]:
        schema = self.library.resolved(reference)
        if wrong_type := _type_finding(value, schema, path):
            yield wrong_type
            return
        if isinstance(value, dict):
            yield from self.mapping(value, schema, path)
        elif isinstance(value, list):
            yield from self.sequence(value, schema, path)
        elif value is not None:
            yield from _scalar_findings(value, schema, path)
        yield from _cel_findings(value, schema, path)

    def mapping(self, value: dict[str, Plain], schema: Schema, path: str) -> Iterator[Finding]:
        known = schema.properties or {}
        for key, child in value.items():
            child_path = f"{path}.{key}" if path else key
            inner = known.get(key) or schema.additional
            if inner is not None:
                yield from _discouraged(child_path, inner)
                yield from self.value(child, inner, child_path)
            elif not schema.is_open:
                yield _unknown_field(child_path, key, tuple(known))
        for key in schema.required:
            if key not in value:
                yield schema_error(path, f'"{key}" is missing', f"add {key}")
        for key, inner in known.items():
            if key not in value and self.method:
                yield from self.required_by_method(path, key, inner)
        if schema.max_properties is not None and len(value) > schema.max_properties:
            what = f"{len(value)} keys, at most {schema.max_properties}"
            yield schema_error(path, what, "remove some")

    def required_by_method(self, path: str, key: str, schema: Schema) -> Iterator[Finding]:
        if self.method in schema.required_by:
            what = f'"{key}" is missing: {self.method} requires it'
            yield schema_error(path, what, f"add {key}")
        elif "*" in schema.required_by:
            what = f'"{key}" is missing: the API description marks it as required'
            yield schema_error(path, what, f"add {key}", "warning")

    def sequence(self, value: list[Plain], schema: Schema, path: str) -> Iterator[Finding]:
        if schema.min_items is not None and len(value) < schema.min_items:
            what = f"{len(value)} items, at least {schema.min_items}"
            yield schema_error(path, what, "add the missing items")
        if schema.max_items is not None and len(value) > schema.max_items:
            what = f"{len(value)} items, at most {schema.max_items}"
            yield schema_error(path, what, "remove some")
        seen: set[str] = set()
        for index, item in enumerate(value):
            item_path = f"{path}[{index}]"
            if schema.list_keys and isinstance(item, dict):
                name = " ".join(str(item.get(key)) for key in schema.list_keys)
                if name in seen and any(key in item for key in schema.list_keys):
                    what = f"a second item with {', '.join(schema.list_keys)} = {name}"
                    yield schema_error(item_path, what, "keep one, or rename it")
                seen.add(name)
            if schema.items:
                yield from self.value(item, schema.items, item_path)


def _discouraged(path: str, schema: Schema) -> Iterator[Finding]:
    if schema.is_read_only:
        yield schema_error(path, "is read-only: the server sets it", "remove it", "warning")
    elif schema.is_deprecated:
        yield schema_error(path, "is deprecated in the API", "use its successor", "note")


def _type_finding(value: Plain, schema: Schema, path: str) -> Finding | None:
    if not schema.types or any(_is_type(value, name) for name in schema.types):
        return None
    if is_placeholder(value):
        return _unfilled(path, value)
    expected = choices_text(schema.types)
    fix = f"write {'an' if expected[0] in 'aio' else 'a'} {expected}"
    if "string" in schema.types and not isinstance(value, dict | list):
        fix = f'quote it: "{_spelled(value)}"'
    return schema_error(path, f"{_described(value)}, and the API takes {expected}", fix)


def _unfilled(path: str, value: Plain) -> Finding:
    return schema_error(path, f"placeholder {value} is not filled in", "fill it in")


def _is_type(value: Plain, name: str) -> bool:
    # In Python a bool is an int; in JSON Schema it is not a number.
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, PYTHON_TYPES[name])


def _described(value: Plain) -> str:
    names = {dict: "a mapping", list: "a list", type(None): "null"}
    if type(value) in names:
        return names[type(value)]
    return f"{type(value).__name__.replace('str', 'string')} {_spelled(value)[:40]!r}"


def _spelled(value: Plain) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _scalar_findings(
    value: str | int | float | bool, schema: Schema, path: str
) -> Iterator[Finding]:
    is_known = not schema.enum or value in schema.enum
    pattern = schema.pattern if isinstance(value, str) else None
    matches = pattern is None or pattern.search(str(value)) is not None
    if is_placeholder(value) and not (is_known and matches):
        yield _unfilled(path, value)
        return
    if not is_known:
        names = tuple(str(name) for name in schema.enum if name != "")
        match = closest_match(str(value), names)
        fix = f'use "{match}"' if match else f"use {choices_text(names)}"
        yield schema_error(path, f'"{_spelled(value)}" is not an allowed value', fix)
    if pattern and not matches:
        what = f'"{str(value)[:60]}" does not match the format of this field'
        yield schema_error(path, what, f"write it as {pattern.pattern}")
    if isinstance(value, str):
        if schema.max_length is not None and len(value) > schema.max_length:
            what = f"{len(value)} characters, at most {schema.max_length}"
            yield schema_error(path, what, "shorten it")
        if schema.min_length is not None and len(value) < schema.min_length:
            what = f"{len(value)} characters, at least {schema.min_length}"
            yield schema_error(path, what, "write it in full")
    elif not isinstance(value, bool):
        if schema.minimum is not None and value < schema.minimum:
            what = f"{value} is below {schema.minimum:g}"
            yield schema_error(path, what, f"write {schema.minimum:g} or more")
        if schema.maximum is not None and value > schema.maximum:
            what = f"{value} is above {schema.maximum:g}"
            yield schema_error(path, what, f"write {schema.maximum:g} or less")


def _unknown_field(path: str, key: str, known: tuple[str, ...]) -> Finding:
    fix = f"use {choices_text(known)}" if known else "remove it"
    if match := closest_match(key, known):
        fix = f'did you mean "{match}"?'
    return schema_error(path, f'the API has no field "{key}" here', fix)


def _cel_findings(value: Plain, schema: Schema, path: str) -> Iterator[Finding]:
    for rule in schema.rules:
        result = evaluate_rule(rule.rule, value)
        if result.outcome == "not evaluated":
            what = f"the rule {rule.rule} was not evaluated: {result.reason}"
            fix = "run kubectl apply --dry-run=server to check it"
            yield schema_error(path, what, fix, severity="note")
        elif result.outcome == "violated":
            what = rule.message or f"violates the rule {rule.rule}"
            if result.reason:
                what += f" (evaluation error: {result.reason})"
            yield schema_error(path, what, f"satisfy the rule: {rule.rule}")
