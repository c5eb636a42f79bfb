"""Modules of a blueprint, and shell texts as the Toolkit reads them."""

from __future__ import annotations

from pathlib import Path

from gpuyard.document import Plain

__all__ = ["SLURM_GCP", "Module", "escaped", "module", "own_script", "runner"]

Module = dict[str, Plain]
DATA = Path(__file__).parent / "data"
SLURM_GCP = "6.12.1"  # release of slurm-gcp that the Toolkit's own blueprints build (1047080, 2026-06-25)


def module(name: str, source: str, use: tuple[str, ...] = (), /, **settings: Plain) -> Module:
    """One module with the modules that it uses and its settings; a setting of None is left out."""
    made: Module = {"id": name, "source": source}
    if use:
        made["use"] = [*use]
    given: dict[str, Plain] = {key: value for key, value in settings.items() if value is not None}
    if given:
        made["settings"] = given
    return made


def runner(name: str, text: str) -> dict[str, Plain]:
    """A shell script that a startup script runs."""
    return {"type": "shell", "destination": name, "content": escaped(text)}


def own_script(name: str) -> str:
    """A shell script that is shipped here."""
    return (DATA / name).read_text(encoding="utf-8").replace("SLURM_GCP", SLURM_GCP)


def escaped(text: str) -> str:
    """A shell text in which the Toolkit takes no $( for a reference of its own."""
    return text.replace("$(", "\\$(")
