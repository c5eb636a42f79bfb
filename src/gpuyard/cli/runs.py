"""`gpuyard runs`."""

from __future__ import annotations

import argparse

from gpuyard.app.runs import list_runs
from gpuyard.cli.home_option import add_home, home_of
from gpuyard.cli.options import add_json
from gpuyard.report.runs import run_fields, runs_table
from gpuyard.report.terminal import print_json, print_table, print_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "examples:\n  gpuyard runs\n  gpuyard runs --home lab/.gpuyard --json"
    add_home(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print every run, newest first."""
    all_runs = list_runs(home_of(arguments))
    if arguments.json:
        print_json({"runs": [run_fields(item) for item in all_runs]})
    elif all_runs:
        print_table(runs_table(all_runs))
    else:
        print_text(
            f"no runs in {home_of(arguments).path}; start one with `gpuyard run FILE`, or set"
            " --home"
        )
    return 0
