"""Structure-aware mutations of text, trees, tables and bytes."""

from __future__ import annotations

import copy
import csv
import io
import json
import random
from collections.abc import Callable
from typing import Any

import yaml

# Values that break careless readers: limits of integers and floats, other types, control
# characters, deep nesting, paths and numbers with units.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**30, 0.0, -0.0, 1e-320, 1e308,
    float("inf"), float("-inf"), float("nan"), "", " ", "0", "-1", "1e999", "NaN", "9" * 400,
    "x" * 5000, "\x00", "\x7f", "é", "\u2028", "\ufeff", "😀", "../../etc/passwd", "$(id)",
    "1.5TB", "10%", "3d", "-5Gbps", "2026-02-30", "null", "[]", "{}", "*a", "&a", "!!python/none",
    [], {}, [[]], {"": {}}, [None] * 50, {"a": {"b": {"c": [1, {"d": []}]}}},
)  # fmt: skip
TOKENS = (
    "", " ", "\t", "\n", "\r", ":", "- ", "[", "]", "{", "}", ",", '"', "'", "&a [*a]", "*a",
    "<<: *a", "!!binary x", "|", ">", "%", "\x00", "é", "\ufeff", "---\n", "...\n", "? ", "#", "0x",
    "1e999", "9" * 400, "<", ">", "/>", "<!DOCTYPE x [<!ENTITY a 'b'>]>", "&a;", "]]>", "[" * 200,
    "{" * 200, "a: " * 100, "\\", "\\u0000", "\\ud800", "=", ";",
)  # fmt: skip
CELLS = (
    "", " ", "-", "0", "-1", "nan", "inf", "1e999", "9" * 400, "x" * 3000, '"', '"a', "a,b", "é",
    "\x00", "1.5", "TRUE", "2026-13-01", "=1+1", "None", "[]", "8x8", "1/0", "1;2",
)  # fmt: skip


def text_mutation(rng: random.Random, text: str) -> str:
    """Insert, delete, repeat, swap or cut pieces of a text."""
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(text))
        end = min(len(text), at + rng.choice((1, 2, 8, 64, 512)))
        action = rng.randrange(6)
        if action == 0:
            text = text[:at] + rng.choice(TOKENS) + text[at:]
        elif action == 1:
            text = text[:at] + text[end:]
        elif action == 2:
            text = text[:end] + text[at:end] * rng.choice((1, 2, 30)) + text[end:]
        elif action == 3:
            text = text[:at]
        elif action == 4:
            lines = text.split("\n")
            rng.shuffle(lines)
            text = "\n".join(lines)
        else:
            text = text[:at] + chr(rng.choice((0, 9, 34, 127, 0x85, 0x2028, 0x1F600))) + text[end:]
    return text


def bytes_mutation(rng: random.Random, data: bytes) -> bytes:
    """Flip, insert, delete, repeat or cut bytes."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at = rng.randint(0, len(out))
        action = rng.randrange(5)
        if action == 0 and out:
            out[min(at, len(out) - 1)] ^= 1 << rng.randrange(8)
        elif action == 1:
            out[at:at] = rng.randbytes(rng.choice((1, 4, 64)))
        elif action == 2:
            del out[at : at + rng.choice((1, 4, 64, 4096))]
        elif action == 3:
            del out[at:]
        else:
            out[at:at] = out[at : at + rng.choice((4, 64))] * rng.choice((1, 100))
    return bytes(out)


def tree_mutation(rng: random.Random, tree: Any) -> Any:
    """Replace, remove, rename or repeat values anywhere in a tree."""
    root = [copy.deepcopy(tree)]
    for _ in range(rng.randint(1, 3)):
        places = list(_places(root))
        holder, key = rng.choice(places)
        value = holder[key]
        action = rng.randrange(6)
        if action <= 2:
            holder[key] = copy.deepcopy(rng.choice(VALUES))
        elif action == 3 and holder is not root:
            del holder[key]
        elif action == 4 and isinstance(holder, dict):
            holder[rng.choice((f"{key}x", "", "a.b", str(key).upper()))] = holder.pop(key)
        elif action == 5:
            holder[key] = (
                [copy.deepcopy(value)] * rng.choice((1, 2, 40))
                if not isinstance(value, int | float) or isinstance(value, bool)
                else value * rng.choice((-1, 0, 1e-9, 1e12, 10**25))
            )
    return root[0]


def _places(holder: Any) -> Any:
    """Yield every (container, key) below a container."""
    items = enumerate(holder) if isinstance(holder, list) else holder.items()
    for key, value in list(items):
        yield holder, key
        if isinstance(value, list | dict) and value:
            yield from _places(value)


def json_mutation(rng: random.Random, data: bytes) -> bytes:
    """Mutate JSON as a tree, and sometimes as text."""
    if rng.random() < 0.2:
        return text_mutation(rng, data.decode()).encode("utf-8", "surrogatepass")
    return json.dumps(tree_mutation(rng, json.loads(data))).encode()


def yaml_mutation(rng: random.Random, data: bytes) -> bytes:
    """Mutate YAML as a tree, and sometimes as text."""
    if rng.random() < 0.4:
        return text_mutation(rng, data.decode()).encode("utf-8", "surrogatepass")
    tree = tree_mutation(rng, yaml.safe_load(data))
    return str(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)).encode()


def csv_mutation(rng: random.Random, data: bytes) -> bytes:
    """Mutate cells, rows and columns of a table, and sometimes its text."""
    if rng.random() < 0.3:
        return text_mutation(rng, data.decode()).encode("utf-8", "surrogatepass")
    rows = list(csv.reader(io.StringIO(data.decode())))
    for _ in range(rng.randint(1, 4)):
        row = rng.choice(rows)
        at = rng.randrange(len(row)) if row else 0
        action = rng.randrange(5)
        if action <= 1 and row:
            row[at] = rng.choice(CELLS)
        elif action == 2 and row:
            del row[at]
        elif action == 3:
            row.insert(at, rng.choice(CELLS))
        else:
            rows.insert(rng.randrange(len(rows)), list(rng.choice(rows)))
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue().encode()


def plain_text_mutation(rng: random.Random, data: bytes) -> bytes:
    """Mutate text of any format."""
    return text_mutation(rng, data.decode()).encode("utf-8", "surrogatepass")


Mutation = Callable[[random.Random, bytes], bytes]
