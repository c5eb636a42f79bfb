"""JSON Schema of a file format, for editors: completion, hover text and red lines while typing."""

from __future__ import annotations

import datetime
import typing

from gpuyard.document.settings import Plain, Settings
from gpuyard.document.shape import Keys, Shape, fields_of

__all__ = ["json_schema"]

_TYPES: dict[type, str] = {int: "integer", float: "number", bool: "boolean"}


def json_schema(record: type, keys: Keys, title: str) -> dict[str, Plain]:
    """The schema of files that decode to `record`."""
    definitions: dict[str, Plain] = {}
    root = _record(record, keys, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **root,
        "$defs": definitions,
    }


def _record(record: type, keys: Keys, definitions: dict[str, Plain]) -> dict[str, Plain]:
    """An object with its properties; nothing else is allowed in it."""
    fields = fields_of(record)
    required: list[Plain] = [field.key(keys) for field in fields if field.required]
    return {
        "type": "object",
        "description": (record.__doc__ or "").splitlines()[0],
        "properties": {field.key(keys): _value(field.shape, keys, definitions) for field in fields},
        "required": required,
        "additionalProperties": False,
    }


def _value(shape: Shape, keys: Keys, definitions: dict[str, Plain]) -> dict[str, Plain]:
    """The schema of one value, with its description and limit."""
    body = _body(shape, keys, definitions)
    if shape.optional:
        body = {"anyOf": [body, {"type": "null"}]}
    if shape.at_least is not None and not shape.dimension:
        body = {**body, "minimum": shape.at_least}
    return {**body, "description": shape.doc} if shape.doc else body


def _body(shape: Shape, keys: Keys, definitions: dict[str, Plain]) -> dict[str, Plain]:
    """The schema without its description."""
    if shape.dimension:
        examples: list[Plain] = list(shape.dimension.examples.replace(" or ", ", ").split(", "))
        unitless = keys is Keys.SUFFIXED or shape.dimension.bare
        return {"type": ["string", "number"] if unitless else "string", "examples": examples}
    if shape.base is typing.Union:
        return {"anyOf": [_value(option, keys, definitions) for option in shape.options]}
    if shape.base is typing.Literal:
        return {"enum": list(shape.literals)}
    if shape.base is tuple:
        if len(shape.options) > 1:
            few: list[Plain] = [_value(item, keys, definitions) for item in shape.options]
            return {"type": "array", "prefixItems": few, "minItems": len(few), "maxItems": len(few)}
        return _items(shape.options[0], keys, definitions)
    if shape.base is Settings:
        return {"type": "object"}
    if shape.is_record:
        name = shape.base.__name__
        if name not in definitions:
            definitions[name] = {}  # before its fields, in case they hold it again
            definitions[name] = _record(shape.base, keys, definitions)
        return {"$ref": f"#/$defs/{name}"}
    if shape.base is datetime.date:
        return {"type": "string", "format": "date"}
    if shape.base is str:
        return {"type": ["string", "number", "boolean"]}  # a plain `1.10` is read as its text
    return {"type": _TYPES[shape.base]}


def _items(item: Shape, keys: Keys, definitions: dict[str, Plain]) -> dict[str, Plain]:
    """A list, or a mapping from names where the items have one."""
    schema = _value(item, keys, definitions)
    items: dict[str, Plain] = {"type": "array", "items": schema}
    if not (item.is_record and fields_of(item.base)[0].name == "name"):
        return items
    record = _record(item.base, keys, definitions)
    properties, required = record["properties"], record["required"]
    assert isinstance(properties, dict)
    assert isinstance(required, list)
    unnamed: dict[str, Plain] = {
        **record,
        "properties": {key: value for key, value in properties.items() if key != "name"},
        "required": [key for key in required if key != "name"],
    }
    fields = fields_of(item.base)
    forms: list[Plain] = [unnamed] if len(fields) != 2 else [unnamed, _value(fields[1].shape, keys, definitions)]
    entry: dict[str, Plain] = unnamed if len(forms) == 1 else {"anyOf": forms}
    return {"anyOf": [items, {"type": "object", "additionalProperties": entry}]}
