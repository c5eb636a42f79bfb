"""Plans with their Pareto plot and reasons, the fabric drawing, the simulated step, predicted against measured."""

from __future__ import annotations

import functools
from html import escape
from pathlib import Path
from typing import TypeVar

from gpuyard.app.up_values import compared_of, load_kept
from gpuyard.document import load_json
from gpuyard.errors import InputError
from gpuyard.fabric import Fabric, from_json
from gpuyard.fabric.verify import Verification
from gpuyard.plan import Plan
from gpuyard.report.fabric import findings_table
from gpuyard.report.fabric_page import fabric_page
from gpuyard.report.fabric_svg import fabric_svg
from gpuyard.report.heat import heat_sections
from gpuyard.report.page import html_table
from gpuyard.report.plan import explain_option, plan_sections
from gpuyard.report.simulation_step import step_sections
from gpuyard.report.table import Column, Table
from gpuyard.report.up import compared_table, way_table
from gpuyard.simulate.comparison import StepRun
from gpuyard.simulate.heat import Heat
from gpuyard.web.view import Asked, Fragment, NotFoundError, View, empty, link, linked_table, plots, titled

__all__ = ["fabric_document", "plan_view", "plans_view"]

TOP, EXPLAINED = 20, 5
FILES = (
    "up.json", "plan.json", "fabric.json", "findings.json", "simulation.json", "collective.json", "compared.json",
)  # fmt: skip
T = TypeVar("T")


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
    fabric = _fabric(folder)
    makers: tuple[tuple[str, str], ...] = (
        ("way", html_table(way_table(load_kept(folder)))),
        ("compared", _compared(folder)),
        ("plan", _plan(_loaded(folder / "plan.json", Plan))),
        ("simulation", _step(_loaded(folder / "simulation.json", StepRun))),
        ("heat", _heat(_loaded(folder / "collective.json", Heat), fabric)),
        ("fabric", _proof(folder, fabric)),
    )
    return tuple(Fragment(id=name, html=plots(html)) for name, html in makers)


def _compared(folder: Path) -> str:
    """Predicted against measured."""
    try:
        rows = compared_of(folder)
    except InputError:
        return ""  # another version wrote it
    return f"<h2>Predicted against measured</h2>{html_table(compared_table(rows))}" if rows else ""


def _plan(plan: Plan | None) -> str:
    """The Pareto plot, the options, the reasons of the best, and what was rejected."""
    if plan is None:
        return ""
    parts = [*plan_sections(plan, TOP), "<h2>Why</h2>"]
    for number, option in enumerate(plan.options[:EXPLAINED], start=1):
        words = f"Option {number}: {option.cluster.machine_count} × {option.cluster.machine}, {option.precision}"
        tables = "".join(titled(table) for table in explain_option(plan, number) if table.rows)
        parts.append(f"<details{' open' if number == 1 else ''}><summary>{escape(words)}</summary>{tables}</details>")
    if plan.rejected:
        columns = tuple(Column(heading=name) for name in ("out", "because of", "why", "what would change it"))
        rows = tuple((item.family, item.binding, item.what, item.fix) for item in plan.rejected)
        parts.append(f"<h2>Rejected</h2>{html_table(Table(columns=columns, rows=rows))}")
    return "".join(parts)


def _step(step: StepRun | None) -> str:
    """A training step over the network."""
    return "" if step is None else "<h2>Simulated step</h2>" + "".join(step_sections(step)).replace("h2>", "h3>")


def _fabric(folder: Path) -> Fabric | None:
    """The fabric that was designed."""
    path = folder / "fabric.json"
    try:
        return from_json(path.read_text(encoding="utf-8"), str(path)) if path.exists() else None
    except (InputError, OSError):
        return None


def _heat(heat: Heat | None, fabric: Fabric | None) -> str:
    """The step's heaviest collective over the fabric: link heat and timeline."""
    if heat is None or fabric is None:
        return ""
    return "<h2>Collective over the fabric</h2>" + "".join(heat_sections(heat, fabric.topology))


def _proof(folder: Path, fabric: Fabric | None) -> str:
    """The fabric's findings, and the drawing to look around in."""
    if fabric is None:
        return ""
    found = _loaded(folder / "findings.json", Verification)
    whole_page = link(f"/plans/{folder.name}/fabric", "The drawing, to look around in")
    proof = html_table(findings_table(found)) if found is not None else ""
    drawn = "" if (folder / "collective.json").exists() else fabric_svg(fabric)
    return f"<h2>Fabric</h2><p>{whole_page}</p>{drawn}{proof}"


def fabric_document(asked: Asked) -> str:
    """The drawing of the fabric as a page of its own, devices marked by its findings."""
    folder = _folder(asked)
    path = folder / "fabric.json"
    if not path.exists():
        raise NotFoundError
    found = _loaded(folder / "findings.json", Verification)
    return fabric_page(from_json(path.read_text(encoding="utf-8"), str(path)), found, folder.name)


def _loaded(path: Path, record: type[T]) -> T | None:
    """A value that a stage kept; None where there is none, or where another version wrote it."""
    if not path.exists():
        return None
    try:
        return load_json(path.read_text(encoding="utf-8"), record, str(path))
    except (InputError, OSError):
        return None
