"""`gpuyard runs`: list, compare, tag and annotate runs."""

from __future__ import annotations

import argparse
from dataclasses import replace

from gpuyard.app.run_comparison import compare_runs, note_run, tag_run
from gpuyard.app.runs import list_runs
from gpuyard.cli.home_option import add_home, home_of
from gpuyard.cli.options import add_catalog, add_json, add_option, catalog_layers
from gpuyard.cli.subcommands import Subcommand, add_actions, run_action
from gpuyard.errors import EXIT_INFEASIBLE, Infeasible
from gpuyard.jobs.records import Run
from gpuyard.report.run_comparison import comparison_fields, one_per_row, side_by_side
from gpuyard.report.runs import run_fields, runs_table
from gpuyard.report.terminal import print_json, print_table, print_text
from gpuyard.report.up import compared_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n"
        "  gpuyard runs\n"
        "  gpuyard runs compare 3f9a21 last\n"
        "  gpuyard runs compare --filter 'test.accuracy>0.9' --sort=-test.accuracy\n"
        "  gpuyard runs tag last baseline owner=ann\n"
        "  gpuyard runs track last --track mlflow=http://127.0.0.1:5000\n"
        "  gpuyard runs --home lab/.gpuyard --json"
    )
    add_home(parser)
    add_json(parser)
    add_actions(parser, ACTIONS, required=False)


def run(arguments: argparse.Namespace) -> int:
    """Print every run, newest first, or run an action."""
    if arguments.action:
        return run_action(arguments)
    all_runs = list_runs(home_of(arguments))
    if arguments.json:
        print_json({"runs": [run_fields(item) for item in all_runs]})
    elif all_runs:
        print_table(runs_table(all_runs))
    else:
        print_text(
            f"no runs in {home_of(arguments).path}; start one with `gpuyard run FILE`, or set"
            " --home"
        )
    return 0


def _compare_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "examples:\n"
        "  gpuyard runs compare 3f9a21 last\n"
        "  gpuyard runs compare --filter 'train.loss<0.3' --filter owner=ann --sort train.loss"
    )
    add_option(parser, "run_ids RUN*", "ids or `last`, side by side; none: all runs, one per row")
    add_option(
        parser,
        "--filter CONDITION...",
        "a metric, setting or tag: NAME, or NAME with =, !=, <, <=, > or >= and a value",
    )
    add_option(
        parser, "--sort NAME", "by a metric, setting or tag; --sort=-NAME: reversed", default=""
    )
    add_option(parser, "--all", "also show settings that are equal in all runs")
    add_home(parser)
    add_json(parser)


def _compare(arguments: argparse.Namespace) -> int:
    comparison = compare_runs(
        home_of(arguments),
        arguments.run_ids,
        conditions=arguments.filter,
        sort=arguments.sort,
        all_settings=arguments.all,
    )
    if arguments.json:
        print_json(comparison_fields(comparison))
    elif comparison.runs:
        print_table(side_by_side(comparison) if arguments.run_ids else one_per_row(comparison))
    else:
        print_text("no run meets the conditions")
    return 0


def _tag_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "examples:\n"
        "  gpuyard runs tag last baseline owner=ann\n"
        "  gpuyard runs tag last -- -baseline"
    )
    add_option(parser, "RUN", "run id, a unique id prefix, or `last`")
    parser.add_argument(
        "tags", nargs="+", metavar="TAG", help="NAME or NAME=VALUE; -NAME (after --) removes one"
    )
    add_home(parser)
    add_json(parser)


def _tag(arguments: argparse.Namespace) -> int:
    return _print_described(arguments, tag_run(home_of(arguments), arguments.run, arguments.tags))


def _note_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "example:\n  gpuyard runs note last 'new labels, otherwise as 3f9a21'"
    add_option(parser, "RUN", "run id, a unique id prefix, or `last`")
    parser.add_argument("text", metavar="TEXT", help="replaces the note; empty: removes it")
    add_home(parser)
    add_json(parser)


def _note(arguments: argparse.Namespace) -> int:
    return _print_described(arguments, note_run(home_of(arguments), arguments.run, arguments.text))


def _track_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "examples:\n"
        "  gpuyard runs track last                    # what its trackers do not have yet\n"
        "  gpuyard runs track 3f9a21 --track tensorboard=boards"
    )
    add_option(parser, "RUN", "run id, a unique id prefix, or `last`")
    add_option(
        parser,
        "--track NAME=VALUE...",
        "mlflow=http://HOST:PORT, experiment=NAME or tensorboard=DIR; default: those of the run",
    )
    add_home(parser)
    add_json(parser)


def _track(arguments: argparse.Namespace) -> int:
    from gpuyard.app.tracking import track_run

    statuses = track_run(home_of(arguments), arguments.run, arguments.track)
    if arguments.json:
        print_json({"trackers": statuses})
    for status in () if arguments.json else statuses:
        print_text(f"tracked: {status.url}")
    return 0


def _predicted_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "examples:\n"
        "  gpuyard runs predicted last --machine a3-ultragpu-8g\n"
        "  gpuyard runs predicted 3f9a21 --json"
    )
    add_option(parser, "RUN", "run id, a unique id prefix, or `last`")
    add_option(
        parser,
        "--machine NAME",
        "its machines, where the file allows several",
        default="",
    )
    add_home(parser)
    add_catalog(parser)
    add_json(parser)


def _predicted(arguments: argparse.Namespace) -> int:
    from gpuyard.app.plan_comparison import compare_with_plan

    comparison = compare_with_plan(
        home_of(arguments),
        arguments.run,
        machine=arguments.machine,
        layers=catalog_layers(arguments),
    )
    if isinstance(comparison, Infeasible):
        print_text(str(comparison))
        return EXIT_INFEASIBLE
    if arguments.json:
        print_json(comparison)
        return 0
    cluster = comparison.option.cluster
    print_text(f"run {comparison.run} on {cluster.machine_count} × {cluster.machine}")
    print_table(replace(compared_table(comparison.rows), notes=()))
    return 0


def _print_described(arguments: argparse.Namespace, described: Run) -> int:
    if arguments.json:
        print_json(run_fields(described))
        return 0
    tags = ", ".join(f"{name}={value}" if value else name for name, value in described.tags)
    print_text(f"run {described.id}: tags: {tags or 'none'}; note: {described.note or 'none'}")
    return 0


ACTIONS = (
    Subcommand(
        name="compare",
        summary="compare settings, metrics and tags of runs",
        add_arguments=_compare_arguments,
        run=_compare,
    ),
    Subcommand(
        name="tag",
        summary="add or remove tags of a run",
        add_arguments=_tag_arguments,
        run=_tag,
    ),
    Subcommand(
        name="note",
        summary="write the note of a run",
        add_arguments=_note_arguments,
        run=_note,
    ),
    Subcommand(
        name="track",
        summary="export a run to MLflow or TensorBoard",
        add_arguments=_track_arguments,
        run=_track,
    ),
    Subcommand(
        name="predicted",
        summary="compare the measured training with the plan of its machines",
        add_arguments=_predicted_arguments,
        run=_predicted,
    ),
)
