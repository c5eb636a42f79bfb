"""Writes the tables of docs/reference/workload.md from the dataclasses that read the file.

python tools/workload_reference.py           writes them
python tools/workload_reference.py --check   only says whether the page is as the code is
"""

from __future__ import annotations

import re
import sys
import typing
from pathlib import Path

from gpuyard.catalog import LatentAttention, MixtureOfExperts, Transformer
from gpuyard.document import Settings
from gpuyard.document.shape import Shape, fields_of
from gpuyard.workload import Data, Graphics, Hpc, Pipeline, Requirements, Stock, Traffic, Training, Where
from gpuyard.workload.checks.where import CLOUD_PLATFORMS, ENGINES, OWN_PLATFORMS
from gpuyard.workload.keys import ALL_TASKS, Key, keys_of
from gpuyard.workload.workload import WorkloadFile

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "workload.md"
TABLES: dict[str, type] = {
    record.__name__: record
    for record in (
        WorkloadFile, Transformer, MixtureOfExperts, LatentAttention, Data, Training, Traffic, Graphics, Hpc,
        Requirements, Where, Stock, Pipeline,
    )
}  # fmt: skip
_MARKED = re.compile(r"(<!-- table: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_WORDS = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`"}


def table(record: type) -> str:
    """The keys of a section as a Markdown table; the column of tasks only where they differ."""
    keys = keys_of(record)
    by_task = any(key.tasks.used != ALL_TASKS for key in keys)
    head = ["key", "write", "default", *(["tasks"] if by_task else []), "meaning"]
    rows = [head, ["---"] * len(head)]
    for key in keys:
        meaning = key.shape.doc or ", ".join(inner.doc for inner in key.shape.options if inner.doc)
        cells = [f"`{key.word}`", _written(key.shape), _default(key), *([_tasks(key)] if by_task else []), meaning]
        rows.append([cell.replace("|", "\\|") for cell in cells])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def platforms() -> str:
    """Platforms, whose they are, and the engines that start jobs on them."""
    rows = [["platform", "provider", "engines"], ["---"] * 3]
    for platform, engines in ENGINES.items():
        owners = [name for name, own in (("google", CLOUD_PLATFORMS), ("onprem", OWN_PLATFORMS)) if platform in own]
        rows.append([f"`{platform}`", ", ".join(owners), ", ".join(f"`{engine}`" for engine in engines) or "none"])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _written(shape: Shape) -> str:
    """What a value looks like."""
    if shape.dimension:
        examples = shape.dimension.examples.replace(" or ", ", ").split(", ")
        return f"{shape.dimension.name}: {', '.join(f'`{example}`' for example in examples)}"
    if shape.base is typing.Literal:
        return ", ".join(f"`{word}`" for word in shape.literals)
    if shape.base is typing.Union:
        return " or ".join(_written(option) for option in shape.options)
    if shape.base is tuple:
        item = shape.options[0]
        if item.is_record:
            return f"`{' : '.join(field.name for field in fields_of(item.base))}` pairs".replace(" : ", ": ")
        return f"list of {_written(item)}"
    if shape.base is Settings:
        return "any keys"
    return "section" if shape.is_record else _WORDS[shape.base]


def _default(key: Key) -> str:
    """What a missing key means."""
    if key.required:
        return "required"
    if key.default is None or key.default == () or key.shape.is_record:
        return ""
    if isinstance(key.default, bool):
        return f"`{str(key.default).lower()}`"
    return f"`{key.default:g}`" if isinstance(key.default, int | float) else f"`{key.default}`"


def _tasks(key: Key) -> str:
    """The tasks that use the key; those that need it in bold."""
    if key.tasks.used == ALL_TASKS:
        return "all"
    return ", ".join(f"**{task}**" if task in key.tasks.needed else task for task in key.tasks.used)


def render(page: str) -> str:
    """The page with its tables as the code is now."""

    def fresh(match: re.Match[str]) -> str:
        """One marked table."""
        name = match["name"]
        return f"{match[1]}\n{platforms() if name == 'platforms' else table(TABLES[name])}\n{match[3]}"

    return _MARKED.sub(fresh, page)


def main(arguments: list[str]) -> int:
    """Writes or checks the page."""
    page = PAGE.read_text(encoding="utf-8")
    fresh = render(page)
    if "--check" in arguments:
        print("up to date" if page == fresh else f"stale: run python {Path(__file__).name}")
        return int(page != fresh)
    PAGE.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
