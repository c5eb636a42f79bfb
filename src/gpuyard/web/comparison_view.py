"""Two plans, or two runs, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from gpuyard.app.up_results import planned_of, results_of
from gpuyard.errors import InputError
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.metrics import series
from gpuyard.jobs.records import Run
from gpuyard.report.page import html_table
from gpuyard.report.plan_tables import comparison
from gpuyard.report.run import compared_curves
from gpuyard.report.runs import compared_runs_table
from gpuyard.web.plans_view import plan_folder, plan_names
from gpuyard.web.view import Fragment, NotFoundError, PageRequest, WebPage, options_html, plots

TOP = 8


def plan_comparison_view(request: PageRequest) -> WebPage:
    """Two plans: the first options of each, and their rank in the other."""
    names = plan_names(request.home)
    chosen = _chosen(request, names)
    plans = [planned_of(plan_folder(request.home, name)).plan for name in chosen]
    known = [(name, plan) for name, plan in zip(chosen, plans, strict=True) if plan is not None]
    body = "<p>Choose two workloads that have been planned.</p>"
    if len(known) == 2:
        body = html_table(comparison([name for name, _ in known], [plan for _, plan in known], TOP))
    return _page("Compare plans", _form(names, chosen) + body, ("/plans", "Plans"))


def run_comparison_view(request: PageRequest) -> WebPage:
    """Two runs: their scores, times and curves."""
    ledger = Ledger(home=request.home)
    names = [run.id for run in ledger.runs()]
    chosen = _chosen(request, names)
    runs = [ledger.get(name) for name in chosen]
    body = "<p>Choose two runs.</p>"
    if len(runs) == 2:
        table = compared_runs_table(runs, [_scores(run) for run in runs])
        curves = compared_curves([(run.id, series(ledger, run.id)) for run in runs])
        drawn = "".join(
            f"<figure><h2>{escape(title)}</h2>{plots(svg)}</figure>" for title, svg in curves
        )
        body = f'{html_table(table)}<div class="pair">{drawn}</div>'
    return _page("Compare runs", _form(names, chosen) + body, ("/runs", "Runs"))


def _scores(run: Run) -> dict[str, float]:
    """The scores of the run's model; empty where none was evaluated."""
    try:
        results = results_of(Path(run.folder))
    except InputError:
        return {}
    card = results.champion or results.trained
    return {score.metric: score.value for score in card.scores} if card is not None else {}


def _chosen(request: PageRequest, names: Sequence[str]) -> list[str]:
    """The two of the address, else the first two."""
    wanted = [request.query[key] for key in ("a", "b") if key in request.query]
    if any(name not in names for name in wanted):
        raise NotFoundError
    return wanted if len(wanted) == 2 else list(names[:2])


def _form(names: Sequence[str], chosen: Sequence[str]) -> str:
    """Two lists, and a button that opens the page of the two."""
    selects = "".join(
        f'<label>{word} <select name="{key}">{options_html(names, chosen[place])}</select></label>'
        for place, (key, word) in enumerate((("a", "Compare"), ("b", "with")))
        if place < len(chosen)
    )
    return f'<form method="get">{selects}<button>Compare</button></form>'


def _page(title: str, body: str, above: tuple[str, str]) -> WebPage:
    return WebPage(
        title=title,
        fragments=(Fragment(id="compared", html=body),),
        is_live=False,
        above=above,
    )
