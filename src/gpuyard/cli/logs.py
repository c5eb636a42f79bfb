"""`gpuyard logs RUN`."""

from __future__ import annotations

import argparse
import sys

from gpuyard.app.runs import run_logs
from gpuyard.cli.home_option import add_home, home_of
from gpuyard.cli.options import add_json, add_option
from gpuyard.report.terminal import print_json, print_status


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "examples:\n  gpuyard logs last -f\n  gpuyard logs 3f9a21 --stage train"
    add_option(parser, "RUN", "run id, a unique id prefix, or `last`")
    add_option(parser, "-f, --follow", "follow until the run ends")
    add_option(parser, "--stage NAME", "only this stage", default="")
    add_home(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the log lines of a run, each after its stage."""
    lines = run_logs(home_of(arguments), arguments.run, arguments.follow, arguments.stage)
    if arguments.json:
        print_json({"lines": list(lines)})
        return 0
    printed = False
    for line in lines:
        sys.stdout.write(f"{line}\n")  # as it is: programs colour their lines
        printed = True
        if arguments.follow:
            sys.stdout.flush()
    if not printed:
        print_status("no log lines; see `gpuyard show`")
    return 0
