"""`gpuyard data profile SOURCE`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from gpuyard.cli.options import add_json, add_option
from gpuyard.home import write_atomic
from gpuyard.report.profile import profile_table, suspicions_table, ties_table
from gpuyard.report.profile_page import profile_page
from gpuyard.report.terminal import print_json, print_table, print_text

FORMATS = ("auto", "parquet", "csv", "tsv", "jsonl", "arrow", "text")
ENCODINGS = ("utf-8", "latin-1", "utf-16")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to measure, and where the page goes."""
    parser.epilog = (
        "examples:\n"
        "  gpuyard data profile sklearn:breast_cancer --label target\n"
        "  gpuyard data profile 'clicks/*.parquet' --label clicked --html clicks.html"
    )
    add_option(parser, "SOURCE", "a file, folder, glob, gs:// or s3:// address, or sklearn:NAME")
    add_option(
        parser, "--label COLUMN", "the column to predict; shows each column's association with it"
    )
    add_option(parser, "--html PATH", "write a page with a plot per column")
    add_option(
        parser,
        "--format",
        "file format, if the name does not show it",
        choices=FORMATS,
        default="auto",
    )
    add_option(
        parser,
        "--encoding",
        "encoding of CSV, JSON lines and text",
        choices=ENCODINGS,
        default="utf-8",
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the profile."""
    from gpuyard.app.profile import profile_source  # needs gpuyard[run]
    from gpuyard.datasets.spec import ReadSpec

    read = ReadSpec(format=arguments.format, encoding=arguments.encoding)
    with _bar() as progress:
        profile = profile_source(arguments.source, arguments.label, read=read, progress=progress)
    if arguments.html:
        write_atomic(arguments.html, profile_page(profile))
    if arguments.json:
        print_json(profile)
        return 0
    for table in (profile_table(profile), ties_table(profile), suspicions_table(profile)):
        if table is not None:
            print_table(table)
    if not profile.findings:
        print_text("no findings")
    if arguments.html:
        print_text(f"wrote {arguments.html}")
    return 0


@contextmanager
def _bar() -> Iterator[Callable[[int, int, str], None]]:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not sys.stderr.isatty()
    ) as bar:
        task = bar.add_task("", total=1)
        yield lambda done, total, what: bar.update(
            task, completed=done, total=total, description=what
        )
