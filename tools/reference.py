"""Writes docs/reference/cli.md and catalog.md from the code, so that they cannot drift.

python tools/reference.py            write them
python tools/reference.py --check    fail if they are not what the code says
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import typing
from pathlib import Path

from gpuyard.app.catalog import KINDS, field_paths, row_type
from gpuyard.catalog import load_catalog
from gpuyard.cli.commands import COMMANDS
from gpuyard.cli.simulate import SIMULATIONS, parser_of
from gpuyard.document.shape import Shape

DOCS = Path(__file__).parent.parent / "docs" / "reference"
WORDS: dict[type, str] = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def cli() -> str:
    """The command line: every command's own help."""
    os.environ["COLUMNS"] = "110"
    parts = [
        "# Command line",
        "",
        "Every command takes `--json`. Exit codes: 0 done, 2 wrong input, 3 infeasible, 4 the world refused.",
        "",
        "This page is what `gpuyard COMMAND --help` prints.",
    ]
    for command in COMMANDS:
        parser = argparse.ArgumentParser(
            prog=f"gpuyard {command.name}", formatter_class=argparse.RawDescriptionHelpFormatter
        )
        importlib.import_module(command.module).add_arguments(parser)
        help_text = parser.format_help().rstrip()
        parts += [
            "",
            f"## gpuyard {command.name}",
            "",
            command.summary[0].upper() + command.summary[1:] + ".",
            "",
            "```text",
            help_text,
            "```",
        ]
        inside = actions(parser)
        if command.name == "simulate":
            inside = {simulation.name: parser_of(simulation) for simulation in SIMULATIONS}
        for name, inner in inside.items():
            parts += ["", f"### gpuyard {command.name} {name}", "", "```text", inner.format_help().rstrip(), "```"]
    return "\n".join(parts) + "\n"


def actions(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The words that may follow a command, each with its own arguments."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= action.choices
    return found


def catalog() -> str:
    """The catalog: the fields of each kind of row."""
    rows = load_catalog()
    parts = [
        "# Catalog",
        "",
        "`gpuyard catalog KIND` lists the rows; `gpuyard catalog KIND NAME --sources` shows one with its sources.",
        "A file of your own has the same tables and fields; a quantity is a number in SI or a text with its unit.",
    ]
    for kind in KINDS:
        record = row_type(kind)
        summary = (record.__doc__ or "").splitlines()[0]
        parts += ["", f"## {kind}", "", f"{summary} {len(getattr(rows, kind))} rows.", ""]
        parts += ["| field | value | meaning |", "|---|---|---|"]
        for path in field_paths(record):
            parts.append(f"| `{path.name}` | {value(path.shape)} | {path.shape.doc} |")
    return "\n".join(parts) + "\n"


def value(shape: Shape) -> str:
    """What a field holds, in words."""
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
    """Writes or checks the pages."""
    stale = 0
    for name, text in (("cli.md", cli()), ("catalog.md", catalog())):
        page = DOCS / name
        if "--check" not in sys.argv:
            page.write_text(text, encoding="utf-8")
        elif not page.exists() or page.read_text(encoding="utf-8") != text:
            print(f"{page.name} is not what the code says: run `python tools/reference.py`")
            stale += 1
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
