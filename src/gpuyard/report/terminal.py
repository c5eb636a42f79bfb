"""Printing to the terminal: tables that fit its width, plain text when piped, JSON for scripts."""

from __future__ import annotations

import sys

import rich.box
import rich.table
from rich.console import Console
from rich.text import Text

from gpuyard.document import dump_json
from gpuyard.report.table import Table

__all__ = ["print_doing", "print_json", "print_progress", "print_table", "print_text"]

PIPE_WIDTH = 10_000  # a pipe has no width: nothing is wrapped, so that grep and awk see whole rows


def print_json(value: object) -> None:
    """The value as JSON on standard output."""
    sys.stdout.write(dump_json(value))


def print_text(text: str) -> None:
    """The text on standard output, as it is."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def print_progress(done: int, total: int) -> None:
    """How far long work is, on standard error, one line that rewrites itself; silent when nobody looks."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done} of {total} done" if done + 1 < total else "\r\x1b[K")
        sys.stderr.flush()


def print_doing(text: str) -> None:
    """What long work has come to, on standard error; silent when nobody looks."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def print_table(table: Table) -> None:
    """The table on standard output."""
    console = _console()
    grid = rich.table.Table(box=rich.box.SIMPLE_HEAD, title=table.title or None, title_justify="left", pad_edge=False)
    for column in table.columns:
        grid.add_column(Text(column.heading), justify="right" if column.numeric else "left", overflow="fold")
    for row in table.rows:
        grid.add_row(*(Text(cell) for cell in row))  # Text: a name with [brackets] is not markup
    console.print(grid)
    for note in table.notes:
        console.print(Text(note))


class _Console(Console):
    """Standard output; a reader that leaves early is told to the caller, who knows that it is no error."""

    def on_broken_pipe(self) -> None:
        """Lets the error through, where rich would exit with 1."""
        raise BrokenPipeError


def _console() -> Console:
    """Standard output with its width."""
    return _Console(file=sys.stdout) if sys.stdout.isatty() else _Console(file=sys.stdout, width=PIPE_WIDTH)
