"""Models: versions, lineage, comparison, promotion; endpoints with live latency."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from gpuyard.errors import InputError
from gpuyard.registry.registry import ModelVersion, Registry
from gpuyard.report.live import live_table
from gpuyard.report.page import html_table, titled
from gpuyard.report.registry import detail_tables, models_table
from gpuyard.report.table import NOT_KNOWN, Table, table_columns
from gpuyard.serving.live_metrics import live_endpoints
from gpuyard.units import BYTES, show
from gpuyard.web.latency import LatencyHistory
from gpuyard.web.view import (
    Fragment,
    NotFoundError,
    PageRequest,
    WebPage,
    empty_note,
    linked_table,
    plots,
)

COMPARED = 6
LATENCIES = LatencyHistory()


def models_view(request: PageRequest) -> WebPage:
    """Every version of every model."""
    registry = Registry(home=request.home)
    versions = [
        version for name in registry.names() for version in reversed(registry.versions(name))
    ]
    body = empty_note("No model yet: a run registers what it trains.", "gpuyard run FILE")
    if versions:
        body = linked_table(
            models_table(versions), [f"/models/{version.name}" for version in versions]
        )
    return WebPage(title="Models", fragments=(Fragment(id="models", html=body),))


def model_view(request: PageRequest) -> WebPage:
    """One model: its versions side by side, and each in full."""
    registry, name = Registry(home=request.home), request.words["name"]
    try:
        versions = registry.versions(name)[::-1]
    except InputError as error:
        raise NotFoundError from error
    changes = [(change.alias, change.version, change.at_s) for change in registry.changes(name)]
    details = []
    for place, version in enumerate(versions[:COMPARED]):
        first, *rest = detail_tables(version, changes if place == 0 else ())
        tables = html_table(first) + "".join(titled(table) for table in rest)
        mark = " open" if place == 0 else ""
        details.append(
            f"<details{mark}><summary>{escape(version.reference)}</summary>{tables}</details>"
        )
    fragments = (
        Fragment(id="actions", html=_promote(name, versions) if request.acts else ""),
        Fragment(id="versions", html=html_table(models_table(versions))),
        Fragment(id="compared", html=f"<h2>Compared</h2>{html_table(_compared(versions))}"),
        Fragment(id="detail", html=f"<h2>Versions</h2>{''.join(details)}"),
    )
    return WebPage(title=f"Model {name}", fragments=fragments, above=("/models", "Models"))


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
    columns = table_columns("", *(f">{version.reference}" for version in shown))
    return Table(columns=columns, rows=tuple(rows))


def _metric(version: ModelVersion, name: str) -> str:
    """A value that was measured, with its interval where there is one."""
    metric = next((metric for metric in version.metrics if metric.name == name), None)
    if metric is None:
        return NOT_KNOWN
    known = metric.low is not None and metric.high is not None
    return f"{metric.value:.4g}" + (f" ({metric.low:.4g} to {metric.high:.4g})" if known else "")


def _promote(name: str, versions: Sequence[ModelVersion]) -> str:
    """A form that points an alias at a version."""
    options = "".join(f"<option>{version.version}</option>" for version in versions)
    return (
        f'<form method="post" action="/models/{escape(name)}/promote"><label>Version <select'
        f' name="version">{options}'
        "</select></label><label>to <select"
        ' name="alias"><option>champion</option><option>challenger</option></select>'
        "</label><button>Promote</button></form>"
    )


def endpoints_view(request: PageRequest) -> WebPage:
    """Services with their live metrics and recent latency."""
    rows = live_endpoints(request.home)
    if not rows:
        body = empty_note("No service runs.", "gpuyard serve MODEL --detach")
        return WebPage(
            title="Endpoints",
            fragments=(Fragment(id="now", html=""), Fragment(id="all", html=body)),
        )
    LATENCIES.look(rows)
    answering = [row for row in rows if row.buckets]
    now = f"<h2>Now</h2>{html_table(LATENCIES.table(answering))}" if answering else ""
    fragments = (
        Fragment(id="now", html=now),
        Fragment(id="curves", html=plots(LATENCIES.curves(answering))),
        Fragment(id="all", html=f"<h2>Since the start</h2>{html_table(live_table(rows))}"),
    )
    return WebPage(title="Endpoints", fragments=fragments)
