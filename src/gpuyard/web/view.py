"""Parts of a page: server-rendered HTML; names and contents are always escaped."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from urllib.parse import quote

from gpuyard.home import Home
from gpuyard.report.page import html_table
from gpuyard.report.table import Table

NAVIGATION = (
    ("/", "Overview"), ("/planner", "Planner"), ("/plans", "Plans"), ("/data", "Data"),
    ("/runs", "Runs"), ("/models", "Models"), ("/endpoints", "Endpoints"), ("/catalog", "Catalog"),
)  # fmt: skip


_PLOT = re.compile(r'<svg (?!class="mark").*?</svg>', re.DOTALL)  # not the marks of a legend


class NotFoundError(Exception):
    """There is nothing under this address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """Input of a page: state directory, parts of its address, and whether actions are allowed."""

    home: Home
    words: Mapping[str, str] = field(default_factory=dict)
    acts: bool = False
    query: Mapping[str, str] = field(default_factory=dict)
    homes: tuple[Home, ...] = ()  # every state directory that the server shows


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """A file that the browser saves."""

    name: str
    kind: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """A part of a page that is sent again when it has changed."""

    id: str
    html: str

    @property
    def mark(self) -> str:
        return hashlib.blake2b(self.html.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPage:
    """A page: title and fragments; a page that does not change while open is not live."""

    title: str
    fragments: tuple[Fragment, ...]
    is_live: bool = True
    above: tuple[str, str] | None = None  # the page that this one belongs to: address and name
    scripts: tuple[str, ...] = ()  # assets, after those of every page
    values: Mapping[str, str] = field(default_factory=dict)  # of the form, for its script


def home_key(home: Home) -> str:
    """A short name of a state directory, for a cookie."""
    return hashlib.blake2b(str(home.path.resolve()).encode(), digest_size=6).hexdigest()


Maker = Callable[[PageRequest], WebPage]


def link(address: str, words: str) -> str:
    """A link; both are escaped."""
    return f'<a href="{escape(quote(address, safe="/?=&@#:."))}">{escape(words)}</a>'


def linked_table(table: Table, addresses: Sequence[str]) -> str:
    """The table with the first cell of every row as a link, where it has an address."""
    places = iter(zip(table.rows, addresses, strict=True))

    def linked(match: re.Match[str]) -> str:
        row, address = next(places)
        return f"<tr>{match[1]}{link(address, row[0])}</td>" if address else match[0]

    return re.sub(r"<tr>(<td[^>]*>).*?</td>", linked, html_table(table), flags=re.DOTALL)


def plots(html: str) -> str:
    """HTML whose drawings scroll in their own frames, to stay readable on a phone."""
    return _PLOT.sub(r'<div class="scroll plot">\g<0></div>', html)


def empty_note(words: str, command: str) -> str:
    """What a page says when there is nothing yet, and the command that changes it."""
    return f'<p class="empty">{escape(words)}<br><code>{escape(command)}</code></p>'


def options_html(choices: Sequence[str], chosen: str = "") -> str:
    """The options of a select element."""
    return "".join(
        f"<option{' selected' if choice == chosen else ''}>{escape(choice)}</option>"
        for choice in choices
    )


def page_html(view: WebPage, path: str, home: Home | None = None) -> str:
    """The whole page: navigation, fragments, and the script that keeps them fresh."""
    links = "".join(
        f'<a href="{address}"{_current(address, path)}>{escape(words)}</a>'
        for address, words in NAVIGATION
    )
    parts = "".join(
        f'<section id="{escape(part.id)}" data-mark="{part.mark}">{part.html}</section>'
        for part in view.fragments
    )
    above = f'<p class="above">{link(*view.above)}</p>' if view.above else ""
    scripts = "".join(
        f'<script src="/assets/{name}" defer></script>'
        for name in ("live.js", "tables.js", *view.scripts)
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>{escape(view.title)} · gpuyard</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="/assets/style.css">{scripts}</head>
<body{" data-live" if view.is_live else ""}>
<a class="skip" href="#main">Skip to the content</a>
<header><strong>gpuyard</strong><nav aria-label="Pages">{links}</nav>{_place(home)}
<span id="state" role="status"></span></header>
<main id="main" tabindex="-1">{above}<h1>{escape(view.title)}</h1>{parts}</main>
</body></html>
"""


def _place(home: Home | None) -> str:
    """The state directory that the page shows, as a link to all of them."""
    if home is None:
        return ""
    path = home.path.resolve()
    folder = path.parent if path.name == ".gpuyard" else path
    return f'<a class="home" href="/#homes" title="{escape(str(path))}">{escape(folder.name)}</a>'


def _current(address: str, path: str) -> str:
    here = path == "/" if address == "/" else path == address or path.startswith(f"{address}/")
    return ' aria-current="page"' if here else ""
