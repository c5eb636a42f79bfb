"""Self-contained HTML pages: no script, font or network; light and dark; readable on a phone."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gpuyard.report.table import Table

LONG_CELL, WIDE_COLUMNS = 48, 10
STYLE = """
:root{color-scheme:light dark;--line:color-mix(in srgb,currentColor 18%,transparent)}
body{font:15px/1.5 system-ui,sans-serif;max-width:82rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.15rem;margin-top:2rem}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;width:100%}
th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid var(--line);white-space:nowrap}
td.number,th.number{text-align:right}.scroll{overflow-x:auto}td.long{white-space:normal;min-width:14rem}
table.wide{font-size:.8rem}table.wide th,table.wide td{padding:.2rem .35rem}
svg{width:100%;height:auto}.drawing{overflow-x:auto;max-width:70rem}.drawing svg{min-width:38rem}
@media(max-width:42rem){.drawing svg{min-width:0;font-size:16px}}
p{max-width:70rem}
ul.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.3rem 1rem;padding:0;font-size:.85rem}
ul.legend i{display:inline-block;width:.8em;height:.8em;margin-right:.35em;border-radius:2px}
pre{white-space:pre-wrap;overflow-wrap:anywhere}
"""


def page(title: str, sections: Sequence[str]) -> str:
    """Build a page from HTML sections."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>\n<h1>{escape(title)}</h1>\n"
        + "\n".join(sections)
        + "\n</body></html>\n"
    )


def html_table(table: Table) -> str:
    """Render a table as HTML."""
    marks = [' class="number"' if column.numeric else "" for column in table.columns]
    head = "".join(
        f"<th{mark}>{escape(column.heading)}</th>"
        for mark, column in zip(marks, table.columns, strict=True)
    )
    rows = "".join(
        "<tr>" + "".join(_cell(cell, mark) for mark, cell in zip(marks, row, strict=True)) + "</tr>"
        for row in table.rows
    )
    wide = ' class="wide"' if len(table.columns) > WIDE_COLUMNS else ""
    notes = "".join(f"<p>{escape(note)}</p>" for note in table.notes)
    return (
        "<div"
        f' class="scroll"><table{wide}><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{notes}"
    )


def _cell(text: str, mark: str) -> str:
    long = not mark and len(text) > LONG_CELL
    kind = ' class="long"' if long else mark
    return f"<td{kind}>{escape(text)}</td>"


def titled(table: Table) -> str:
    """Render a table with its title."""
    return (f"<h3>{escape(table.title)}</h3>" if table.title else "") + html_table(table)
