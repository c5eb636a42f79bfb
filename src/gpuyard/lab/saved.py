"""A lab's record on this host: gone after a restart, as its namespaces are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from gpuyard.document import Doc, dump_json, load_json
from gpuyard.errors import InputError
from gpuyard.fabric import from_json, to_json
from gpuyard.home import write_whole
from gpuyard.lab.boot import labs
from gpuyard.lab.wires import Lab, Wire

__all__ = ["forget", "keep", "recall"]

FOLDER = Path("/run/gpuyard/labs")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """What a later command needs to know."""

    name: str
    fabric: Annotated[str, Doc("as `fabric design` saves it")]
    wires: tuple[Wire, ...]


def keep(lab: Lab) -> None:
    """Saves the lab, before anything of it is made."""
    record = _Record(name=lab.name, fabric=to_json(lab.fabric), wires=lab.wires)
    write_whole(FOLDER / f"{lab.name}.json", dump_json(record))


def recall(name: str) -> Lab:
    """The lab of that name that stands on this host."""
    path = FOLDER / f"{name}.json"
    if name not in labs() or not path.exists():
        standing = ", ".join(labs())
        fix = f"use --name with one of: {standing}" if standing else "gpuyard lab up FABRIC.json"
        raise InputError.one(f"lab {name}", "it is not up", fix)
    record = load_json(path.read_text(encoding="utf-8"), _Record, str(path))
    return Lab(name=record.name, fabric=from_json(record.fabric, str(path)), wires=record.wires)


def forget(name: str) -> None:
    """Removes the record."""
    (FOLDER / f"{name}.json").unlink(missing_ok=True)
