"""`gpuyard schema`."""

from __future__ import annotations

import argparse

from gpuyard.report import print_json
from gpuyard.workload import workload_schema

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = (
        "for editors:\n"
        "  gpuyard schema > workload.schema.json\n"
        "  and as the first line of a workload file:  # yaml-language-server: $schema=workload.schema.json"
    )
    parser.add_argument("--json", action="store_true", help="print JSON (it always does)")


def run(_arguments: argparse.Namespace) -> int:
    """Prints the schema."""
    print_json(workload_schema())
    return 0
