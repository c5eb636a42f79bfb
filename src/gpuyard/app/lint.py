"""`gpuyard lint`: is what you are about to deploy right."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpuyard.catalog import load_catalog
from gpuyard.document import read_text
from gpuyard.errors import InputError
from gpuyard.provision import Artefact, Finding, Lint, lint

__all__ = ["lint_files"]

SUFFIXES = (".yaml", ".yml", ".json", ".sh", ".sbatch", ".slurm")
BASH_S = 20


def lint_files(paths: Sequence[Path], layers: Sequence[Path] = (), given: str = "") -> Lint:
    """What is wrong with the files (a folder gives all of its own) when they are deployed together."""
    files = _files(paths)
    artefacts = [Artefact(name=str(path), text=read_text(path)) for path in files]
    perhaps = {str(path) for path in files if path not in paths}
    found = lint(artefacts, load_catalog(layers), given, perhaps)
    scripts = {part.file for part in found.parts if part.type == "sbatch"}
    broken = tuple(
        finding for artefact in artefacts if artefact.name in scripts for finding in _bash_findings(artefact)
    )
    return replace(found, findings=(*broken, *found.findings))


def _files(paths: Sequence[Path]) -> list[Path]:
    """The files themselves, and those of the folders."""
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
        if not inside:
            raise InputError.one(str(path), "no file to lint in this folder", f"put {', '.join(SUFFIXES)} there")
        found += inside
    return found


def _bash_findings(artefact: Artefact) -> tuple[Finding, ...]:
    """What bash says of the script's syntax; nothing where there is no bash."""
    bash = shutil.which("bash")
    if bash is None:
        return ()
    done = subprocess.run(
        [bash, "-n"], input=artefact.text, capture_output=True, text=True, timeout=BASH_S, check=False
    )
    if done.returncode == 0:
        return ()
    first = (done.stderr.strip().splitlines() or ["bash cannot read it"])[0]
    line = re.search(r"line (\d+): (.*)", first)
    where, what = (f"{artefact.name}:{line.group(1)}", line.group(2)) if line else (artefact.name, first)
    return (Finding(rule="bash", severity="error", where=where, what=what, fix="mend the syntax there"),)
