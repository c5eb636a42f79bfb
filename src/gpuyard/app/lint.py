"""`gpuyard lint`: check deployment files before they are applied."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpuyard.app.workspace import catalog_with_blueprint
from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.blueprint.saved import blueprint_from_json
from gpuyard.catalog.load import Catalog
from gpuyard.document.read import read_text
from gpuyard.errors import Finding, InputError
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.lint import LintResult, lint

SUFFIXES = (".yaml", ".yml", ".json", ".sh", ".sbatch", ".slurm")
BLUEPRINT = "blueprint.json"
BASH_S = 20


def lint_files(paths: Sequence[Path], catalog: Catalog, given: str = "") -> LintResult:
    """Lint files that are deployed together; a folder means all of its files."""
    files = _files(paths)
    for path in files:
        catalog = catalog_with_blueprint(catalog, _blueprint(path))
    artefacts = [Artefact(name=str(path), text=read_text(path)) for path in files]
    perhaps = {str(path) for path in files if path not in paths}
    result = lint(artefacts, catalog, given, perhaps)
    scripts = {part.file for part in result.documents if part.type == "sbatch"}
    broken = tuple(
        finding
        for artefact in artefacts
        if artefact.name in scripts
        for finding in _bash_findings(artefact)
    )
    return replace(result, findings=(*broken, *result.findings))


def _blueprint(path: Path) -> Blueprint | None:
    """The blueprint of a rendered deployment, with the rows of the user's own machines."""
    if path.name != BLUEPRINT:
        return None
    try:
        return blueprint_from_json(read_text(path), str(path))
    except InputError:
        return None  # reported by the linter as a file of its kind


def _files(paths: Sequence[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        inside = sorted(
            file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file()
        )
        if not inside:
            raise InputError.one(
                str(path), "no file to lint in this folder", f"put {', '.join(SUFFIXES)} there"
            )
        files += inside
    return files


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
