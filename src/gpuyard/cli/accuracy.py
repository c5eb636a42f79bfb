"""`gpuyard accuracy training|inference|collectives FILE.csv`."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from gpuyard.app.accuracy import Accuracy, Holdout, TrainingErrors, score_training
from gpuyard.app.accuracy_collectives import score_bandwidths
from gpuyard.app.accuracy_serving import score_inference
from gpuyard.calibrate.serving_holdout import HELD
from gpuyard.cli.accuracy_collectives import collectives_errors, collectives_json
from gpuyard.cli.options import add_catalog, add_json, add_option, catalog_of
from gpuyard.document.encode import plain
from gpuyard.document.frozen_json import Plain
from gpuyard.errors import InputError
from gpuyard.perf.score import ErrorStats
from gpuyard.report.table import Table, table_columns
from gpuyard.report.terminal import print_progress, print_result
from gpuyard.simulate.serving.score import ServingScore, score_json
from gpuyard.units import DURATION, RATIO, show

INFERENCE_ONLY = tuple(name for name in HELD if name != "source")
DISTANCES = {
    "run": "profile, chip and kind of run were measured",
    "group": "profile measured, not with this chip and kind of run",
    "release": "release or source not measured",
    "stack": "framework not measured",
    "chip": "chip not measured, or the row contradicts the inputs",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "the columns of FILE.csv are those of tests/accuracy/training_runs.csv and"
        " inference_runs.csv;\na minimal table of training runs has model, chip, count, layout"
        " (tp8 pp2) and tokens_per_s;\na blank shape is the catalog's; errors are"
        " |predicted / measured - 1|, of the step time for training"
    )
    add_option(
        parser, "what", "which model to score", choices=["training", "inference", "collectives"]
    )
    add_option(parser, "file FILE.csv", "measured runs")
    add_option(parser, "--profile NAME", "one software profile for all rows", default="")
    add_option(
        parser, "--trust LETTERS", "trust classes of the rows to score (default AB)", default="AB"
    )
    add_option(parser, "--constants PATH", "collectives: constants written by calibrate", type=Path)
    held = parser.add_mutually_exclusive_group()
    add_option(held, "--holdout-groups", "refit with each (source, model, chip) group held out")
    add_option(held, "--holdout-sources", "training, inference: refit with each source held out")
    for name in INFERENCE_ONLY:
        add_option(held, f"--holdout-{name}s", f"inference: refit with each {name} held out")
    add_catalog(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the errors of the model."""
    if arguments.what == "inference":
        return _inference(arguments)
    for name in INFERENCE_ONLY:
        if getattr(arguments, f"holdout_{name}s"):
            raise InputError.one(
                f"--holdout-{name}s", "applies to inference only", "use --holdout-groups"
            )
    if arguments.what == "collectives":
        return _collectives(arguments)
    holdout: Holdout = (
        "groups" if arguments.holdout_groups else "sources" if arguments.holdout_sources else "none"
    )
    scored = score_training(
        arguments.file,
        catalog_of(arguments),
        arguments.profile,
        holdout,
        arguments.trust,
        print_progress,
    )
    print_result(accuracy_json(scored), _table(scored), as_json=arguments.json)
    return 0


def _refuse_flags(arguments: argparse.Namespace, *flags: str) -> None:
    """Raise InputError for flags of training that do not apply."""
    for flag in flags:
        if getattr(arguments, flag):
            raise InputError.one(
                f"--{flag.replace('_', '-')}", f"does not apply to {arguments.what}", "remove it"
            )


def _collectives(arguments: argparse.Namespace) -> int:
    _refuse_flags(arguments, "profile", "holdout_groups", "holdout_sources")
    score = score_bandwidths(arguments.file, arguments.constants)
    print_result(collectives_json(score), collectives_errors(score), as_json=arguments.json)
    return 0


def _inference(arguments: argparse.Namespace) -> int:
    _refuse_flags(arguments, "profile", "holdout_groups")
    held = next((name for name in HELD if getattr(arguments, f"holdout_{name}s")), None)
    score = score_inference(
        arguments.file, catalog_of(arguments), arguments.trust, held, print_progress
    )
    print_result(score_json(score), serving_errors(score), as_json=arguments.json)
    return 0


def serving_errors(score: ServingScore) -> Table:
    """Errors of every metric over all rows, then by kind, scenario, engine and chip."""
    groups = [("all", score.metrics)]
    for kind in (score.by_kind, score.by_scenario, score.by_engine, score.by_chip):
        groups += [(group.name, group.metrics) for group in kind]
    rows = []
    for name, metrics in groups:
        for figure in fields(metrics):
            errors = getattr(metrics, figure.name)
            if errors.rows:
                cells = _cells(name, errors)
                rows.append((cells[0], figure.name, *cells[1:]))
    reasons: dict[str, int] = {}
    for _, reason in score.unsupported:
        reasons[reason] = reasons.get(reason, 0) + 1
    left = [f"unsupported: {count} × {reason}" for reason, count in reasons.items()]
    return Table(
        columns=table_columns(
            "rows of", "metric", ">rows", ">mean", ">median", ">p90", ">bias", ">in 90 %"
        ),
        rows=tuple(rows),
        notes=(f"{score.scored} of {score.rows} rows scored", *left),
    )


def accuracy_json(scored: Accuracy) -> dict[str, Plain]:
    """The scores as JSON: every key always present, groups by name, errors as fractions."""
    three = {"three_points": _errors(scored.three_points)} if scored.three_points else {}
    return {
        "rows": scored.rows,
        "scored": scored.scored,
        **{name: value for name, value in _errors(scored.errors).items() if name != "rows"},
        "unsupported": plain(scored.unsupported),
        **{
            name: _named(getattr(scored, name))
            for name in (
                "by_chip",
                "by_source",
                "by_task",
                "by_kind",
                "by_match",
                "by_distance",
            )
        },
        "memory": _errors(scored.memory),
        "holdout": scored.holdout,
        **three,
        "per_row": plain(scored.per_row),
    }


def _named(groups: tuple[TrainingErrors, ...]) -> dict[str, Plain]:
    return {group.name: _errors(group.errors) for group in groups}


def _errors(errors: ErrorStats) -> dict[str, Plain]:
    return {field.name: getattr(errors, field.name) for field in fields(errors)}


def _table(scored: Accuracy) -> Table:
    rows = [_cells("all", scored.errors)]
    for kind, groups in (("", scored.by_kind), ("", scored.by_chip), ("", scored.by_source)):
        rows += [_cells(kind + group.name, group.errors) for group in groups if group.errors.rows]
    if scored.three_points:
        rows.append(_cells("scalar fitted to three rows", scored.three_points))
    rows.append(_cells("memory", scored.memory))
    reasons: dict[str, int] = {}
    for item in scored.unsupported:
        reasons[item.reason] = reasons.get(item.reason, 0) + 1
    left = [f"unsupported: {count} × {reason}" for reason, count in reasons.items()]
    held = {
        "none": "",
        "groups": ", each group held out of the fit",
        "sources": ", each source held out of the fit",
    }
    notes = (
        f"{scored.scored} of {scored.rows} rows scored{held[scored.holdout]}",
        "in 90 %: share of measured values inside the 90 % interval",
        *_match_notes(scored),
        *_worst_rows(scored),
        *left,
    )
    return Table(
        columns=table_columns("rows of", ">rows", ">mean", ">median", ">p90", ">bias", ">in 90 %"),
        rows=tuple(rows),
        notes=notes,
    )


def _match_notes(scored: Accuracy) -> Iterator[str]:
    """Yield how many rows have a profile of resembling runs, and rows that contradict inputs."""
    meanings = {
        "release": "software profile by framework and date, not fitted to runs of their source",
        "family": "software profile without runs: the family's scalar",
    }
    for match, meaning in meanings.items():
        count = sum(row.match == match for row in scored.per_row)
        if count:
            yield f"{count} rows: {meaning}"
    for row in scored.per_row:
        if row.note:
            yield f"{row.id}: {row.note}"


def _worst_rows(scored: Accuracy, count: int = 5) -> Iterator[str]:
    """Yield an explanation of the rows with the largest errors."""
    rows = [row for row in scored.per_row if row.error is not None and row.interval is not None]
    rows.sort(key=lambda row: -abs(math.log1p(row.error or 0.0)))
    for row in rows[:count]:
        assert row.error is not None
        assert row.interval is not None
        assert row.measured_s is not None
        within = "inside" if row.interval.contains(row.measured_s) else "outside"
        terms = ", ".join(f"{name} {share:.0%}" for name, share in row.terms.items())
        yield (
            f"{row.id}: {row.error:+.0%}, {show(row.predicted_s, DURATION)} predicted,"
            f" {show(row.measured_s, DURATION)} measured, {within} the interval"
            f" ({DISTANCES[row.distance]}); {terms}"
            + ("; no measured run of this kind has a model of this size" if row.new_model else "")
            + (f"; assumed: {row.assumed}" if row.assumed else "")
        )


def _cells(name: str, errors: ErrorStats) -> tuple[str, ...]:
    values = (
        errors.mean_abs_error,
        errors.median_abs_error,
        errors.p90_abs_error,
        errors.bias,
        errors.coverage,
    )
    return (
        name,
        str(errors.rows),
        *("–" if value is None else show(value, RATIO) for value in values),
    )
