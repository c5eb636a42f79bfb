"""`gpuyard up FILE`."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpuyard.app.up import up
from gpuyard.app.up_values import found_values, planned_of
from gpuyard.cli.exits import EXIT_DONE, EXIT_INFEASIBLE
from gpuyard.cli.options import add_catalog, add_json, catalog_layers
from gpuyard.home import Home, write_whole
from gpuyard.jobs import ENGINE_NAMES
from gpuyard.report import print_doing, print_json, print_table, print_text
from gpuyard.report.up import compared_table, up_page, way_table

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = (
        "examples:\n  gpuyard up examples/quickstart/workload.yaml\n"
        "  gpuyard up examples/pretraining.yaml --until simulate\n"
        "on this machine everything is run; for planned machines it stops before anything is spent"
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a workload file; `gpuyard init` writes one")
    parser.add_argument("--until", metavar="STAGE", help="stop after this stage")
    parser.add_argument("--dry-run", action="store_true", help="name the stages, and do nothing")
    parser.add_argument("--engine", choices=ENGINE_NAMES, help="what starts the stages of the pipeline")
    parser.add_argument("--home", type=Path, metavar="PATH", help="state directory; default: .gpuyard beside the file")
    parser.add_argument("--html", type=Path, metavar="PATH", help="where the report goes; default: state directory")
    add_catalog(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Takes the workload through its stages; prints what each came to and writes the report."""
    home = Home(path=arguments.home) if arguments.home else None

    def tell(name: str, words: str) -> None:
        """One line a stage, while it goes on."""
        print_doing(f"{name} …" if not words else f"{name}: {words}")

    way = up(
        arguments.file, home=home, until=arguments.until, dry_run=arguments.dry_run, engine=arguments.engine,
        layers=catalog_layers(arguments), tell=tell,
    )  # fmt: skip
    place = arguments.html or Path(way.folder) / "report.html"
    compared, card, selection = found_values(Path(way.folder), home or Home.beside(arguments.file))
    if not arguments.dry_run:
        write_whole(place, up_page(way, compared, card, selection, planned_of(Path(way.folder))))
    if arguments.json:
        print_json(way)
    else:
        print_table(way_table(way))
        if compared:
            print_table(compared_table(compared))
        if not arguments.dry_run:
            print_text(f"report: {place}")
    return EXIT_INFEASIBLE if way.stages and way.stages[-1].state == "stopped" else EXIT_DONE
