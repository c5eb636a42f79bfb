"""JSON Schema as a frozen value: the keywords that the shipped API descriptions use."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuyard.document.frozen_json import Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class CelRule:
    """A rule in the Common Expression Language, and the message if it is violated."""

    rule: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """What a value may be; `additional` is the schema of keys outside `properties`."""

    types: tuple[str, ...] = ()
    ref: str = ""
    properties: dict[str, Schema] | None = None
    additional: Schema | None = None
    is_open: bool = True
    items: Schema | None = None
    required: tuple[str, ...] = ()
    enum: tuple[str | int | float | bool, ...] = ()
    pattern: re.Pattern[str] | None = None
    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    max_properties: int | None = None
    has_default: bool = False
    default: Plain = None
    list_keys: tuple[str, ...] = ()
    rules: tuple[CelRule, ...] = ()
    is_read_only: bool = False
    is_deprecated: bool = False
    required_by: tuple[str, ...] = ()


def parse_schema(raw: Plain) -> Schema:
    """Parse the JSON form of a schema."""
    assert isinstance(raw, dict), raw
    properties = raw.get("properties")
    additional = raw.get("additionalProperties")
    items = raw.get("items")
    return Schema(
        types=_strings(raw.get("type")),
        ref=str(raw.get("$ref", "")).removeprefix("#/$defs/"),
        properties={name: parse_schema(child) for name, child in properties.items()}
        if isinstance(properties, dict)
        else None,
        additional=parse_schema(additional) if isinstance(additional, dict) else None,
        is_open=additional is not False,
        items=parse_schema(items) if isinstance(items, dict) else None,
        required=_strings(raw.get("required")),
        enum=_scalars(raw.get("enum")),
        pattern=re.compile(str(raw["pattern"])) if "pattern" in raw else None,
        minimum=_number(raw.get("minimum")),
        maximum=_number(raw.get("maximum")),
        min_length=_integer(raw.get("minLength")),
        max_length=_integer(raw.get("maxLength")),
        min_items=_integer(raw.get("minItems")),
        max_items=_integer(raw.get("maxItems")),
        max_properties=_integer(raw.get("maxProperties")),
        has_default="default" in raw,
        default=raw.get("default"),
        list_keys=_strings(raw.get("x-kubernetes-list-map-keys")),
        rules=_rules(raw.get("x-kubernetes-validations")),
        is_read_only=raw.get("readOnly") is True,
        is_deprecated=raw.get("deprecated") is True,
        required_by=_strings(raw.get("x-required-by")),
    )


def _strings(raw: Plain) -> tuple[str, ...]:
    if isinstance(raw, list):
        return tuple(str(item) for item in raw)
    return (raw,) if isinstance(raw, str) else ()


def _scalars(raw: Plain) -> tuple[str | int | float | bool, ...]:
    items = raw if isinstance(raw, list) else []
    return tuple(item for item in items if isinstance(item, str | int | float))


def _number(raw: Plain) -> float | None:
    return float(raw) if isinstance(raw, int | float) else None


def _integer(raw: Plain) -> int | None:
    return raw if isinstance(raw, int) else None


def _rules(raw: Plain) -> tuple[CelRule, ...]:
    rows = [row for row in raw if isinstance(row, dict)] if isinstance(raw, list) else []
    return tuple(
        CelRule(rule=str(row["rule"]), message=str(row.get("message", ""))) for row in rows
    )
