"""A JSON Schema as a frozen value: the keywords that the shipped API descriptions use, parsed once."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuyard.document import Plain

__all__ = ["CelRule", "Schema", "parse_schema"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CelRule:
    """A rule in the Common Expression Language, and what to say when it fails."""

    rule: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """What a value may be. `additional` None means that no other key is allowed."""

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
    """The schema of its JSON form."""
    assert isinstance(raw, dict), raw
    properties, additional, items = raw.get("properties"), raw.get("additionalProperties"), raw.get("items")
    return Schema(
        types=_words(raw.get("type")),
        ref=str(raw.get("$ref", "")).removeprefix("#/$defs/"),
        properties={name: parse_schema(child) for name, child in properties.items()}
        if isinstance(properties, dict)
        else None,
        additional=parse_schema(additional) if isinstance(additional, dict) else None,
        is_open=additional is not False,
        items=parse_schema(items) if isinstance(items, dict) else None,
        required=_words(raw.get("required")),
        enum=_scalars(raw.get("enum")),
        pattern=re.compile(str(raw["pattern"])) if "pattern" in raw else None,
        minimum=_number(raw.get("minimum")),
        maximum=_number(raw.get("maximum")),
        min_length=_whole(raw.get("minLength")),
        max_length=_whole(raw.get("maxLength")),
        min_items=_whole(raw.get("minItems")),
        max_items=_whole(raw.get("maxItems")),
        max_properties=_whole(raw.get("maxProperties")),
        has_default="default" in raw,
        default=raw.get("default"),
        list_keys=_words(raw.get("x-kubernetes-list-map-keys")),
        rules=_rules(raw.get("x-kubernetes-validations")),
        is_read_only=raw.get("readOnly") is True,
        is_deprecated=raw.get("deprecated") is True,
        required_by=_words(raw.get("x-required-by")),
    )


def _words(raw: Plain) -> tuple[str, ...]:
    """A word or a list of words."""
    if isinstance(raw, list):
        return tuple(str(word) for word in raw)
    return (raw,) if isinstance(raw, str) else ()


def _scalars(raw: Plain) -> tuple[str | int | float | bool, ...]:
    """A list of scalars."""
    return tuple(item for item in raw if isinstance(item, str | int | float)) if isinstance(raw, list) else ()


def _number(raw: Plain) -> float | None:
    """A number."""
    return float(raw) if isinstance(raw, int | float) else None


def _whole(raw: Plain) -> int | None:
    """A whole number."""
    return raw if isinstance(raw, int) else None


def _rules(raw: Plain) -> tuple[CelRule, ...]:
    """CEL rules."""
    rows = [row for row in raw if isinstance(row, dict)] if isinstance(raw, list) else []
    return tuple(CelRule(rule=str(row["rule"]), message=str(row.get("message", ""))) for row in rows)
