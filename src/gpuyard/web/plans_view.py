"""Plans, fabrics, simulated steps and comparisons as pages."""

from __future__ import annotations

import functools
import time
from html import escape
from pathlib import Path

from gpuyard.app.up_results import compared_of, load_saved_stages, planned_of
from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.report.page import headline, html_table
from gpuyard.report.planning_sections import planned_sections
from gpuyard.report.table import Table, table_columns
from gpuyard.report.up import answer, comparison_html, stages_table
from gpuyard.web.archive import zipped
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

DOWNLOADS = (
    "workload.yaml",
    "plan.json",
    "fabric.json",
    "findings.json",
    "simulation.json",
    "report.html",
)
KINDS = {".json": "application/json", ".yaml": "application/yaml", ".html": "text/html"}
LAST_LINES = 40
FILES = (
    "up.json", "plan.json", "fabric.json", "findings.json", "simulation.json", "collective.json",
    "comparison.json", "catalog.json",
)  # fmt: skip
FileStamp = tuple[tuple[str, int, int], ...]  # name, time and size


def plan_folder(home: Home, name: str) -> Path:
    """The folder of a workload that `gpuyard up` has worked on."""
    folder = home.path / "up" / name
    if folder.parent != home.path / "up" or not folder.is_dir():
        raise NotFoundError
    return folder


def plan_names(home: Home) -> list[str]:
    """The workloads that `gpuyard up` has worked on, the last one first."""
    root = home.path / "up"
    folders = [folder for folder in root.iterdir() if folder.is_dir()] if root.is_dir() else []
    folders.sort(key=lambda folder: (-folder.stat().st_mtime, folder.name))
    return [folder.name for folder in folders]


def plans_view(request: PageRequest) -> WebPage:
    """Every workload that `gpuyard up` was asked for."""
    return WebPage(title="Plans", fragments=(Fragment(id="plans", html=plans_html(request.home)),))


def plans_html(home: Home, most: int = 1000) -> str:
    """The newest plans as a table."""
    names = plan_names(home)[:most]
    if not names:
        return empty_note("No plan yet.", "gpuyard up FILE")
    columns = ("workload", "on", "planned", "reached", "updated", "result")
    table = Table(
        columns=table_columns(*columns),
        rows=tuple(_plan_row(home, name) for name in names),
    )
    several = link("/compare/plans", "Compare two plans") if len(names) > 1 else ""
    return f"{linked_table(table, [f'/plans/{name}' for name in names])}<p>{several}</p>"


def _plan_row(home: Home, name: str) -> tuple[str, ...]:
    folder = home.path / "up" / name
    report = load_saved_stages(folder)
    last = report.stages[-1] if report.stages else None
    planned = next((stage.what for stage in report.stages if stage.name == "plan"), "")
    file = folder / "up.json"
    updated = time.strftime("%Y-%m-%d %H:%M", time.localtime(file.stat().st_mtime)) if last else ""
    result = last.what if last is not None and last.name != "plan" else ""
    return (name, report.target, planned, last.name if last else "", updated, result)


def plan_view(request: PageRequest) -> WebPage:
    """One workload: its stages, its plan, its network, what was predicted and measured."""
    folder = plan_folder(request.home, request.words["name"])
    return WebPage(
        title=f"Plan {folder.name}",
        fragments=(*_parts(folder, file_stamp(folder)), Fragment(id="log", html=_log(folder))),
        above=("/plans", "Plans"),
    )


def file_stamp(folder: Path) -> FileStamp:
    """Fingerprint of the files, without reading them."""
    paths = [(name, folder / name) for name in FILES]
    return tuple(
        (name, state.st_mtime_ns, state.st_size)
        for name, path in paths
        if path.exists() and (state := path.stat())
    )


@functools.lru_cache(maxsize=16)
def _parts(folder: Path, stamp: FileStamp) -> tuple[Fragment, ...]:  # noqa: ARG001
    """The page of these files; made once, for an open page asks again every second."""
    explorer = link(f"/plans/{folder.name}/fabric", "Explore it: racks, devices, ports")
    stages, planned = load_saved_stages(folder), planned_of(folder)
    first = answer(stages, planned)
    makers: tuple[tuple[str, str], ...] = (
        ("answer", headline(first) if first else ""),
        ("stages", html_table(stages_table(stages))),
        ("files", _files(folder)),
        ("compared", _compared(folder)),
        *planned_sections(planned, f"<p>{explorer}</p>"),
    )
    return tuple(Fragment(id=name, html=plots(html)) for name, html in makers)


def _files(folder: Path) -> str:
    """Links to the planner and to what can be saved."""
    items = [link(f"/plans/{folder.name}/files/{name}", name) for name in plan_files(folder)]
    if (folder / "workload.yaml").exists():
        items.insert(0, link(f"/planner?plan={folder.name}", "Edit in the planner"))
    return f"<p>{' · '.join(items)}</p>" if items else ""


def plan_files(folder: Path) -> list[str]:
    """Names of the files of a plan that can be downloaded."""
    present = [name for name in DOWNLOADS if (folder / name).is_file()]
    return [*present, *(["deploy.zip"] if (folder / "deploy").is_dir() else [])]


def plan_file(request: PageRequest) -> Download:
    """A file of a plan, or its deployment as an archive."""
    folder, name = plan_folder(request.home, request.words["name"]), request.words["file"]
    if name not in plan_files(folder):
        raise NotFoundError
    if name != "deploy.zip":
        kind = KINDS.get(Path(name).suffix, "application/octet-stream")
        return Download(name=name, kind=kind, body=(folder / name).read_bytes())
    deploy = folder / "deploy"
    files = sorted(path for path in deploy.rglob("*") if path.is_file() and not path.is_symlink())
    texts = {str(path.relative_to(deploy)): path.read_text(encoding="utf-8") for path in files}
    return Download(name=f"{folder.name}-deploy.zip", kind="application/zip", body=zipped(texts))


def _log(folder: Path) -> str:
    """The end of the output of a start from this page."""
    file = folder / "up.log"
    if not file.is_file():
        return ""
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
    return f"<h2>Output</h2><pre>{escape(chr(10).join(lines))}</pre>" if lines else ""


def _compared(folder: Path) -> str:
    try:
        rows = compared_of(folder)
    except InputError:
        return ""  # another version wrote it
    return f"<h2>Predicted against measured</h2>{comparison_html(rows)}" if rows else ""
