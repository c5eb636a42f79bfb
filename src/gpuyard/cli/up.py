"""`gpuyard up FILE`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from gpuyard.cli.home_option import add_home
from gpuyard.cli.options import add_catalog, add_json, add_option, page_stamp, workspace_of
from gpuyard.errors import EXIT_INFEASIBLE, EXIT_OK
from gpuyard.home import Home, write_atomic
from gpuyard.jobs.engines import ENGINES
from gpuyard.report.terminal import print_json, print_table, print_text
from gpuyard.report.up_progress import UpProgress

if TYPE_CHECKING:
    from gpuyard.app.up_report import UpReport


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
    with UpProgress() as progress:
        from gpuyard.app.up import up  # slow import: the progress display is already running

        workspace = workspace_of(arguments)
        report = up(
            workspace,
            until=arguments.until,
            dry_run=arguments.dry_run,
            engine=arguments.engine,
            on_progress=progress.on_progress,
            on_status=progress.on_status,
        )
    from gpuyard.app.up_results import compared_of, planned_of, results_of_plan
    from gpuyard.report.up import compared_table, stages_table, up_page

    folder = Path(report.folder)
    page = arguments.html or folder / "report.html"
    compared, results = compared_of(folder), results_of_plan(folder, workspace.home)
    if not arguments.dry_run:
        write_atomic(page, up_page(report, compared, results, planned_of(folder), page_stamp()))
    if arguments.json:
        print_json(report)
    else:
        print_table(stages_table(report))
        if compared:
            print_table(compared_table(compared))
        if not arguments.dry_run:
            print_text(f"report: {page}")
            _print_service(report, workspace.home)
    stopped = bool(report.stages) and report.stages[-1].state == "stopped"
    return EXIT_INFEASIBLE if stopped else EXIT_OK


def _print_service(report: UpReport, home: Home) -> None:
    """How to call and to stop the service that the stages have left running."""
    if not any(
        stage.name == "deploy" and stage.state in ("done", "cached") for stage in report.stages
    ):
        return
    from gpuyard.app.serve import list_endpoints  # needs gpuyard[run]

    for endpoint in list_endpoints(home)[:1]:
        model = endpoint.models[0].partition("/")[0] if endpoint.models else report.name
        print_text(
            f"running: {endpoint.url}/v2/models/{model}\n"
            f"  call it: curl {endpoint.url}/v2/models/{model} (requests: /openapi.json)\n"
            f"  stop it: gpuyard serve --stop {endpoint.name} --home {home.path}"
        )
