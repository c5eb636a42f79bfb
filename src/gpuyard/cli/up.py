"""`gpuyard up FILE`."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpuyard.app.up import up
from gpuyard.app.up_results import compared_of, planned_of, results_of_plan
from gpuyard.cli.home_option import add_home
from gpuyard.cli.options import add_catalog, add_json, add_option, workspace_of
from gpuyard.errors import EXIT_INFEASIBLE, EXIT_OK
from gpuyard.home import write_atomic
from gpuyard.jobs.engines import ENGINES
from gpuyard.report.terminal import print_json, print_status, print_table, print_text
from gpuyard.report.up import compared_table, stages_table, up_page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n  gpuyard up examples/quickstart/workload.yaml\n"
        "  gpuyard up examples/pretraining.yaml --until simulate\n"
        "local workloads run; planned workloads stop before anything is spent"
    )
    add_option(parser, "FILE", "a workload file; `gpuyard init` writes one")
    add_option(parser, "--until STAGE", "stop after this stage")
    add_option(parser, "--dry-run", "list the stages without running them")
    add_option(
        parser, "--engine", "execution engine of the pipeline stages", choices=tuple(ENGINES)
    )
    add_home(parser)
    add_option(parser, "--html PATH", "report file; default: in the state directory")
    add_catalog(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the stages of a workload, print their outcomes and write the report."""
    workspace = workspace_of(arguments)

    def on_progress(name: str, message: str) -> None:
        print_status(f"{name}: {message}" if message else f"{name} …")

    report = up(
        workspace,
        until=arguments.until,
        dry_run=arguments.dry_run,
        engine=arguments.engine,
        on_progress=on_progress,
    )
    folder = Path(report.folder)
    page = arguments.html or folder / "report.html"
    compared, results = compared_of(folder), results_of_plan(folder, workspace.home)
    if not arguments.dry_run:
        write_atomic(page, up_page(report, compared, results, planned_of(folder)))
    if arguments.json:
        print_json(report)
    else:
        print_table(stages_table(report))
        if compared:
            print_table(compared_table(compared))
        if not arguments.dry_run:
            print_text(f"report: {page}")
    stopped = bool(report.stages) and report.stages[-1].state == "stopped"
    return EXIT_INFEASIBLE if stopped else EXIT_OK
