"""`gpuyard resume RUN`."""

from __future__ import annotations

import argparse

from gpuyard.app.run import resume_run
from gpuyard.app.runs import find_run
from gpuyard.cli.options import add_json
from gpuyard.cli.run import told
from gpuyard.cli.state import add_home, home_of
from gpuyard.report.progress import progress_line

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = "examples:\n  gpuyard resume last\n  gpuyard resume 3f9a21"
    parser.add_argument("run", metavar="RUN", help="a run's id, the beginning of one, or last")
    add_home(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Goes on with a run that was interrupted, failed or stopped: what is done is not done again."""
    home = home_of(arguments)
    return told(resume_run(home, find_run(home, arguments.run), tell=progress_line), as_json=arguments.json)
