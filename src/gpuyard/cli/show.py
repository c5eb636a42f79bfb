"""`gpuyard show RUN`."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpuyard.app.runs import show_run
from gpuyard.cli.options import add_json
from gpuyard.cli.state import add_home, home_of
from gpuyard.home import write_whole
from gpuyard.report import print_json, print_table, print_text
from gpuyard.report.runs import run_fields, run_page, run_tables

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = "examples:\n  gpuyard show last\n  gpuyard show 3f9a21 --html run.html"
    parser.add_argument("run", metavar="RUN", help="a run's id, the beginning of one, or last")
    parser.add_argument("--html", type=Path, metavar="PATH", help="write a page with the curves of every metric")
    add_home(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints one run in full, or writes its page."""
    found = show_run(home_of(arguments), arguments.run)
    if arguments.html:
        write_whole(arguments.html, run_page(found.run, found.series, found.artefacts))
    if arguments.json:
        print_json(run_fields(found.run, found.series, found.artefacts))
        return 0
    for table in run_tables(found.run, found.series, found.artefacts):
        print_table(table)
    if arguments.html:
        print_text(f"wrote {arguments.html}")
    return 0
