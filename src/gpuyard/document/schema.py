"""JSON Schema of a file format, for completion, hover text and validation in editors."""

from __future__ import annotations

import datetime
import typing

from gpuyard.document.field_types import FieldType, Keys, fields_of
from gpuyard.document.frozen_json import FrozenJson, Plain

_TYPES: dict[type, str] = {int: "integer", float: "number", bool: "boolean"}


def json_schema(record: type, keys: Keys, title: str) -> dict[str, Plain]:
    """Return the JSON Schema of files that decode to `record`."""
    definitions: dict[str, Plain] = {}
    root = _record(record, keys, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **root,
        "$defs": definitions,
    }


def _record(record: type, keys: Keys, definitions: dict[str, Plain]) -> dict[str, Plain]:
    fields = fields_of(record)
    required: list[Plain] = [field.key(keys) for field in fields if field.required]
    return {
        "type": "object",
        "description": (record.__doc__ or "").splitlines()[0],
        "properties": {field.key(keys): _value(field.type, keys, definitions) for field in fields},
        "required": required,
        "additionalProperties": False,
    }


def _value(field_type: FieldType, keys: Keys, definitions: dict[str, Plain]) -> dict[str, Plain]:
    body = _body(field_type, keys, definitions)
    if field_type.optional:
        body = {"anyOf": [body, {"type": "null"}]}
    if field_type.at_least is not None and not field_type.dimension:
        body = {**body, "minimum": field_type.at_least}
    return {**body, "description": field_type.doc} if field_type.doc else body


def _body(field_type: FieldType, keys: Keys, definitions: dict[str, Plain]) -> dict[str, Plain]:
    if field_type.dimension:
        examples: list[Plain] = list(
            field_type.dimension.examples.replace(" or ", ", ").split(", ")
        )
        unitless = keys is Keys.SUFFIXED or field_type.dimension.bare
        return {"type": ["string", "number"] if unitless else "string", "examples": examples}
    if field_type.base is typing.Union:
        return {"anyOf": [_value(option, keys, definitions) for option in field_type.options]}
    if field_type.base is typing.Literal:
        return {"enum": list(field_type.literals)}
    if field_type.base is tuple:
        if len(field_type.options) > 1:
            items: list[Plain] = [_value(item, keys, definitions) for item in field_type.options]
            return {
                "type": "array",
                "prefixItems": items,
                "minItems": len(items),
                "maxItems": len(items),
            }
        return _items(field_type.options[0], keys, definitions)
    if field_type.base is FrozenJson:
        return {"type": "object"}
    if field_type.is_record:
        name = field_type.base.__name__
        if name not in definitions:
            definitions[name] = {}  # set before its fields: a record may contain itself
            definitions[name] = _record(field_type.base, keys, definitions)
        return {"$ref": f"#/$defs/{name}"}
    if field_type.base is datetime.date:
        return {"type": "string", "format": "date"}
    if field_type.base is str:
        return {"type": ["string", "number", "boolean"]}  # an unquoted `1.10` decodes to its text
    return {"type": _TYPES[field_type.base]}


# A list; where the items have a name, also a mapping from names to items.
def _items(item: FieldType, keys: Keys, definitions: dict[str, Plain]) -> dict[str, Plain]:
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
    entry: dict[str, Plain] = unnamed
    if len(fields) == 2:  # `name: value` is short for `name: {key: value}`
        entry = {"anyOf": [unnamed, _value(fields[1].type, keys, definitions)]}
    return {"anyOf": [items, {"type": "object", "additionalProperties": entry}]}
