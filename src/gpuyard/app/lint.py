"""`gpuyard lint`: check deployment files before they are applied."""

from __future__ import annotations

import glob
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuyard.app.workspace import catalog_with_blueprint
from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.blueprint.saved import blueprint_from_json
from gpuyard.catalog.load import Catalog
from gpuyard.document.read import read_text
from gpuyard.errors import SEVERITIES, Finding, InputError
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.deployment import DEPLOYMENT
from gpuyard.provision.extra_names import is_extra_file
from gpuyard.provision.lint import LEFT_OUT, LintResult, lint
from gpuyard.provision.suppressions import without_ignored

SUFFIXES = (".yaml", ".yml", ".json", ".sh", ".sbatch", ".slurm")
BLUEPRINT = "blueprint.json"
CHART, KUSTOMIZATIONS = "Chart.yaml", ("kustomization.yaml", "kustomization.yml", "Kustomization")
# Folders that hold no deployment: hidden ones and those of package managers.
SKIPPED_FOLDERS = ("node_modules", "__pycache__", "site-packages")
BASH_S = 20
RENDER_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deployment:
    """Files that are deployed together; `is_folder`: a wrong file among them is only a note."""

    files: tuple[Path, ...] = ()
    rendered: tuple[Artefact, ...] = ()
    notes: tuple[Finding, ...] = ()
    is_folder: bool = False


def lint_files(paths: Sequence[Path], catalog: Catalog, given: str = "") -> LintResult:
    """Lint files. Named files are deployed together, and so are the files of each folder."""
    results = [_lint(deployment, catalog, given) for deployment in _deployments(paths)]
    order = {severity: index for index, severity in enumerate(SEVERITIES)}
    findings = [finding for result in results for finding in result.findings]
    return LintResult(
        documents=tuple(row for result in results for row in result.documents),
        findings=tuple(sorted(findings, key=lambda row: order[row.severity])),
        fabrics=tuple(row for result in results for row in result.fabrics),
        ignored_count=sum(result.ignored_count for result in results),
    )


def _lint(deployment: _Deployment, catalog: Catalog, given: str) -> LintResult:
    for path in deployment.files:
        catalog = catalog_with_blueprint(catalog, _blueprint(path))
    artefacts = [Artefact(name=str(path), text=read_text(path)) for path in deployment.files]
    artefacts += deployment.rendered
    optional = {row.name for row in artefacts} if deployment.is_folder else set()
    result = lint(artefacts, catalog, given, optional)
    scripts = {part.file for part in result.documents if part.type == "sbatch"}
    broken = (
        finding
        for artefact in artefacts
        if artefact.name in scripts
        for finding in _bash_findings(artefact)
    )
    findings = (*broken, *result.findings, *deployment.notes)
    remaining, ignored_count = without_ignored(findings, artefacts)
    return replace(result, findings=remaining, ignored_count=ignored_count)


def _blueprint(path: Path) -> Blueprint | None:
    """The blueprint of a rendered deployment, with the rows of the user's own machines."""
    if path.name != BLUEPRINT:
        return None
    try:
        return blueprint_from_json(read_text(path), str(path))
    except InputError:
        return None  # reported by the linter as a file of its kind


def _deployments(paths: Sequence[Path]) -> Iterator[_Deployment]:
    named: list[Path] = []
    folders: list[Path] = []
    for path in paths:
        for match in _matches(path):
            (folders if match.is_dir() else named).append(match)
    if named:
        yield _Deployment(files=tuple(named))
    for folder in folders:
        inside = list(_folder_deployments(folder))
        if not inside:
            raise InputError.one(
                str(folder), "no file to lint in this folder", f"put {', '.join(SUFFIXES)} there"
            )
        yield from inside


def _matches(path: Path) -> list[Path]:
    """The paths of a pattern such as `deploy/**/*.yaml`, or the path itself."""
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    matches = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]
    if not matches:
        raise InputError.one(str(path), "no file matches this pattern", "name existing files")
    return matches


def _folder_deployments(folder: Path) -> Iterator[_Deployment]:
    if (folder / CHART).is_file():
        yield _rendered(folder, "helm", ("helm", "template", folder.name or "chart", str(folder)))
        return
    if (folder / DEPLOYMENT).is_file():
        # Its kustomization and Terraform module are other forms of the same files.
        names = sorted(file.name for file in folder.iterdir() if file.suffix in SUFFIXES)
        files = [folder / name for name in names if not is_extra_file(name)]
        yield _Deployment(files=tuple(files), is_folder=True)
        return
    if any((folder / name).is_file() for name in KUSTOMIZATIONS):
        if shutil.which("kustomize"):
            yield _rendered(folder, "kustomize", ("kustomize", "build", str(folder)))
        else:
            yield _rendered(folder, "kubectl", ("kubectl", "kustomize", str(folder)))
    else:
        files = sorted(
            file for file in folder.iterdir() if file.suffix in SUFFIXES and file.is_file()
        )
        if files:
            yield _Deployment(files=tuple(files), is_folder=True)
    for child in sorted(folder.iterdir()):
        if child.is_dir() and not child.name.startswith(".") and child.name not in SKIPPED_FOLDERS:
            yield from _folder_deployments(child)


def _rendered(folder: Path, tool: str, command: tuple[str, ...]) -> _Deployment:
    """The output of Helm or Kustomize for a folder, or a note where it cannot be rendered."""
    if shutil.which(tool) is None:
        return _left_out(folder, f"is rendered by {tool}, which is not installed")
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=RENDER_S, check=False, encoding="utf-8"
    )
    if done.returncode != 0:
        error = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return _left_out(folder, f"`{' '.join(command)}` failed: {error}")
    name = f"{folder} ({' '.join(command[:2])})"
    return _Deployment(rendered=(Artefact(name=name, text=done.stdout),), is_folder=True)


def _left_out(folder: Path, what: str) -> _Deployment:
    return _Deployment(
        notes=(Finding(rule=LEFT_OUT, severity="note", where=str(folder), what=what),)
    )


def _bash_findings(artefact: Artefact) -> tuple[Finding, ...]:
    bash = shutil.which("bash")
    if bash is None:
        return ()
    done = subprocess.run(
        [bash, "-n"],
        input=artefact.text,
        capture_output=True,
        text=True,
        timeout=BASH_S,
        check=False,
    )
    if done.returncode == 0:
        return ()
    first = (done.stderr.strip().splitlines() or ["bash cannot parse it"])[0]
    line = re.search(r"line (\d+): (.*)", first)
    where, what = (
        (f"{artefact.name}:{line.group(1)}", line.group(2)) if line else (artefact.name, first)
    )
    return (
        Finding(rule="bash", severity="error", where=where, what=what, fix="fix the syntax error"),
    )
