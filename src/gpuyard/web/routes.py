"""Addresses and what answers them, a row each."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuyard.jobs.ledger import Ledger
from gpuyard.registry.registry import Registry
from gpuyard.report.runs import runs_table
from gpuyard.serving.live_metrics import live_endpoints
from gpuyard.web.data_view import catalog_kind_view, catalog_view, data_set_view, data_view
from gpuyard.web.models_view import endpoints_view, model_view, models_view
from gpuyard.web.plans_view import plan_view, plans_view
from gpuyard.web.profile_view import profile_view
from gpuyard.web.runs_view import run_view, runs_view
from gpuyard.web.view import Fragment, Maker, PageRequest, WebPage, empty_note, link, linked_table


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
    table = empty_note("No run yet. The first one:", "gpuyard up examples/quickstart/workload.yaml")
    if newest:
        table = linked_table(runs_table(newest), [f"/runs/{run.id}" for run in newest])
    return WebPage(
        title="Overview",
        fragments=(
            Fragment(id="cards", html=f'<div class="cards">{body}</div>'),
            Fragment(id="newest", html=f"<h2>Newest runs</h2>{table}"),
        ),
    )


_WORD = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
ROUTES: tuple[PageRoute, ...] = tuple(
    PageRoute(pattern=re.compile(pattern), make=make)
    for pattern, make in (
        (r"/", overview),
        (r"/plans", plans_view),
        (rf"/plans/(?P<name>{_WORD})", plan_view),
        (r"/data", data_view),
        (rf"/data/(?P<name>{_WORD})", data_set_view),
        (rf"/data/(?P<name>{_WORD})/profile", profile_view),
        (r"/runs", runs_view),
        (rf"/runs/(?P<id>{_WORD})", run_view),
        (r"/models", models_view),
        (rf"/models/(?P<name>{_WORD})", model_view),
        (r"/endpoints", endpoints_view),
        (r"/catalog", catalog_view),
        (rf"/catalog/(?P<kind>{_WORD})", catalog_kind_view),
    )
)


def found_route(path: str) -> tuple[Maker, dict[str, str]] | None:
    """What answers an address, and its words."""
    for route in ROUTES:
        if match := route.pattern.fullmatch(path):
            return route.make, match.groupdict()
    return None
