"""`gpuyard logs RUN`."""

from __future__ import annotations

import argparse
import sys

from gpuyard.app.runs import run_logs
from gpuyard.cli.options import add_json
from gpuyard.cli.state import add_home, home_of
from gpuyard.report import print_doing, print_json, print_text

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = "examples:\n  gpuyard logs last -f\n  gpuyard logs 3f9a21 --stage train"
    parser.add_argument("run", metavar="RUN", help="a run's id, the beginning of one, or last")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the run ends")
    parser.add_argument("--stage", default="", metavar="NAME", help="only this stage")
    add_home(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints what the jobs of a run wrote, each line behind its stage."""
    lines = run_logs(home_of(arguments), arguments.run, arguments.follow, arguments.stage)
    if arguments.json:
        print_json({"lines": list(lines)})
        return 0
    told = False
    for line in lines:
        print_text(line)
        told = True
        if arguments.follow:
            sys.stdout.flush()
    if not told:
        print_doing("its jobs wrote nothing; `gpuyard show` tells what they came to")
    return 0
