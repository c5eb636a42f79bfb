"""`gpuyard sweep --project ID`."""

from __future__ import annotations

import argparse
import re

from gpuyard.app.apply import ExternalServices, connect, remove_swept, sweep_project
from gpuyard.cli.apply import print_removals, print_to_stderr
from gpuyard.cli.options import add_json, add_option
from gpuyard.errors import EXIT_OK, InputError
from gpuyard.provision.apply.sweep import SweepResult
from gpuyard.report.table import Table, table_columns
from gpuyard.report.terminal import print_json, print_table, print_text

PLAN = re.compile(r"[0-9a-f]{16,64}")  # a shorter one would match other plans


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n  gpuyard sweep --project my-project --region us-central1\n"
        "  gpuyard sweep --project my-project --plan 0123456789abcdef --destroy --yes\n"
        "finds resources by the labels that gpuyard sets; needs no journal"
    )
    add_option(parser, "--project ID", "Google Cloud project", required=True)
    add_option(
        parser,
        "--region NAME...",
        "also search Vertex AI and Cloud Run in this region (repeatable)",
    )
    add_option(parser, "--plan HASH", "only resources of this plan", default="")
    add_option(parser, "--expired", "only resources whose TTL has expired")
    add_option(
        parser, "--destroy", "delete the listed resources; needs --plan or --expired, and --yes"
    )
    add_option(parser, "--yes", "confirm --destroy")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print leftover resources, and delete them once confirmed."""
    if arguments.destroy and not (arguments.plan or arguments.expired):
        raise InputError.one(
            "--destroy",
            "would delete resources of other plans",
            "name one plan with --plan, or add --expired",
        )
    if arguments.plan and not PLAN.fullmatch(arguments.plan):
        fix = "write the 16 digits of the label plan-hash, or the whole hash"
        raise InputError.one("--plan", f'"{arguments.plan}" is not the hash of a plan', fix)
    world = ExternalServices(endpoint=connect(), on_progress=print_to_stderr)
    result = sweep_project(
        world,
        arguments.project,
        tuple(arguments.region),
        plan=arguments.plan,
        expired=arguments.expired,
    )
    if not arguments.destroy:
        if arguments.json:
            print_json(result)
        else:
            _print(result, arguments.project)
        return EXIT_OK
    if not arguments.yes:
        _print(result, arguments.project)
        raise InputError.one("--yes", "is missing: nothing was deleted", "add --yes")
    return print_removals(remove_swept(world, result), arguments.json)


def _print(result: SweepResult, project: str) -> None:
    names = ("kind", "name", "where", "owner", "plan", "until")
    rows = tuple(
        (
            item.kind,
            item.name,
            item.location,
            item.labels.owner,
            item.labels.plan_hash,
            item.labels.expires + (" (expired)" if item.is_expired else ""),
        )
        for item in result.leftovers
    )
    if rows:
        print_table(Table(columns=table_columns(*names), rows=rows))
    print_text(f"{len(rows)} resources in {project} have gpuyard labels")
    for line in result.unread:
        print_text(f"not searched: {line}")
