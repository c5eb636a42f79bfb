"""Models: versions, lineage, comparison, promotion; endpoints with live latency."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from gpuyard.errors import InputError
from gpuyard.registry import ModelVersion, Registry
from gpuyard.report.live import live_table
from gpuyard.report.page import html_table, titled
from gpuyard.report.registry import detail_tables, models_table
from gpuyard.report.table import NOT_KNOWN, Column, Table
from gpuyard.serving.live import live_endpoints
from gpuyard.units import BYTES, show
from gpuyard.web.latency import Latencies
from gpuyard.web.view import Asked, Fragment, NotFoundError, View, empty, linked_table, plots

__all__ = ["endpoints_view", "model_view", "models_view"]

COMPARED = 6
LATENCIES = Latencies()


def models_view(asked: Asked) -> View:
    """Every version of every model."""
    registry = Registry(home=asked.home)
    versions = [version for name in registry.names() for version in reversed(registry.versions(name))]
    body = empty("No model yet: a run registers what it trains.", "gpuyard run FILE")
    if versions:
        body = linked_table(models_table(versions), [f"/models/{version.name}" for version in versions])
    return View(title="Models", fragments=(Fragment(id="models", html=body),))


def model_view(asked: Asked) -> View:
    """One model: its versions side by side, and each in full."""
    registry, name = Registry(home=asked.home), asked.words["name"]
    try:
        versions = registry.versions(name)[::-1]
    except InputError as error:
        raise NotFoundError from error
    changes = [(change.alias, change.version, change.at_s) for change in registry.changes(name)]
    told = []
    for place, version in enumerate(versions[:COMPARED]):
        first, *rest = detail_tables(version, changes if place == 0 else ())
        tables = html_table(first) + "".join(titled(table) for table in rest)
        mark = " open" if place == 0 else ""
        told.append(f"<details{mark}><summary>{escape(version.reference)}</summary>{tables}</details>")
    fragments = (
        Fragment(id="actions", html=_promote(name, versions) if asked.acts else ""),
        Fragment(id="versions", html=html_table(models_table(versions))),
        Fragment(id="compared", html=f"<h2>Compared</h2>{html_table(_compared(versions))}"),
        Fragment(id="detail", html=f"<h2>Versions</h2>{''.join(told)}"),
    )
    return View(title=f"Model {name}", fragments=fragments, above=("/models", "Models"))


def _compared(versions: Sequence[ModelVersion]) -> Table:
    """The newest versions, a column each: what they are, what was measured."""
    shown = versions[:COMPARED]
    facts: tuple[tuple[str, Callable[[ModelVersion], str]], ...] = (
        ("aliases", lambda version: ", ".join(version.aliases)),
        ("trainer", lambda version: version.bundle.trainer),
        ("size", lambda version: show(version.bundle.size_bytes, BYTES)),
        ("data", lambda version: version.lineage.data[:12]),
    )
    rows = [(name, *(words(version) or NOT_KNOWN for version in shown)) for name, words in facts]
    for name in dict.fromkeys(metric.name for version in shown for metric in version.metrics):
        rows.append((name, *(_metric(version, name) for version in shown)))
    columns = (Column(heading=""), *(Column(heading=version.reference, numeric=True) for version in shown))
    return Table(columns=columns, rows=tuple(rows))


def _metric(version: ModelVersion, name: str) -> str:
    """A value that was measured, with its interval where there is one."""
    found = next((metric for metric in version.metrics if metric.name == name), None)
    if found is None:
        return NOT_KNOWN
    known = found.low is not None and found.high is not None
    return f"{found.value:.4g}" + (f" ({found.low:.4g} to {found.high:.4g})" if known else "")


def _promote(name: str, versions: Sequence[ModelVersion]) -> str:
    """A form that points an alias at a version."""
    options = "".join(f"<option>{version.version}</option>" for version in versions)
    return (
        f'<form method="post" action="/models/{escape(name)}/promote"><label>Version <select name="version">{options}'
        '</select></label><label>to <select name="alias"><option>champion</option><option>challenger</option></select>'
        "</label><button>Promote</button></form>"
    )


def endpoints_view(asked: Asked) -> View:
    """Services, with what their own metrics say now, and how that changed while somebody watched."""
    rows = live_endpoints(asked.home)
    if not rows:
        body = empty("No service runs.", "gpuyard serve MODEL --detach")
        return View(title="Endpoints", fragments=(Fragment(id="now", html=""), Fragment(id="all", html=body)))
    LATENCIES.look(rows)
    answering = [row for row in rows if row.buckets]
    now = f"<h2>Now</h2>{html_table(LATENCIES.table(answering))}" if answering else ""
    fragments = (
        Fragment(id="now", html=now),
        Fragment(id="curves", html=plots(LATENCIES.curves(answering))),
        Fragment(id="all", html=f"<h2>Since the start</h2>{html_table(live_table(rows))}"),
    )
    return View(title="Endpoints", fragments=fragments)
