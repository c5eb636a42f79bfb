"""`gpuyard data run|show|profile|diff`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from gpuyard.cli import data_profile
from gpuyard.cli.options import add_json, add_option
from gpuyard.cli.subcommands import Subcommand, add_actions, run_action
from gpuyard.datasets.compare import DatasetSummary, diff_data
from gpuyard.report.data import (
    columns_table,
    differences_table,
    pass_progress_text,
    splits_table,
    steps_table,
)
from gpuyard.report.terminal import print_json, print_result, print_table, print_text
from gpuyard.report.tokens import tokens_table

if TYPE_CHECKING:
    from gpuyard.datasets.passes import PassProgress


def _add_run(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "FILE", "a workload file, a data section alone, or data: a file or folder")
    add_option(parser, "-o, --out DIR", "output folder (default .gpuyard/data/ next to FILE)")
    add_option(
        parser,
        "--engine",
        "where to run (default local)",
        choices=("local", "ray"),
        default="local",
    )
    add_option(
        parser, "--address HOST:PORT", "Ray cluster address (default $RAY_ADDRESS, else start one)"
    )
    add_option(parser, "--memory SIZE", "memory limit (default 2GB)", default=2e9)
    add_json(parser)


def _run(arguments: argparse.Namespace) -> int:
    from gpuyard.app.data import run_data  # needs gpuyard[run]

    prepared = run_data(
        arguments.file,
        out=arguments.out,
        engine=arguments.engine,
        address=arguments.address,
        memory_bytes=arguments.memory,
        progress=_print_pass,
    )
    if arguments.json:
        print_json(prepared.manifest)
        return 0
    print_table(steps_table(prepared.manifest))
    print_table(splits_table(prepared.manifest))
    if prepared.manifest.kind == "tokens":
        print_table(tokens_table(prepared))
    print_text(f"prepared data in {prepared.folder}")
    return 0


def _print_pass(progress: PassProgress) -> None:
    if sys.stderr.isatty():
        last = progress.rows_done >= progress.rows
        sys.stderr.write(f"\r\x1b[K{'' if last else pass_progress_text(progress)}")
        sys.stderr.flush()


def _add_show(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "PATH", "a folder of prepared data, a pipeline, or a data file")
    add_json(parser)


def _shown(path: Path) -> DatasetSummary:
    from gpuyard.app.data import show_data  # needs gpuyard[run]

    with TemporaryDirectory(prefix="gpuyard-data-") as work:
        return show_data(path, Path(work))


def _show(arguments: argparse.Namespace) -> int:
    shown = _shown(arguments.path)
    if arguments.json:
        print_json(shown)
        return 0
    print_table(columns_table(shown))
    if shown.manifest:
        print_table(steps_table(shown.manifest))
        print_table(splits_table(shown.manifest))
    return 0


def _add_diff(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "first A", "prepared data, a pipeline, or a data file", type=Path)
    add_option(
        parser, "second B", "prepared data, a pipeline, or a data file to compare with", type=Path
    )
    add_json(parser)


def _diff(arguments: argparse.Namespace) -> int:
    differences = diff_data(_shown(arguments.first), _shown(arguments.second))
    print_result(
        {"differences": differences}, differences_table(differences), as_json=arguments.json
    )
    return 0


ACTIONS = (
    Subcommand(
        name="run",
        summary="clean, normalise, extract features, split and shard the data that a file declares",
        add_arguments=_add_run,
        run=_run,
    ),
    Subcommand(
        name="show",
        summary="columns, rows, steps and splits of prepared data, or the columns of a source",
        add_arguments=_add_show,
        run=_show,
    ),
    Subcommand(
        name="profile",
        summary="types, nulls, ranges, histograms, correlations and warnings of every column",
        add_arguments=data_profile.add_arguments,
        run=data_profile.run,
    ),
    Subcommand(
        name="diff",
        summary="diff two datasets: columns, rows, splits, settings, origin",
        add_arguments=_add_diff,
        run=_diff,
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's actions, each with its own arguments."""
    parser.epilog = (
        "examples:\n"
        "  gpuyard data run examples/quickstart/workload.yaml -o prepared\n"
        "  gpuyard data show prepared\n"
        "  gpuyard data profile table.parquet --html profile.html"
    )
    add_actions(parser, ACTIONS)


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand."""
    return run_action(arguments)
