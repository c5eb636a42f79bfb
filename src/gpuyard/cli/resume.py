"""`gpuyard resume RUN`."""

from __future__ import annotations

import argparse

from gpuyard.app.runs import find_run
from gpuyard.cli.home_option import add_home, home_of
from gpuyard.cli.options import add_json, add_option
from gpuyard.cli.run import print_run
from gpuyard.report.progress import progress_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "examples:\n  gpuyard resume last\n  gpuyard resume 3f9a21"
    add_option(parser, "RUN", "run id, a unique id prefix, or `last`")
    add_home(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Resume a run; finished stages are not run again."""
    from gpuyard.app.resume import resume_run  # needs gpuyard[run]

    home = home_of(arguments)
    return print_run(
        resume_run(home, find_run(home, arguments.run), on_progress=progress_line),
        as_json=arguments.json,
    )
