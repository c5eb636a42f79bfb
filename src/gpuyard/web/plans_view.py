"""Plans, fabrics, simulated steps and comparisons as pages."""

from __future__ import annotations

import functools
from pathlib import Path

from gpuyard.app.up_results import compared_of, load_saved_stages, planned_of
from gpuyard.errors import InputError
from gpuyard.report.fabric_page import fabric_page
from gpuyard.report.page import html_table
from gpuyard.report.planning_sections import planned_sections
from gpuyard.report.table import Table, TableColumn
from gpuyard.report.up import compared_table, stages_table
from gpuyard.web.view import (
    Fragment,
    NotFoundError,
    PageRequest,
    WebPage,
    empty_note,
    link,
    linked_table,
    plots,
)

FILES = (
    "up.json", "plan.json", "fabric.json", "findings.json", "simulation.json", "collective.json",
    "comparison.json",
)  # fmt: skip


def _folder(request: PageRequest) -> Path:
    """The folder of a workload that `gpuyard up` has taken on its way."""
    folder = request.home.path / "up" / request.words["name"]
    if folder.parent != request.home.path / "up" or not folder.is_dir():
        raise NotFoundError
    return folder


def plans_view(request: PageRequest) -> WebPage:
    """Every workload that `gpuyard up` was asked for."""
    root = request.home.path / "up"
    names = (
        sorted(folder.name for folder in root.iterdir() if folder.is_dir()) if root.is_dir() else []
    )
    rows = []
    for name in names:
        way = load_saved_stages(root / name)
        last = way.stages[-1] if way.stages else None
        rows.append((name, last.name if last else "", last.what if last else ""))
    columns = (
        TableColumn(heading="workload"),
        TableColumn(heading="reached"),
        TableColumn(heading=""),
    )
    table = Table(columns=columns, rows=tuple(rows))
    body = empty_note("No plan yet.", "gpuyard up FILE")
    if names:
        body = linked_table(table, [f"/plans/{name}" for name in names])
    return WebPage(title="Plans", fragments=(Fragment(id="plans", html=body),))


def plan_view(request: PageRequest) -> WebPage:
    """One workload: its stages, its plan, its network, what was predicted and measured."""
    folder = _folder(request)
    return WebPage(
        title=f"Plan {folder.name}",
        fragments=_parts(folder, _stamp(folder)),
        above=("/plans", "Plans"),
    )


def _stamp(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Fingerprint of the files, without reading them."""
    paths = [(name, folder / name) for name in FILES]
    return tuple(
        (name, state.st_mtime_ns, state.st_size)
        for name, path in paths
        if path.exists() and (state := path.stat())
    )


@functools.lru_cache(maxsize=16)
def _parts(folder: Path, stamp: tuple[tuple[str, int, int], ...]) -> tuple[Fragment, ...]:  # noqa: ARG001
    """The page of these files; made once, for an open page asks again every second."""
    whole_page = f"<p>{link(f'/plans/{folder.name}/fabric', 'The drawing, to look around in')}</p>"
    makers: tuple[tuple[str, str], ...] = (
        ("way", html_table(stages_table(load_saved_stages(folder)))),
        ("compared", _compared(folder)),
        *planned_sections(planned_of(folder), whole_page),
    )
    return tuple(Fragment(id=name, html=plots(html)) for name, html in makers)


def _compared(folder: Path) -> str:
    try:
        rows = compared_of(folder)
    except InputError:
        return ""  # another version wrote it
    return f"<h2>Predicted against measured</h2>{html_table(compared_table(rows))}" if rows else ""


def fabric_document(request: PageRequest) -> str:
    """The drawing of the fabric as a separate page, devices marked by its findings."""
    folder = _folder(request)
    planned = planned_of(folder)
    if planned.fabric is None:
        raise NotFoundError
    return fabric_page(planned.fabric, planned.findings, folder.name)
