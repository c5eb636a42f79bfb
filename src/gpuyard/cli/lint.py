"""`gpuyard lint FILE...`."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpuyard.app.lint import lint_files
from gpuyard.cli.exits import EXIT_DONE, EXIT_WRONG_INPUT
from gpuyard.cli.options import add_catalog, add_json, catalog_layers
from gpuyard.errors import InputError, one_of
from gpuyard.provision import Lint
from gpuyard.provision.invariants import INVARIANTS, Reach
from gpuyard.report import Column, Table, print_json, print_table, print_text

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = (
        "examples:\n  gpuyard lint jobset.yaml networks.yaml queue.yaml\n"
        "  gpuyard lint train.sbatch\n"
        "  gpuyard lint body.json --as compute.instances.insert\n"
        "files of one deployment belong together: rules between them look at all of them\n"
        "exit codes: 0 no error, 2 an error (with --strict also a warning)"
    )
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE", help="manifests, bodies, blueprints, scripts")
    parser.add_argument(
        "--as", dest="given", default="", metavar="NAME", help="what a JSON body is: a method or schema"
    )
    parser.add_argument("--strict", action="store_true", help="a warning counts as an error")
    parser.add_argument("--rules", action="store_true", help="list the rules and stop")
    add_catalog(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints what is wrong."""
    if arguments.rules:
        _print_rules(arguments.json)
        return EXIT_DONE
    if not arguments.files:
        raise InputError.one("gpuyard lint", "no file is given", "name the files of one deployment, or its folder")
    found = lint_files(arguments.files, catalog_layers(arguments), arguments.given)
    if arguments.json:
        print_json(
            {"sound": found.is_sound, "parts": found.parts, "findings": found.findings, "fabrics": found.fabrics}
        )
    else:
        _print(found)
    bad = found.errors or (arguments.strict and found.warnings)
    return EXIT_WRONG_INPUT if bad else EXIT_DONE


def _print(found: Lint) -> None:
    """Findings, then the fabrics, then the count."""
    for finding in found.findings:
        print_text(str(finding))
    for reach in found.fabrics:
        print_text(_answer(reach))
    files = len({part.file for part in found.parts})
    kinds = one_of(tuple(dict.fromkeys(part.type for part in found.parts)), limit=6).replace(" or ", ", ")
    notes = len(found.findings) - len(found.errors) - len(found.warnings)
    counts = f"{len(found.errors)} errors, {len(found.warnings)} warnings, {notes} notes"
    print_text(f"{files} files, {len(found.parts)} documents ({kinds}): {counts}")


def _answer(reach: Reach) -> str:
    """Does this workload get its fabric?"""
    machine = f" on {reach.machine}" if reach.machine else ""
    total = len(reach.met) + len(reach.missing)
    head = f"fabric: {reach.workload}{machine}: gets {reach.fabric}: {reach.verdict}"
    if not reach.missing:
        return f"{head} ({total} of {total} needs are met)"
    missing = "".join(f"\n  missing: {name}" for name in reach.missing)
    return f"{head} ({len(reach.met)} of {total} needs are met){missing}"


def _print_rules(as_json: bool) -> None:
    """The table of rules."""
    rows = tuple((rule.name, rule.applies_to, rule.holds, rule.source) for rule in INVARIANTS)
    if as_json:
        keys = ("name", "applies_to", "holds", "source")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    columns = tuple(Column(heading=heading) for heading in ("rule", "applies to", "what must hold", "source"))
    print_table(
        Table(columns=columns, rows=rows, notes=(f"{len(rows)} rules, beside the schemas and their CEL rules",))
    )
