"""`gpuyard run FILE`."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpuyard.cli.home_option import add_home
from gpuyard.cli.options import add_catalog, add_json, add_option, workspace_of
from gpuyard.errors import EXIT_EXTERNAL_ERROR, EXIT_INFEASIBLE, EXIT_OK, EXIT_WRONG_INPUT
from gpuyard.jobs.engines import ENGINES
from gpuyard.jobs.records import STAGES, Run, Stage
from gpuyard.jobs.tracking.export import TrackerStatus, read_statuses
from gpuyard.report.progress import progress_line
from gpuyard.report.run import run_table
from gpuyard.report.terminal import print_json, print_table, print_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n  gpuyard run examples/quickstart/workload.yaml\n"
        "  gpuyard run workload.yaml --engine slurm\n  gpuyard run workload.yaml --until evaluate\n"
        "resume a killed or failed run with `gpuyard resume`"
    )
    add_option(parser, "FILE", "a workload file with a pipeline")
    add_option(
        parser,
        "--engine",
        "execution engine; default: the file's, else local",
        choices=tuple(ENGINES),
    )
    add_option(
        parser, "--until STAGE", f"stop after this stage: {', '.join(STAGES)}", choices=STAGES
    )
    add_option(
        parser,
        "--track NAME=VALUE...",
        "export the run as it goes: mlflow=http://HOST:PORT, experiment=NAME, tensorboard=DIR",
    )
    add_home(parser)
    add_catalog(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the pipeline and print the outcome of every stage."""
    from gpuyard.app.run import run_pipeline  # needs gpuyard[run]

    done = run_pipeline(
        workspace_of(arguments),
        engine=arguments.engine,
        until=arguments.until,
        track=arguments.track,
        on_progress=progress_line,
    )
    return print_run(done, as_json=arguments.json)


def print_run(done: Run, *, as_json: bool) -> int:
    """Print a finished run and return the exit code."""
    from gpuyard.app.stage_summaries import outcomes

    if as_json:
        print_json(done)
    else:
        print_table(run_table(done, outcomes(done)))
        print_text(f"see `gpuyard show {done.id}`")
        for status in read_statuses(Path(done.folder)):
            print_text(tracking_line(status, done.id))
        failed = next((stage for stage in done.stages if stage.state == "failed"), None)
        if failed is not None:
            print_text(_failure(failed, done.id))
        if done.state == "done" and done.resumable:
            left = next(stage for stage in done.stages if stage.state == "pending")
            print_text(f"`gpuyard resume {done.id}` continues with {left.name}")
    return exit_code(done)


def tracking_line(status: TrackerStatus, run_id: str) -> str:
    """Where the run is shown, or why it is not."""
    if status.finished:
        return f"tracked: {status.url}"
    problem = status.problem or "not all of it was sent"
    return f"warning: tracking: {problem}\n  fix: gpuyard runs track {run_id}"


def _failure(stage: Stage, run_id: str) -> str:
    """Why a stage failed, and how to continue."""
    if stage.exit_code == EXIT_INFEASIBLE:
        return stage.error
    if stage.error.startswith("error: "):
        return (
            f"{stage.error}\n  then: gpuyard resume {run_id}; if the workload changed: gpuyard run"
        )
    return f"error: {stage.name}: {stage.error}\n  fix: fix the cause, then gpuyard resume {run_id}"


def exit_code(done: Run) -> int:
    """Exit code of a run: that of the failed stage where it set one."""
    if done.state != "failed":
        return EXIT_EXTERNAL_ERROR if done.state == "cancelled" else EXIT_OK
    failed = next((stage for stage in done.stages if stage.state == "failed"), None)
    code = failed.exit_code if failed else None
    return code if code in (EXIT_WRONG_INPUT, EXIT_INFEASIBLE) else EXIT_EXTERNAL_ERROR
