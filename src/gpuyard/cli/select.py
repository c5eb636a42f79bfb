"""`gpuyard select FILE`."""

from __future__ import annotations

import argparse

from gpuyard.catalog.load import load_catalog
from gpuyard.cli.home_option import add_home, home_of
from gpuyard.cli.options import add_catalog, add_json, add_option, catalog_layers
from gpuyard.errors import EXIT_INFEASIBLE, Infeasible
from gpuyard.home import write_atomic
from gpuyard.report.select import ranking_table, rejected_table, selection_page, winner_text
from gpuyard.report.terminal import (
    print_json,
    print_progress,
    print_result,
    print_table,
    print_text,
)
from gpuyard.workload.read import own_catalogs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n  gpuyard select workload.yaml --html choice.html\n  gpuyard select"
        " workload.yaml --json    run it again after an interruption: finished trials are reused"
    )
    add_option(parser, "FILE", "a workload file whose pipeline has select")
    add_option(parser, "--data FOLDER", "prepared data; default: prepared as the file declares")
    add_option(parser, "--workers N", "processes (default: all cores)", default=0)
    add_option(parser, "--html PATH", "write a page with ranking and reasons")
    add_home(parser)
    add_catalog(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the winner and the rejected trials, or what makes it infeasible."""
    from gpuyard.app.select import select_file  # needs gpuyard[run]

    chosen = select_file(
        arguments.file,
        home=home_of(arguments),
        data=arguments.data,
        workers=arguments.workers,
        catalog=load_catalog((*catalog_layers(arguments), *own_catalogs(arguments.file))),
        progress=print_progress,
    )
    if isinstance(chosen, Infeasible):
        print_result({"infeasible": chosen}, str(chosen), as_json=arguments.json)
        return EXIT_INFEASIBLE
    if arguments.html:
        write_atomic(arguments.html, selection_page(chosen))
    if arguments.json:
        print_json(chosen)
        return 0
    print_text(winner_text(chosen))
    print_table(ranking_table(chosen))
    print_table(rejected_table(chosen))
    if arguments.html:
        print_text(f"wrote {arguments.html}")
    return 0
