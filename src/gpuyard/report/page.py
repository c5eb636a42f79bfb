"""Self-contained HTML pages: no script, font or network; light and dark; readable on a phone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path

from gpuyard.report.table import STATES, Table

LONG_CELL, WIDE_COLUMNS = 48, 10


@cache
def asset(name: str) -> str:
    """Return a stylesheet or script of the pages, as an element of the page."""
    text = (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8")
    tag = "style" if name.endswith(".css") else "script"
    return f"<{tag}>\n{text}</{tag}>"


def headline(text: str) -> str:
    """The answer of a page, as its first line."""
    return f'<p class="headline">{escape(text)}</p>'


def page(title: str, sections: Sequence[str], stamp: str = "") -> str:
    """Build a page from HTML sections; `stamp` states the version and the date."""
    below = f'<p class="stamp">{escape(stamp)}</p>\n' if stamp else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title>{asset('page.css')}</head><body>\n<main>"
        f"<h1>{escape(title)}</h1>\n"
        + below
        + "\n".join(sections)
        + f"\n</main>{asset('tables.js')}</body></html>\n"
    )


def html_table(table: Table) -> str:
    """Render a table as HTML."""
    marks = [' class="number"' if column.numeric else "" for column in table.columns]
    head = "".join(
        f"<th{mark}>{escape(column.heading)}</th>" if column.heading else "<td></td>"
        for mark, column in zip(marks, table.columns, strict=True)
    )
    rows = "".join(
        "<tr>" + "".join(_cell(cell, mark) for mark, cell in zip(marks, row, strict=True)) + "</tr>"
        for row in table.rows
    )
    wide = ' class="wide"' if len(table.columns) > WIDE_COLUMNS else ""
    notes = "".join(f"<p>{escape(note)}</p>" for note in table.notes)
    notes = f'<div class="notes">{notes}</div>' if notes else ""
    return (
        "<div"
        f' class="scroll"><table{wide}><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{notes}"
    )


def _cell(text: str, mark: str) -> str:
    long = not mark and len(text) > LONG_CELL
    kind = ' class="long"' if long else mark
    if state := STATES.get(text):
        kind = f' class="{state}"'
    return f"<td{kind}>{escape(text)}</td>"


def titled(table: Table) -> str:
    """Render a table with its title."""
    return (f"<h3>{escape(table.title)}</h3>" if table.title else "") + html_table(table)
