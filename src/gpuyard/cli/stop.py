"""`gpuyard stop RUN`."""

from __future__ import annotations

import argparse

from gpuyard.app.runs import stop_run
from gpuyard.cli.home_option import add_home, home_of
from gpuyard.cli.options import add_json, add_option
from gpuyard.report.runs import run_fields
from gpuyard.report.terminal import print_result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "examples:\n  gpuyard stop last\n  gpuyard stop 3f9a21"
    add_option(parser, "RUN", "run id, a unique id prefix, or `last`")
    add_home(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Ends a run and its jobs."""
    ended = stop_run(home_of(arguments), arguments.run)
    print_result(
        run_fields(ended),
        f"run {ended.id} is {ended.state}; resume it with `gpuyard resume {ended.id}`",
        as_json=arguments.json,
    )
    return 0
