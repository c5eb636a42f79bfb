"""`gpuyard accuracy training|inference|collectives FILE.csv`."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

from gpuyard.app.accuracy import Accuracy, Group, Holdout, score_training
from gpuyard.app.accuracy_collectives import score_bandwidths
from gpuyard.app.accuracy_serving import score_inference
from gpuyard.cli.accuracy_collectives import collectives_errors, collectives_json
from gpuyard.cli.options import add_catalog, add_json, catalog_layers
from gpuyard.document import Plain, plain
from gpuyard.errors import InputError
from gpuyard.perf.score import Errors
from gpuyard.report import Column, Table, print_json, print_progress, print_table
from gpuyard.simulate.serving import Score, score_json
from gpuyard.simulate.serving.holdout import HELD
from gpuyard.units import RATIO, show

__all__ = ["accuracy_json", "add_arguments", "run", "serving_errors"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = (
        "the columns of FILE.csv are those of tests/accuracy/training_runs.csv and inference_runs.csv;\n"
        "a blank shape is the catalog's; errors are |predicted / measured - 1|, of the step time for training"
    )
    parser.add_argument("what", choices=["training", "inference", "collectives"], help="which model to score")
    parser.add_argument("file", type=Path, metavar="FILE.csv", help="measured runs")
    parser.add_argument("--profile", default="", metavar="NAME", help="one software profile for all rows")
    parser.add_argument("--trust", default="AB", metavar="LETTERS", help="rows of this trust (default AB)")
    held = parser.add_mutually_exclusive_group()
    held.add_argument(
        "--holdout-groups", action="store_true", help="refit with whole (source, model, chip) groups left out"
    )
    held.add_argument("--holdout-sources", action="store_true", help="refit with whole sources left out")
    for name in HELD:
        held.add_argument(
            f"--holdout-{name}s", action="store_true", help=f"of inference: refit with whole {name}s left out"
        )
    add_catalog(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the errors."""
    if arguments.what == "inference":
        return _inference(arguments)
    for name in HELD:
        if getattr(arguments, f"holdout_{name}s"):
            raise InputError.one(f"--holdout-{name}s", "it is for inference", "use --holdout-groups")
    if arguments.what == "collectives":
        return _collectives(arguments)
    holdout: Holdout = "groups" if arguments.holdout_groups else "sources" if arguments.holdout_sources else "none"
    scored = score_training(
        arguments.file, catalog_layers(arguments), arguments.profile, holdout, arguments.trust, print_progress
    )
    if arguments.json:
        print_json(accuracy_json(scored))
    else:
        print_table(_table(scored))
    return 0


def _refuse_training_flags(arguments: argparse.Namespace) -> None:
    """Raises InputError where a flag means nothing here."""
    for flag in ("profile", "holdout_groups", "holdout_sources"):
        if getattr(arguments, flag):
            raise InputError.one(f"--{flag.replace('_', '-')}", "it is for training", "leave it out")


def _collectives(arguments: argparse.Namespace) -> int:
    """The errors of the collectives' times."""
    _refuse_training_flags(arguments)
    score = score_bandwidths(arguments.file)
    if arguments.json:
        print_json(collectives_json(score))
    else:
        print_table(collectives_errors(score))
    return 0


def _inference(arguments: argparse.Namespace) -> int:
    """The serving model's errors."""
    _refuse_training_flags(arguments)
    held = next((name for name in HELD if getattr(arguments, f"holdout_{name}s")), None)
    found = score_inference(arguments.file, catalog_layers(arguments), arguments.trust, held, print_progress)
    if arguments.json:
        print_json(score_json(found))
    else:
        print_table(serving_errors(found))
    return 0


def serving_errors(found: Score) -> Table:
    """The errors of each figure, of all rows, then by kind, scenario, engine and chip."""
    headings = ("rows of", "figure", "rows", "mean", "median", "p90", "bias")
    groups = [("all", found.metrics)]
    for kind in (found.by_kind, found.by_scenario, found.by_engine, found.by_chip):
        groups += [(group.name, group.metrics) for group in kind]
    rows = []
    for name, metrics in groups:
        for figure in fields(metrics):
            errors = getattr(metrics, figure.name)
            if errors.rows:
                cells = _cells(name, errors)
                rows.append((cells[0], figure.name, *cells[1:]))
    reasons: dict[str, int] = {}
    for _, reason in found.unsupported:
        reasons[reason] = reasons.get(reason, 0) + 1
    left = [f"unsupported: {count} × {reason}" for reason, count in reasons.items()]
    return Table(
        columns=tuple(Column(heading=heading, numeric=heading not in ("rows of", "figure")) for heading in headings),
        rows=tuple(rows),
        notes=(f"{found.scored} of {found.rows} rows scored", *left),
    )


def accuracy_json(scored: Accuracy) -> dict[str, Plain]:
    """The scores as scripts read them: every key always there, groups by name, errors as fractions."""
    three = {"three_points": _errors(scored.three_points)} if scored.three_points else {}
    return {
        "rows": scored.rows,
        "scored": scored.scored,
        **{name: value for name, value in _errors(scored.errors).items() if name != "rows"},
        "unsupported": plain(scored.unsupported),
        **{name: _named(getattr(scored, name)) for name in ("by_chip", "by_source", "by_task", "by_kind")},
        "memory": _errors(scored.memory),
        "holdout": scored.holdout,
        **three,
        "per_row": plain(scored.per_row),
    }


def _named(groups: tuple[Group, ...]) -> dict[str, Plain]:
    """Groups by name."""
    return {group.name: _errors(group.errors) for group in groups}


def _errors(errors: Errors) -> dict[str, Plain]:
    """Errors as plain values, null where there are no rows."""
    return {field.name: getattr(errors, field.name) for field in fields(errors)}


def _table(scored: Accuracy) -> Table:
    """The errors of all rows, then by kind, chip and source."""
    headings = ("rows of", "rows", "mean", "median", "p90", "bias")
    rows = [_cells("all", scored.errors)]
    for kind, groups in (("", scored.by_kind), ("", scored.by_chip), ("", scored.by_source)):
        rows += [_cells(kind + group.name, group.errors) for group in groups if group.errors.rows]
    if scored.three_points:
        rows.append(_cells("scalar set from three rows", scored.three_points))
    rows.append(_cells("memory", scored.memory))
    reasons: dict[str, int] = {}
    for item in scored.unsupported:
        reasons[item.reason] = reasons.get(item.reason, 0) + 1
    left = [f"unsupported: {count} × {reason}" for reason, count in reasons.items()]
    held = {
        "none": "",
        "groups": ", whole groups held out of the fit",
        "sources": ", whole sources held out of the fit",
    }
    notes = (f"{scored.scored} of {scored.rows} rows scored{held[scored.holdout]}", *left)
    return Table(
        columns=tuple(Column(heading=heading, numeric=heading != "rows of") for heading in headings),
        rows=tuple(rows),
        notes=notes,
    )


def _cells(name: str, errors: Errors) -> tuple[str, ...]:
    """One line of the table."""
    values = (errors.mean_abs_error, errors.median_abs_error, errors.p90_abs_error, errors.bias)
    return (name, str(errors.rows), *("–" if value is None else show(value, RATIO) for value in values))
