"""`gpuyard schema`."""

from __future__ import annotations

import argparse

from gpuyard.cli.options import add_option
from gpuyard.report.terminal import print_json
from gpuyard.workload.schema import workload_schema


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "for editors:\n  gpuyard schema > workload.schema.json\n  and as the first line of a"
        " workload file:  # yaml-language-server: $schema=workload.schema.json"
    )
    add_option(parser, "--json", "print JSON (always on)")


def run(_arguments: argparse.Namespace) -> int:
    """Print the schema."""
    print_json(workload_schema())
    return 0
