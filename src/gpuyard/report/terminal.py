"""Terminal output: tables that fit its width, plain text when piped, JSON for scripts."""

from __future__ import annotations

import sys
from typing import Literal

import rich.box
import rich.table
from rich.console import Console
from rich.text import Text

from gpuyard.document.encode import dump_json
from gpuyard.errors import printable
from gpuyard.report.table import STATES, Table

SENTENCE, GAP = 24, 3  # characters of a broken line, and between columns
STYLES = {"good": "green", "active": "cyan", "warn": "yellow", "bad": "bold red"}
PIPE_WIDTH = 10_000  # a pipe has no width: nothing is wrapped, so that grep and awk see whole rows


def print_json(value: object) -> None:
    """Print a value as JSON on standard output."""
    sys.stdout.write(dump_json(value))


def print_text(text: str) -> None:
    """Print text on standard output, without control characters."""
    _write(printable(text))


def _write(text: str) -> None:
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def print_warning(text: str) -> None:
    """Print a warning on standard output, in red on a terminal."""
    safe = printable(text)
    _write(f"\x1b[31m{safe}\x1b[0m" if sys.stdout.isatty() else safe)


def print_progress(done: int, total: int) -> None:
    """Print progress on one line of standard error, only to a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done} of {total} done" if done + 1 < total else "\r\x1b[K")
        sys.stderr.flush()


def print_status(text: str, done: int = 0, total: int = 0, /) -> None:
    """Print the status of long work on standard error, only to a terminal."""
    if sys.stderr.isatty():
        line = f"\r\x1b[K{text}: {done} of {total}" if total else text
        sys.stderr.write(line if done < total else f"{line}\n")
        sys.stderr.flush()


def print_table(table: Table) -> None:
    """Print a table; as cards where the terminal is too narrow for its columns."""
    console = _console()
    widths = [_least_width(table, place) for place in range(len(table.columns))]
    fits = sum(widths) + GAP * len(widths) <= console.width
    console.print(_grid(table, widths) if fits else _cards(table))
    for note in table.notes:
        console.print(_text(note))


def print_result(value: object, shown: Table | str, *, as_json: bool) -> None:
    """Print a value as JSON, or else its table or text."""
    if as_json:
        print_json(value)
    elif isinstance(shown, Table):
        print_table(shown)
    else:
        print_text(shown)


def _least_width(table: Table, place: int) -> int:
    """Width a column needs: its longest word, limited for sentences."""
    cells = [table.columns[place].heading, *(row[place] for row in table.rows)]
    longest = max(len(word) for cell in cells for word in (cell.split() or [""]))
    whole = max(len(cell) for cell in cells)
    return whole if whole <= SENTENCE else max(longest, SENTENCE)


def _grid(table: Table, widths: list[int]) -> rich.table.Table:
    grid = rich.table.Table(
        box=rich.box.SIMPLE_HEAD, title=_title(table), title_justify="left", pad_edge=False
    )
    for column, width in zip(table.columns, widths, strict=True):
        justify: Literal["left", "right"] = "right" if column.numeric else "left"
        grid.add_column(_text(column.heading), justify=justify, overflow="fold", min_width=width)
    for row in table.rows:
        grid.add_row(*(_text(cell) for cell in row))
    return grid


def _text(cell: str) -> Text:
    style = STYLES.get(STATES.get(cell, ""), "")
    return Text(printable(cell), style=style)  # Text: a name with [brackets] is not markup


def _title(table: Table) -> Text | None:
    return _text(table.title) if table.title else None


def _cards(table: Table) -> rich.table.Table:
    """Every row as a list of headings and values, without empty ones."""
    grid = rich.table.Table(box=None, title=_title(table), title_justify="left", show_header=False)
    grid.add_column(overflow="fold")
    grid.add_column(overflow="fold")
    for row in table.rows:
        for column, cell in zip(table.columns, row, strict=True):
            if cell:
                grid.add_row(_text(column.heading), _text(cell))
        grid.add_row("", "")
    return grid


class _Console(Console):
    """Standard output; a closed pipe is left to the caller."""

    def on_broken_pipe(self) -> None:
        """Let the error through, where rich would exit with 1."""
        raise BrokenPipeError


def _console() -> Console:
    return (
        _Console(file=sys.stdout)
        if sys.stdout.isatty()
        else _Console(file=sys.stdout, width=PIPE_WIDTH)
    )
