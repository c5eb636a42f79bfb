"""Addresses and what answers them, a row each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape

from gpuyard.jobs.ledger import Ledger
from gpuyard.registry.registry import Registry
from gpuyard.report.runs import runs_table
from gpuyard.report.table import Table, table_columns
from gpuyard.serving.live_metrics import live_endpoints
from gpuyard.web.catalog_view import catalog_kind_view, catalog_row_view, catalog_view
from gpuyard.web.comparison_view import plan_comparison_view, run_comparison_view
from gpuyard.web.data_view import data_set_view, data_view
from gpuyard.web.fabric_view import device_view, fabric_view
from gpuyard.web.models_view import endpoints_view, model_view, models_view
from gpuyard.web.planner_view import planned_view, planner_file, planner_view
from gpuyard.web.plans_view import plan_file, plan_view, plans_html, plans_view
from gpuyard.web.profile_view import profile_view
from gpuyard.web.runs_view import log_file, log_view, run_view, runs_view
from gpuyard.web.view import (
    Download,
    Fragment,
    Maker,
    PageRequest,
    WebPage,
    home_key,
    link,
    linked_table,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRoute:
    """An address with its words, and the page behind it."""

    pattern: re.Pattern[str]
    make: Maker


def overview(request: PageRequest) -> WebPage:
    """What there is, and what runs now."""
    home = request.home
    runs, names, services = (
        Ledger(home=home).runs(),
        Registry(home=home).names(),
        live_endpoints(home),
    )
    running = sum(run.state == "running" for run in runs)
    cards = (
        (len(list((home.path / "up").glob("*/up.json"))), "/plans", "plans"),
        (len(list(home.data.glob("*/manifest.json"))), "/data", "data sets"),
        (len(runs), "/runs", f"runs, {running} running"),
        (len(names), "/models", "models"),
        (
            len({row.service for row in services if row.state == "running"}),
            "/endpoints",
            "services running",
        ),
    )
    body = "".join(
        f'<div class="card"><b>{count}</b>{link(address, words)}</div>'
        for count, address, words in cards
    )
    newest = runs[:10]
    table = ""
    if newest:
        shown = linked_table(runs_table(newest), [f"/runs/{run.id}" for run in newest])
        table = f"<h2>Newest runs</h2>{shown}"
    plans = f"<h2>Newest plans</h2>{plans_html(home, 10)}"
    start = (
        f'<p class="buttons">{link("/planner", "Plan a workload")}'
        f"{link('/planner?task=inference', 'Plan a service')}</p>"
    )
    return WebPage(
        title="Overview",
        fragments=(
            Fragment(id="cards", html=f'<div class="cards">{body}</div>'),
            Fragment(id="start", html=start),
            Fragment(id="newest", html=table),
            Fragment(id="plans", html=plans),
            Fragment(id="homes", html=_homes(request)),
        ),
    )


def _homes(request: PageRequest) -> str:
    """The other state directories of this user, to change to."""
    if len(request.homes) < 2:
        return f"<h2>State directory</h2><p>{escape(str(request.home.path.resolve()))}</p>"
    rows = tuple(
        (
            str(home.path),
            f"{len(list((home.path / 'up').glob('*/up.json')))}",
            f"{len(list(home.runs.glob('*/run.json')))}",
            "shown" if home == request.home else "",
        )
        for home in request.homes
    )
    headings = ("state directory", "plans", "runs", "")
    table = Table(
        columns=table_columns(*headings, numeric=headings[1:3]),
        rows=rows,
    )
    addresses = [f"/home?key={home_key(home)}" for home in request.homes]
    return f"<h2>State directories</h2>{linked_table(table, addresses)}"


_WORD = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
ROUTES: tuple[PageRoute, ...] = tuple(
    PageRoute(pattern=re.compile(pattern), make=make)
    for pattern, make in (
        (r"/", overview),
        (r"/planner", planner_view),
        (r"/compare/plans", plan_comparison_view),
        (r"/compare/runs", run_comparison_view),
        (r"/plans", plans_view),
        (rf"/plans/(?P<name>{_WORD})/fabric", fabric_view),
        (rf"/plans/(?P<name>{_WORD})/fabric/device", device_view),
        (rf"/plans/(?P<name>{_WORD})", plan_view),
        (r"/data", data_view),
        (rf"/data/(?P<name>{_WORD})", data_set_view),
        (rf"/data/(?P<name>{_WORD})/profile", profile_view),
        (r"/runs", runs_view),
        (rf"/runs/(?P<id>{_WORD})", run_view),
        (rf"/runs/(?P<id>{_WORD})/logs/(?P<stage>{_WORD})", log_view),
        (r"/models", models_view),
        (rf"/models/(?P<name>{_WORD})", model_view),
        (r"/endpoints", endpoints_view),
        (r"/catalog", catalog_view),
        (rf"/catalog/(?P<kind>{_WORD})", catalog_kind_view),
        (rf"/catalog/(?P<kind>{_WORD})/row", catalog_row_view),
    )
)


def found_route(path: str) -> tuple[Maker, dict[str, str]] | None:
    """What answers an address, and its words."""
    for route in ROUTES:
        if match := route.pattern.fullmatch(path):
            return route.make, match.groupdict()
    return None


DOWNLOADS: tuple[tuple[re.Pattern[str], Callable[[PageRequest], Download]], ...] = (
    (re.compile(rf"/plans/(?P<name>{_WORD})/files/(?P<file>{_WORD})"), plan_file),
    (re.compile(rf"/runs/(?P<id>{_WORD})/logs/(?P<stage>{_WORD})\.txt"), log_file),
)
_DRAWING = re.compile(rf"/plans/(?P<name>{_WORD})/fabric/(?P<drawing>drawing|hall)")
_PLANNED_FILE = re.compile(rf"/planner/(?P<file>(?!start){_WORD})")
Computation = Callable[[PageRequest, Mapping[str, str]], WebPage | Download]


def find_download(path: str) -> tuple[Callable[[PageRequest], Download], dict[str, str]] | None:
    """What makes the file of an address, and its words."""
    for pattern, make in DOWNLOADS:
        if match := pattern.fullmatch(path):
            return make, match.groupdict()
    return None


def drawn_fabric(path: str) -> dict[str, str]:
    """The words of the address of a fabric's drawing; empty for other addresses."""
    match = _DRAWING.fullmatch(path)
    return match.groupdict() if match else {}


def find_computation(path: str) -> Computation | None:
    """What answers a form that changes nothing; None for an action."""
    if path == "/planner":
        return planned_view
    if match := _PLANNED_FILE.fullmatch(path):
        return lambda request, form: planner_file(request, form, match["file"])
    return None
