"""HCL text by construction: every string is quoted and escaped unless it is an expression."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from gpuyard.provision.terraform.provider_schema import BlockSchema

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
INDENT = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """Text in the syntax of HCL, such as a reference to another resource."""

    text: str


Value: TypeAlias = "str | int | float | bool | Expression | list[Value] | dict[str, Value]"
# Arguments by name, and nested blocks as lists of trees.
Tree: TypeAlias = "dict[str, Value]"


def quoted(text: str) -> str:
    """Return a string literal; `${` and `%{` start no template in it.

    HCL knows the escapes of JSON except `\\b`, `\\f` and `\\/`
    (https://developer.hashicorp.com/terraform/language/expressions/strings).
    """
    literal = json.dumps(text, ensure_ascii=False).replace("\\b", "\\u0008")
    literal = literal.replace("\\f", "\\u000c").replace("\x7f", "\\u007f")
    return literal.replace("${", "$${").replace("%{", "%%{")


def value_text(value: Value, depth: int = 0) -> str:
    """Return a value as an expression."""
    if isinstance(value, Expression):
        return value.text
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return f"[{', '.join(value_text(item, depth) for item in value)}]"
    if isinstance(value, dict):
        pad = INDENT * (depth + 1)
        keys = [key if _IDENTIFIER.fullmatch(key) else quoted(key) for key in value]
        width = max((len(key) for key in keys), default=0)
        lines = [
            f"{pad}{key:{width}} = {value_text(item, depth + 1)}\n"
            for key, item in zip(keys, value.values(), strict=True)
        ]
        return f"{{\n{''.join(lines)}{INDENT * depth}}}" if lines else "{}"
    return json.dumps(value)


def block_lines(tree: Tree, schema: BlockSchema, depth: int = 1) -> Iterator[str]:
    """Yield the lines inside a block: its arguments, then its nested blocks."""
    pad = INDENT * depth
    arguments = {name: value for name, value in tree.items() if name not in schema.blocks}
    for group in _groups(arguments):
        width = max(len(name) for name in group)
        for name in group:
            yield f"{pad}{name:{width}} = {value_text(arguments[name], depth)}"
    is_first = not arguments
    for name, child in schema.blocks.items():
        items = tree.get(name, [])
        for item in items if isinstance(items, list) else [items]:
            assert isinstance(item, dict), f"{name} is a block"
            if not is_first:
                yield ""
            is_first = False
            yield f"{pad}{name} {{"
            yield from block_lines(item, child, depth + 1)
            yield f"{pad}}}"


def _groups(arguments: Tree) -> Iterator[list[str]]:
    # terraform fmt aligns consecutive one-line arguments.
    group: list[str] = []
    for name, value in arguments.items():
        if isinstance(value, dict) and value:
            if group:
                yield group
            yield [name]
            group = []
        else:
            group.append(name)
    if group:
        yield group
