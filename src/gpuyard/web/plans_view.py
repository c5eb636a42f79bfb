"""Plans with their Pareto plot and reasons, the fabric drawing, the simulated step, predicted against measured."""

from __future__ import annotations

import functools
from pathlib import Path

from gpuyard.app.up_values import compared_of, load_kept, planned_of
from gpuyard.errors import InputError
from gpuyard.report.fabric_page import fabric_page
from gpuyard.report.page import html_table
from gpuyard.report.planned import planned_sections
from gpuyard.report.table import Column, Table
from gpuyard.report.up import compared_table, way_table
from gpuyard.web.view import Asked, Fragment, NotFoundError, View, empty, link, linked_table, plots

__all__ = ["fabric_document", "plan_view", "plans_view"]

FILES = (
    "up.json", "plan.json", "fabric.json", "findings.json", "simulation.json", "collective.json", "compared.json",
)  # fmt: skip


def _folder(asked: Asked) -> Path:
    """The folder of a workload that `gpuyard up` has taken on its way."""
    folder = asked.home.path / "up" / asked.words["name"]
    if folder.parent != asked.home.path / "up" or not folder.is_dir():
        raise NotFoundError
    return folder


def plans_view(asked: Asked) -> View:
    """Every workload that `gpuyard up` was asked for."""
    root = asked.home.path / "up"
    names = sorted(folder.name for folder in root.iterdir() if folder.is_dir()) if root.is_dir() else []
    rows = []
    for name in names:
        way = load_kept(root / name)
        last = way.stages[-1] if way.stages else None
        rows.append((name, last.name if last else "", last.what if last else ""))
    columns = (Column(heading="workload"), Column(heading="reached"), Column(heading=""))
    table = Table(columns=columns, rows=tuple(rows))
    body = empty("No plan yet.", "gpuyard up FILE")
    if names:
        body = linked_table(table, [f"/plans/{name}" for name in names])
    return View(title="Plans", fragments=(Fragment(id="plans", html=body),))


def plan_view(asked: Asked) -> View:
    """One workload: its stages, its plan, its network, what was predicted and measured."""
    folder = _folder(asked)
    return View(title=f"Plan {folder.name}", fragments=_parts(folder, _stamp(folder)), above=("/plans", "Plans"))


def _stamp(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """What tells these files from others, without reading them."""
    found = [(name, folder / name) for name in FILES]
    return tuple(
        (name, state.st_mtime_ns, state.st_size) for name, path in found if path.exists() and (state := path.stat())
    )


@functools.lru_cache(maxsize=16)
def _parts(folder: Path, stamp: tuple[tuple[str, int, int], ...]) -> tuple[Fragment, ...]:  # noqa: ARG001
    """The page of these files; made once, for an open page asks again every second."""
    whole_page = f"<p>{link(f'/plans/{folder.name}/fabric', 'The drawing, to look around in')}</p>"
    makers: tuple[tuple[str, str], ...] = (
        ("way", html_table(way_table(load_kept(folder)))),
        ("compared", _compared(folder)),
        *planned_sections(planned_of(folder), whole_page),
    )
    return tuple(Fragment(id=name, html=plots(html)) for name, html in makers)


def _compared(folder: Path) -> str:
    """Predicted against measured."""
    try:
        rows = compared_of(folder)
    except InputError:
        return ""  # another version wrote it
    return f"<h2>Predicted against measured</h2>{html_table(compared_table(rows))}" if rows else ""


def fabric_document(asked: Asked) -> str:
    """The drawing of the fabric as a page of its own, devices marked by its findings."""
    folder = _folder(asked)
    planned = planned_of(folder)
    if planned.fabric is None:
        raise NotFoundError
    return fabric_page(planned.fabric, planned.findings, folder.name)
