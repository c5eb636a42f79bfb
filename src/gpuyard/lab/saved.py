"""Saves a lab's description on this host until it is removed or the host restarts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from gpuyard.document.encode import dump_json, load_json_file
from gpuyard.document.field_types import Doc, FormerName
from gpuyard.errors import InputError, choices_text
from gpuyard.fabric.saved import from_json, to_json
from gpuyard.home import write_atomic
from gpuyard.lab.boot import labs
from gpuyard.lab.links import Lab, LabLink

FOLDER = Path("/run/gpuyard/labs")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """What later commands need."""

    name: str
    fabric: Annotated[str, Doc("as `fabric design` saves it")]
    links: Annotated[tuple[LabLink, ...], FormerName("wires")]


def save(lab: Lab) -> None:
    """Save the description of a lab; call it before `boot`."""
    record = _Record(name=lab.name, fabric=to_json(lab.fabric), links=lab.links)
    write_atomic(FOLDER / f"{lab.name}.json", dump_json(record))


def load(name: str) -> Lab:
    """Return the running lab with this name."""
    path = FOLDER / f"{name}.json"
    running = labs()
    if name not in running or not path.exists():
        fix = f"use --name {choices_text(running)}" if running else "gpuyard lab up FABRIC.json"
        raise InputError.one(f"lab {name}", "is not up", fix)
    record = load_json_file(path, _Record)
    return Lab(name=record.name, fabric=from_json(record.fabric, str(path)), links=record.links)


def delete(name: str) -> None:
    """Delete the description of a lab."""
    (FOLDER / f"{name}.json").unlink(missing_ok=True)
