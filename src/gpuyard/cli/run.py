"""`gpuyard run FILE`."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpuyard.app.outcome import outcomes
from gpuyard.app.pipeline import STAGES
from gpuyard.app.run import run_file
from gpuyard.cli.exits import EXIT_DONE, EXIT_REFUSED
from gpuyard.cli.options import add_catalog, add_json, catalog_layers
from gpuyard.home import Home
from gpuyard.jobs import ENGINE_NAMES, Run
from gpuyard.report import print_json, print_table, print_text
from gpuyard.report.progress import progress_line
from gpuyard.report.run import run_table

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = (
        "examples:\n  gpuyard run examples/quickstart/workload.yaml\n"
        "  gpuyard run workload.yaml --engine slurm\n  gpuyard run workload.yaml --until evaluate\n"
        "a run that was killed or failed goes on with `gpuyard resume`"
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a workload file with a pipeline")
    parser.add_argument(
        "--engine", choices=ENGINE_NAMES, help="what starts the stages; default: as the file says, else local"
    )
    parser.add_argument("--until", choices=STAGES, metavar="STAGE", help=f"stop after it: {', '.join(STAGES)}")
    parser.add_argument("--home", type=Path, metavar="PATH", help="state directory; default: .gpuyard beside the file")
    add_catalog(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the pipeline; prints what every stage came to."""
    home = Home(path=arguments.home) if arguments.home else None
    done = run_file(
        arguments.file, home=home, engine=arguments.engine, until=arguments.until, layers=catalog_layers(arguments),
        tell=progress_line,
    )  # fmt: skip
    return told(done, as_json=arguments.json)


def told(done: Run, *, as_json: bool) -> int:
    """Prints a run at its end; gives the exit code."""
    if as_json:
        print_json(done)
    else:
        print_table(run_table(done, outcomes(done)))
        print_text(f"`gpuyard show {done.id}` tells more")
        failed = next((stage for stage in done.stages if stage.state == "failed"), None)
        if failed is not None:
            print_text(f"error: {failed.name}: {failed.error}\n  fix: mend it, then gpuyard resume {done.id}")
    return EXIT_REFUSED if done.state == "failed" else EXIT_DONE
