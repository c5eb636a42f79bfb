"""`gpuyard show RUN`."""

from __future__ import annotations

import argparse

from gpuyard.app.runs import show_run
from gpuyard.cli.home_option import add_home, home_of
from gpuyard.cli.options import add_json, add_option
from gpuyard.home import write_atomic
from gpuyard.report.runs import run_fields, run_page, run_tables
from gpuyard.report.terminal import print_json, print_table, print_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "examples:\n  gpuyard show last\n  gpuyard show 3f9a21 --html run.html"
    add_option(parser, "RUN", "run id, a unique id prefix, or `last`")
    add_option(parser, "--html PATH", "write a page with a curve per metric")
    add_home(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print one run in full, or write its page."""
    detail = show_run(home_of(arguments), arguments.run)
    if arguments.html:
        write_atomic(arguments.html, run_page(detail.run, detail.series))
    if arguments.json:
        print_json(run_fields(detail.run, detail.series))
        return 0
    for table in run_tables(detail.run, detail.series):
        print_table(table)
    if arguments.html:
        print_text(f"wrote {arguments.html}")
    return 0
