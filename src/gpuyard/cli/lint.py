"""`gpuyard lint FILE...`."""

from __future__ import annotations

import argparse

from gpuyard.app.lint import lint_files
from gpuyard.cli.options import add_catalog, add_json, add_option, catalog_of
from gpuyard.errors import EXIT_OK, EXIT_WRONG_INPUT, InputError, choices_text
from gpuyard.provision.invariants.gpudirect import FabricAccess
from gpuyard.provision.invariants.rules import INVARIANTS
from gpuyard.provision.lint import LintResult
from gpuyard.report.lint_formats import junit_text, sarif_text
from gpuyard.report.table import Table, table_columns
from gpuyard.report.terminal import print_json, print_table, print_text

FORMATS = ("text", "json", "sarif", "junit")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n  gpuyard lint jobset.yaml networks.yaml queue.yaml\n"
        "  gpuyard lint train.sbatch\n"
        "  gpuyard lint body.json --as compute.instances.insert\n"
        "  gpuyard lint deploy/ 'clusters/**/*.yaml' --format sarif\n"
        "named files are deployed together, and so are the files of each folder; files of an "
        "unknown kind are skipped with a note\n"
        "exit codes: 0 no error, 2 an error (with --strict also a warning)"
    )
    add_option(parser, "files FILE*", "manifests, bodies, blueprints, scripts")
    add_option(parser, "--as NAME", "API method or schema of a JSON body", dest="given", default="")
    add_option(parser, "--strict", "treat warnings as errors")
    add_option(
        parser,
        "--format",
        "output format; sarif and junit are for CI",
        choices=FORMATS,
        default="text",
    )
    add_option(parser, "--rules", "list the rules and stop")
    add_catalog(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the findings."""
    if arguments.rules:
        _print_rules(arguments.json)
        return EXIT_OK
    if not arguments.files:
        raise InputError.one(
            "gpuyard lint", "no file is given", "name the files of one deployment, or its folder"
        )
    result = lint_files(arguments.files, catalog_of(arguments), arguments.given)
    if arguments.format == "sarif":
        print_text(sarif_text(result))
    elif arguments.format == "junit":
        print_text(junit_text(result, strict=arguments.strict))
    elif arguments.json or arguments.format == "json":
        print_json(
            {
                "sound": not result.has_errors,
                "parts": result.documents,
                "findings": result.findings,
                "fabrics": result.fabrics,
                "ignored_count": result.ignored_count,
            }
        )
    else:
        _print(result)
    bad = result.errors or (arguments.strict and result.warnings)
    return EXIT_WRONG_INPUT if bad else EXIT_OK


def _print(result: LintResult) -> None:
    for finding in result.findings:
        print_text(str(finding))
    for reach in result.fabrics:
        print_text(_answer(reach))
    files = len({part.file for part in result.documents})
    kinds = choices_text(
        tuple(dict.fromkeys(part.type for part in result.documents)), limit=6
    ).replace(" or ", ", ")
    notes = len(result.findings) - len(result.errors) - len(result.warnings)
    counts = f"{len(result.errors)} errors, {len(result.warnings)} warnings, {notes} notes"
    if result.ignored_count:
        counts += f", {result.ignored_count} ignored by comments"
    print_text(f"{files} files, {len(result.documents)} documents ({kinds}): {counts}")


def _answer(reach: FabricAccess) -> str:
    machine = f" on {reach.machine}" if reach.machine else ""
    total = len(reach.met) + len(reach.missing)
    head = f"fabric: {reach.workload}{machine}: gets {reach.fabric}: {reach.verdict}"
    if not reach.missing:
        return f"{head} ({total} of {total} requirements are met)"
    missing = "".join(f"\n  missing: {name}" for name in reach.missing)
    return f"{head} ({len(reach.met)} of {total} requirements are met){missing}"


def _print_rules(as_json: bool) -> None:
    rows = tuple((rule.name, rule.applies_to, rule.holds, rule.source) for rule in INVARIANTS)
    if as_json:
        keys = ("name", "applies_to", "holds", "source")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    columns = table_columns("rule", "applies to", "what must hold", "source")
    print_table(
        Table(
            columns=columns,
            rows=rows,
            notes=(f"{len(rows)} rules, in addition to the schemas and their CEL rules",),
        )
    )
