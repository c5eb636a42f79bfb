"""`gpuyard run FILE`."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpuyard.app.outcome import outcomes
from gpuyard.app.pipeline import STAGES
from gpuyard.app.run import run_file
from gpuyard.cli.exits import EXIT_DONE, EXIT_INFEASIBLE, EXIT_REFUSED, EXIT_WRONG_INPUT
from gpuyard.cli.options import add_catalog, add_json, catalog_layers
from gpuyard.home import Home
from gpuyard.jobs import ENGINE_NAMES, Run, Stage
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
            print_text(_failure(failed, done.id))
    return exit_code(done)


def _failure(stage: Stage, run_id: str) -> str:
    """Why a stage failed, and how to go on; what says its own fix is told as it is."""
    if stage.exit_code == EXIT_INFEASIBLE:
        return stage.error
    if stage.error.startswith("error: "):
        return f"{stage.error}\n  then: gpuyard resume {run_id}; after a change of the workload: gpuyard run"
    return f"error: {stage.name}: {stage.error}\n  fix: mend it, then gpuyard resume {run_id}"


def exit_code(done: Run) -> int:
    """What a run's end means to a script: that of the stage that failed, where it said so itself."""
    if done.state != "failed":
        return EXIT_REFUSED if done.state == "cancelled" else EXIT_DONE
    failed = next((stage for stage in done.stages if stage.state == "failed"), None)
    said = failed.exit_code if failed else None
    return said if said in (EXIT_WRONG_INPUT, EXIT_INFEASIBLE) else EXIT_REFUSED
