"""Write docs/reference/cli.md, catalog.md and openapi.json from the code.

python tools/reference.py            write the pages
python tools/reference.py --check    fail if a page is out of date
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import typing
from pathlib import Path

from gpuyard import __version__
from gpuyard.app.catalog import KINDS, field_paths, row_type
from gpuyard.catalog.load import load_catalog
from gpuyard.cli.commands import COMMANDS, SIMULATIONS, load_command
from gpuyard.document.field_types import FieldType
from gpuyard.serving.openapi import openapi

DOCS = Path(__file__).parent.parent / "docs" / "reference"
WORDS: dict[type, str] = {str: "text", int: "integer", float: "number", bool: "true or false"}


def cli() -> str:
    """Return the page of commands: the help text of each."""
    os.environ["COLUMNS"] = "110"
    parts = [
        "# Command line",
        "",
        "The output of `gpuyard COMMAND --help` for every command. Every command takes `--json`.",
        "",
        "Exit codes: 0 done, 2 wrong input, 3 infeasible, 4 external error ([details](errors.md)).",
    ]
    for command, summary in COMMANDS.items():
        _, parser = load_command(command, summary)
        parts += ["", f"## gpuyard {command}", ""]
        parts += ["```text", parser.format_help().rstrip(), "```"]
        inside: dict[str, argparse.ArgumentParser] = dict(subcommands_of(parser))
        if command == "simulate":
            inside = {
                name: load_command(f"simulate {name}", text)[1]
                for name, text in SIMULATIONS.items()
            }
        for name, inner in inside.items():
            parts += ["", f"### gpuyard {command} {name}", ""]
            parts += ["```text", inner.format_help().rstrip(), "```"]
    return "\n".join(parts) + "\n"


def subcommands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the subcommands of a command."""
    subcommands: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            subcommands |= action.choices
    return subcommands


def catalog() -> str:
    """Return the page of catalog fields."""
    rows = load_catalog()
    parts = [
        "# Catalog",
        "",
        "The tables and fields of the catalog. `gpuyard catalog KIND` lists the rows;",
        "`gpuyard catalog KIND NAME --sources` shows one with its sources. Your own catalog file has",
        "the same tables and fields; a quantity is a number in SI units or a string with its unit.",
    ]
    for kind in KINDS:
        record = row_type(kind)
        summary = (record.__doc__ or "").splitlines()[0]
        parts += ["", f"## {kind}", "", f"{summary} {len(getattr(rows, kind))} rows.", ""]
        parts += ["| field | value | meaning |", "|---|---|---|"]
        for path in field_paths(record):
            parts.append(f"| `{path.name}` | {value(path.shape)} | {path.shape.doc} |")
    return "\n".join(parts) + "\n"


def openapi_document() -> str:
    """Return the OpenAPI document of the model server."""
    return json.dumps(openapi(__version__).plain(), indent=2, ensure_ascii=False) + "\n"


def value(shape: FieldType) -> str:
    """Describe the type of a field."""
    if shape.dimension and shape.base is not tuple:
        return f"{shape.dimension.name}, as {shape.dimension.examples}"
    if shape.base is typing.Literal:
        return ", ".join(f"`{word}`" for word in shape.literals)
    if shape.base is tuple:
        return f"list of: {value(shape.options[0])}"
    if shape.is_record:
        return f"{shape.base.__name__} records"
    return WORDS.get(shape.base, "date")


def main() -> int:
    """Write or check the pages."""
    stale = 0
    for name, text in (
        ("cli.md", cli()),
        ("catalog.md", catalog()),
        ("openapi.json", openapi_document()),
    ):
        page = DOCS / name
        if "--check" not in sys.argv:
            page.write_text(text, encoding="utf-8")
        elif not page.exists() or page.read_text(encoding="utf-8") != text:
            print(f"{page.name} is out of date: run python tools/reference.py")
            stale += 1
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
