"""`gpuyard preflight DIR`."""

from __future__ import annotations

import argparse
import collections

from gpuyard.app.apply import ExternalServices, connect, prepare
from gpuyard.app.preflight import PreflightResult, preflight
from gpuyard.cli.options import add_catalog, add_json, add_option, catalog_of
from gpuyard.document.read import read_text
from gpuyard.errors import EXIT_EXTERNAL_ERROR, EXIT_OK
from gpuyard.provision.admission.cluster_state import COMMAND as KUBERNETES_COMMAND
from gpuyard.provision.admission.slurm import COMMAND as SLURM_COMMAND
from gpuyard.report.table import Table, table_columns
from gpuyard.report.terminal import print_json, print_status, print_table, print_text

MOST_CLUSTER_BYTES = 1 << 30  # thousands of pods, each with its status


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n  gpuyard preflight deploy\n  gpuyard preflight deploy --cluster cluster.json"
        f"\nwhere cluster.json is saved by\n  {KUBERNETES_COMMAND}\nor, for Slurm,\n"
        f"  {SLURM_COMMAND}"
    )
    add_option(parser, "DIR", "the rendered folder")
    add_option(
        parser,
        "--cluster FILE",
        "saved state of a Kubernetes or Slurm cluster: is the job admitted and placed?",
    )
    add_option(
        parser, "--context NAME", "kubectl context; default: the created cluster", default=""
    )
    add_catalog(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print one table of checks; nothing is changed."""
    prepared = prepare(arguments.dir, arguments.context)
    world = ExternalServices(
        endpoint=connect(is_needed=prepared.needs_google),
        on_progress=(lambda _: None) if arguments.json else print_status,
    )
    cluster = read_text(arguments.cluster, MOST_CLUSTER_BYTES) if arguments.cluster else ""
    result = preflight(prepared, world, catalog_of(arguments), cluster)
    if arguments.json:
        print_json(result)
    else:
        _print(result)
    return EXIT_EXTERNAL_ERROR if result.has_failures else EXIT_OK


def _print(result: PreflightResult) -> None:
    columns = table_columns("check", "subject", "result", "finding")
    rows = tuple(
        (row.check, row.subject, row.verdict, row.what + (f"\nfix: {row.fix}" if row.fix else ""))
        for row in result.rows
    )
    print_table(Table(columns=columns, rows=rows))
    counts = collections.Counter(row.verdict for row in result.rows)
    print_text(
        f"{counts['failed']} failed, {counts['warning']} warnings, {counts['unknown']} unknown,"
        f" {counts['ok']} ok; nothing was changed"
    )
