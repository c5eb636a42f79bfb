"""`gpuyard evaluate FILE`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gpuyard.cli.home_option import add_home, home_of
from gpuyard.cli.options import add_json, add_option
from gpuyard.errors import InputError
from gpuyard.home import write_atomic
from gpuyard.report.evaluate import (
    comparison_table,
    fold_table,
    scorecard_page,
    scorecard_table,
    slice_table,
)
from gpuyard.report.terminal import print_json, print_progress, print_table, print_text

if TYPE_CHECKING:
    from gpuyard.app.evaluate import EvaluationReport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n  gpuyard evaluate workload.yaml --html scores.html\n  gpuyard evaluate"
        " workload.yaml --model quickstart@challenger --against quickstart@champion"
    )
    add_option(parser, "FILE", "a workload file with a pipeline")
    add_option(parser, "--data FOLDER", "prepared data; default: prepared as the file declares")
    add_option(
        parser, "--model MODEL", "evaluate this model: NAME@ALIAS, NAME/3 or a folder", default=""
    )
    add_option(parser, "--against MODEL", "compare --model with this one, row by row", default="")
    add_option(
        parser, "--split NAME", "split that --model is evaluated on (default test)", default="test"
    )
    add_option(parser, "--workers N", "processes (default: all cores)", default=0)
    add_option(parser, "--html PATH", "write a page: ROC, confusion, calibration, losses")
    add_home(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the scorecard."""
    from gpuyard.app.evaluate import evaluate_file, evaluate_model  # needs gpuyard[run]

    if arguments.against and not arguments.model:
        raise InputError.one(
            "--against", "there is no --model to compare", "name it: --model NAME@challenger"
        )
    if arguments.model:
        judged = evaluate_model(
            arguments.file,
            arguments.model,
            against=arguments.against,
            home=home_of(arguments),
            data=arguments.data,
            split=arguments.split,
        )
    else:
        judged = evaluate_file(
            arguments.file,
            home=home_of(arguments),
            data=arguments.data,
            workers=arguments.workers,
            progress=print_progress,
        )
    if arguments.html:
        text = scorecard_page(judged.card, judged.comparisons, judged.against)
        write_atomic(arguments.html, text)
    if arguments.json:
        print_json(judged)
    else:
        _print(judged, arguments)
    return 0


def _print(judged: EvaluationReport, arguments: argparse.Namespace) -> None:
    print_table(scorecard_table(judged.card))
    if len(judged.card.folds) > 1:
        print_table(fold_table(judged.card))
    if judged.card.slices:
        print_table(slice_table(judged.card))
    if judged.comparisons:
        print_table(comparison_table(judged.comparisons, judged.against, arguments.model))
    if arguments.html:
        print_text(f"wrote {arguments.html}")
