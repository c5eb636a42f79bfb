"""`gpuyard examples list|copy`."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpuyard.app.examples import copy_examples, examples
from gpuyard.cli.options import add_json, add_option
from gpuyard.cli.subcommands import Subcommand, add_actions, run_action
from gpuyard.report.table import Table, table_columns
from gpuyard.report.terminal import print_json, print_result, print_table


def _list(arguments: argparse.Namespace) -> int:
    known = examples()
    if arguments.json:
        print_json({"examples": known})
        return 0
    columns = table_columns("example", "file", "what it is")
    rows = tuple((example.name, example.file, example.summary) for example in known)
    notes = ("`gpuyard examples copy NAME` writes one to examples/",)
    print_table(Table(columns=columns, rows=rows, notes=notes))
    return 0


def _add_copy(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "names NAME*", "examples to copy; default: all of them")
    add_option(
        parser, "-o, --out DIR", "output folder (default examples)", default=Path("examples")
    )
    add_option(parser, "--force", "overwrite existing files")
    add_json(parser)


def _copy(arguments: argparse.Namespace) -> int:
    paths = copy_examples(arguments.names, arguments.out, force=arguments.force)
    print_result(
        {"files": [str(path) for path in paths]},
        "\n".join(f"wrote {path}" for path in paths),
        as_json=arguments.json,
    )
    return 0


ACTIONS = (
    Subcommand(name="list", summary="list example workloads", add_arguments=add_json, run=_list),
    Subcommand(
        name="copy",
        summary="copy examples to a folder, to run or to edit",
        add_arguments=_add_copy,
        run=_copy,
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's actions, each with its own arguments."""
    parser.epilog = (
        "examples:\n"
        "  gpuyard examples list\n"
        "  gpuyard examples copy quickstart && gpuyard up examples/quickstart/workload.yaml"
    )
    add_actions(parser, ACTIONS)


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand."""
    return run_action(arguments)
