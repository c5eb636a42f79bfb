"""`gpuyard select FILE`."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpuyard.catalog.load import load_catalog
from gpuyard.cli.home_option import add_home, home_of
from gpuyard.cli.options import add_catalog, add_json, catalog_layers, whole
from gpuyard.errors import EXIT_INFEASIBLE, Infeasible
from gpuyard.home import write_atomic
from gpuyard.report.select import ranking_table, rejected_table, selection_page, winner_text
from gpuyard.report.terminal import print_json, print_progress, print_table, print_text
from gpuyard.workload.read import own_catalogs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n  gpuyard select workload.yaml --html choice.html\n  gpuyard select"
        " workload.yaml --json    run it again after an interruption: finished trials are reused"
    )
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="a workload file whose pipeline has select"
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="prepared data; default: prepare it as the file says",
    )
    parser.add_argument(
        "--workers", type=whole, default=0, metavar="N", help="processes (default: all cores)"
    )
    parser.add_argument(
        "--html", type=Path, metavar="PATH", help="write a page with ranking and reasons"
    )
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
        if arguments.json:
            print_json({"infeasible": chosen})
        else:
            print_text(str(chosen))
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
