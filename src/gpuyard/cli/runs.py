"""`gpuyard runs`."""

from __future__ import annotations

import argparse

from gpuyard.app.runs import list_runs
from gpuyard.cli.options import add_json
from gpuyard.cli.state import add_home, home_of
from gpuyard.report import print_json, print_table, print_text
from gpuyard.report.runs import run_fields, runs_table

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = "examples:\n  gpuyard runs\n  gpuyard runs --home lab/.gpuyard --json"
    add_home(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints every run, newest first."""
    found = list_runs(home_of(arguments))
    if arguments.json:
        print_json({"runs": [run_fields(each) for each in found]})
    elif found:
        print_table(runs_table(found))
    else:
        print_text(f"no runs in {home_of(arguments).path}; `gpuyard run FILE` starts one, --home names another place")
    return 0
