"""Modules of a Cluster Toolkit blueprint, and its escaping of shell scripts."""

from __future__ import annotations

from pathlib import Path

from gpuyard.document.frozen_json import Plain

Module = dict[str, Plain]
DATA = Path(__file__).parent / "data"
# The release of slurm-gcp in the Toolkit's own blueprints (1047080, 2026-06-25).
SLURM_GCP = "6.12.1"


def module(name: str, source: str, use: tuple[str, ...] = (), /, **settings: Plain) -> Module:
    """Return a module with the modules it uses and its settings, except those that are None."""
    result: Module = {"id": name, "source": source}
    if use:
        result["use"] = [*use]
    values: dict[str, Plain] = {key: value for key, value in settings.items() if value is not None}
    if values:
        result["settings"] = values
    return result


def runner(name: str, text: str) -> dict[str, Plain]:
    """Return a runner of a startup script: one shell script."""
    return {"type": "shell", "destination": name, "content": escaped(text)}


def own_script(name: str) -> str:
    """Return a shell script that ships with gpuyard."""
    return (DATA / name).read_text(encoding="utf-8").replace("SLURM_GCP", SLURM_GCP)


def escaped(text: str) -> str:
    """Return a shell script in which the Toolkit does not read $( as its own reference."""
    return text.replace("$(", "\\$(")
