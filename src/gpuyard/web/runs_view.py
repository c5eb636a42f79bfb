"""Runs: all of them, and one with its stages, curves and log, live."""

from __future__ import annotations

import functools
from html import escape
from pathlib import Path

from gpuyard.app.up_results import predicted_of, results_of
from gpuyard.errors import ExternalError, InputError
from gpuyard.jobs.engines import open_engine
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.metrics import series
from gpuyard.jobs.records import Run, Series, Stage
from gpuyard.report.page import html_table
from gpuyard.report.run import run_curves, run_table
from gpuyard.report.run_results import results_sections
from gpuyard.report.runs import runs_table
from gpuyard.web.view import (
    Download,
    Fragment,
    NotFoundError,
    PageRequest,
    WebPage,
    empty_note,
    link,
    linked_table,
    plots,
)

LAST_LINES, MOST_LINES = 40, 5000


def runs_view(request: PageRequest) -> WebPage:
    """Every run, the newest first."""
    runs = Ledger(home=request.home).runs()
    body = empty_note("No run yet.", "gpuyard run FILE")
    if runs:
        body = linked_table(runs_table(runs), [f"/runs/{run.id}" for run in runs])
        if len(runs) > 1:
            body += f"<p>{link('/compare/runs', 'Compare two runs')}</p>"
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
    from gpuyard.app.stage_summaries import outcomes  # needs gpuyard[run]

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
    """The champion's scores and curves, the trained model's, and the selection."""
    return _drawn_results(
        Path(run.folder), tuple((stage.name, stage.state, stage.ended_s) for stage in run.stages)
    )


@functools.lru_cache(maxsize=16)
def _drawn_results(folder: Path, stamp: object) -> str:  # noqa: ARG001
    """The same, drawn once: an open page asks again every second."""
    try:
        results = results_of(folder)
    except InputError:
        return ""  # its folder is gone, or another version wrote it
    return plots("".join(results_sections(results)))


def _log(run: Run) -> str:
    """The last lines of the newest stage that an engine started, and links to every log."""
    started = [stage for stage in run.stages if stage.handle is not None]
    if not started:
        return ""
    lines = _lines(started[-1])[-LAST_LINES:]
    links = " · ".join(link(f"/runs/{run.id}/logs/{stage.name}", stage.name) for stage in started)
    return (
        f"<h2>Log of {escape(started[-1].name)}</h2>"
        f"<pre>{escape(chr(10).join(lines)) or 'it wrote nothing'}</pre><p>Whole logs: {links}</p>"
    )


def _lines(stage: Stage) -> list[str]:
    """The log of a stage."""
    assert stage.handle is not None
    try:
        return list(open_engine(stage.handle.engine).logs(stage.handle, follow=False))
    except (InputError, ExternalError) as error:
        return [str(error)]


def _logged_stage(request: PageRequest) -> tuple[Run, Stage]:
    try:
        run = Ledger(home=request.home).get(request.words["id"])
    except InputError as error:
        raise NotFoundError from error
    stage = run.stage(request.words["stage"])
    if stage is None or stage.handle is None:
        raise NotFoundError
    return run, stage


def log_view(request: PageRequest) -> WebPage:
    """The log of a stage, followed live."""
    run, stage = _logged_stage(request)
    lines = _lines(stage)
    count = f"the last {MOST_LINES:,} of {len(lines):,} lines" if len(lines) > MOST_LINES else ""
    text = escape("\n".join(lines[-MOST_LINES:])) or "it wrote nothing"
    address = f"/runs/{run.id}/logs/{stage.name}.txt"
    return WebPage(
        title=f"Log of {stage.name}, run {run.id}",
        fragments=(
            Fragment(id="state-of-stage", html=f"<p>{escape(stage.state)} {count}</p>"),
            Fragment(id="lines", html=f'<pre class="log">{text}</pre>'),
            Fragment(id="file", html=f"<p>{link(address, 'Download')}</p>"),
        ),
        above=(f"/runs/{run.id}", f"Run {run.id}"),
    )


def log_file(request: PageRequest) -> Download:
    """The log of a stage as a file."""
    run, stage = _logged_stage(request)
    body = "".join(f"{line}\n" for line in _lines(stage)).encode()
    return Download(name=f"{run.id}-{stage.name}.txt", kind="text/plain; charset=utf-8", body=body)


def _actions(run: Run) -> str:
    word = "stop" if run.state == "running" else "resume" if run.resumable else ""
    if not word:
        return ""
    return (
        '<form method="post"'
        f' action="/runs/{escape(run.id)}/{word}"><button>{word.capitalize()}</button></form>'
    )
