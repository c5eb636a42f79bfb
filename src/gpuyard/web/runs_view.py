"""Runs: all of them, and one with its stages, curves and log, live."""

from __future__ import annotations

import functools
from html import escape
from pathlib import Path

from gpuyard.app.stage_summaries import outcomes
from gpuyard.app.up_results import predicted_of, results_of
from gpuyard.errors import ExternalError, InputError
from gpuyard.jobs.engines import open_engine
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.metrics import series
from gpuyard.jobs.records import Run, Series
from gpuyard.report.evaluate import scorecard_sections
from gpuyard.report.page import html_table
from gpuyard.report.run import run_curves, run_table
from gpuyard.report.runs import runs_table
from gpuyard.report.select import selection_sections
from gpuyard.web.view import (
    Fragment,
    NotFoundError,
    PageRequest,
    WebPage,
    empty_note,
    linked_table,
    plots,
)

LAST_LINES = 40


def runs_view(request: PageRequest) -> WebPage:
    """Every run, the newest first."""
    runs = Ledger(home=request.home).runs()
    body = empty_note("No run yet.", "gpuyard run FILE")
    if runs:
        body = linked_table(runs_table(runs), [f"/runs/{run.id}" for run in runs])
    return WebPage(title="Runs", fragments=(Fragment(id="runs", html=body),))


def run_view(request: PageRequest) -> WebPage:
    """One run."""
    ledger = Ledger(home=request.home)
    try:
        run = ledger.get(request.words["id"])
    except InputError as error:
        raise NotFoundError from error
    drawn = _curves(request, run, series(ledger, run.id))
    workload = f"<details><summary>Workload</summary><pre>{escape(run.workload)}</pre></details>"
    fragments = (
        Fragment(id="actions", html=_actions(run) if request.acts else ""),
        Fragment(id="stages", html=_stages(run)),
        Fragment(id="curves", html=drawn),
        Fragment(id="results", html=_results(run)),
        Fragment(id="log", html=_log(run)),
        Fragment(id="workload", html=workload),
    )
    return WebPage(title=f"Run {run.id}: {run.name}", fragments=fragments, above=("/runs", "Runs"))


def _stages(run: Run) -> str:
    try:
        words = outcomes(run)
    except InputError:
        words = tuple("" for _ in run.stages)  # its folder is gone
    return html_table(run_table(run, words))


def _curves(request: PageRequest, run: Run, metrics: tuple[Series, ...]) -> str:
    """Loss and throughput, with the predicted line where there is one."""
    try:
        foreseen = predicted_of(request.home, run)
    except InputError:
        foreseen = None  # another version wrote it
    drawn = (
        f"<figure><h2>{escape(title)}</h2>{plots(svg)}</figure>"
        for title, svg in run_curves(metrics, foreseen)
    )
    return f'<div class="pair">{"".join(drawn)}</div>'


def _results(run: Run) -> str:
    """The scores with their curves, the winner, and why the others were rejected."""
    return _drawn_results(
        Path(run.folder), tuple((stage.name, stage.state, stage.ended_s) for stage in run.stages)
    )


@functools.lru_cache(maxsize=16)
def _drawn_results(folder: Path, stamp: object) -> str:  # noqa: ARG001
    """The same, drawn once: an open page asks again every second."""
    try:
        card, chosen = results_of(folder)
    except InputError:
        return ""  # its folder is gone, or another version wrote it
    parts = scorecard_sections(card) if card is not None else []
    return plots("".join([*parts, *(selection_sections(chosen) if chosen is not None else [])]))


def _log(run: Run) -> str:
    """The last lines of the newest stage that an engine started."""
    stage = next((stage for stage in reversed(run.stages) if stage.handle is not None), None)
    if stage is None or stage.handle is None:
        return ""
    try:
        lines = list(open_engine(stage.handle.engine).logs(stage.handle, follow=False))[
            -LAST_LINES:
        ]
    except (InputError, ExternalError) as error:
        lines = [str(error)]
    return (
        "<h2>Log of"
        f" {escape(stage.name)}</h2><pre>{escape(chr(10).join(lines)) or 'it wrote nothing'}</pre>"
    )


def _actions(run: Run) -> str:
    word = "stop" if run.state == "running" else "resume" if run.resumable else ""
    if not word:
        return ""
    return (
        '<form method="post"'
        f' action="/runs/{escape(run.id)}/{word}"><button>{word.capitalize()}</button></form>'
    )
