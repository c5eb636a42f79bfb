"""`gpuyard sweep --project ID`."""

from __future__ import annotations

import argparse

from gpuyard.app.apply import World, connect, remove_swept, sweep_project
from gpuyard.cli.apply import print_removals, tell
from gpuyard.cli.exits import EXIT_DONE
from gpuyard.cli.options import add_json
from gpuyard.errors import InputError
from gpuyard.provision.apply import Swept
from gpuyard.report import Column, Table, print_json, print_table, print_text

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = (
        "examples:\n  gpuyard sweep --project my-project --region us-central1\n"
        "  gpuyard sweep --project my-project --plan 0123456789abcdef --destroy --yes\n"
        "it looks for the labels that gpuyard puts on everything, and needs no journal"
    )
    parser.add_argument("--project", required=True, metavar="ID", help="Google Cloud project")
    parser.add_argument(
        "--region", action="append", default=[], metavar="NAME", help="also Vertex AI and Cloud Run there (repeat)"
    )
    parser.add_argument("--plan", default="", metavar="HASH", help="only what is of this plan")
    parser.add_argument("--expired", action="store_true", help="only what its label says should be gone")
    parser.add_argument("--destroy", action="store_true", help="remove it; needs --plan or --expired, and --yes")
    parser.add_argument("--yes", action="store_true", help="confirms --destroy")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints what stands, and removes it where that was confirmed."""
    if arguments.destroy and not (arguments.plan or arguments.expired):
        raise InputError.one(
            "--destroy", "would remove what others made", "name one plan with --plan, or add --expired"
        )
    world = World(endpoint=connect(), tell=tell)
    found = sweep_project(
        world, arguments.project, tuple(arguments.region), plan=arguments.plan, expired=arguments.expired
    )
    if not arguments.destroy:
        print_json(found) if arguments.json else _print(found, arguments.project)
        return EXIT_DONE
    if not arguments.yes:
        _print(found, arguments.project)
        raise InputError.one("--yes", "is missing: nothing was removed", "add --yes")
    return print_removals(remove_swept(world, found), arguments.json)


def _print(found: Swept, project: str) -> None:
    """The table of what stands."""
    names = ("kind", "name", "where", "owner", "plan", "until")
    rows = tuple(
        (
            item.kind, item.name, item.location, item.stamp.owner, item.stamp.plan_hash,
            item.stamp.expires + (" (past)" if item.is_expired else ""),
        )
        for item in found.leftovers
    )  # fmt: skip
    if rows:
        print_table(Table(columns=tuple(Column(heading=name) for name in names), rows=rows))
    print_text(f"{len(rows)} resources in {project} carry the labels of gpuyard")
    for line in found.unseen:
        print_text(f"not seen: {line}")
