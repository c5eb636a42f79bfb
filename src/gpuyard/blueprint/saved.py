"""Save a blueprint as JSON and load it; the SHA-256 hash that identifies it."""

from __future__ import annotations

import datetime
import hashlib
import json
from dataclasses import dataclass
from typing import Annotated

from gpuyard.blueprint.blueprint import Blueprint, Evidence
from gpuyard.catalog.chips import Chip
from gpuyard.catalog.machines import Machine
from gpuyard.document.encode import load_json, plain
from gpuyard.document.field_types import FormerName
from gpuyard.document.frozen_json import FrozenJson, Plain
from gpuyard.document.read import parse_json
from gpuyard.errors import InputError
from gpuyard.fabric.saved import from_json, to_json
from gpuyard.plan.option import Option
from gpuyard.workload.where import ConsumptionName
from gpuyard.workload.workload import Workload

FORMAT = "gpuyard-blueprint-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Saved:
    # The fabric stays a tree here: its own package reads it.
    format: str
    hash: str
    workload: Workload
    option: Option
    machine: Machine
    chip: Chip | None = None
    consumption: Annotated[ConsumptionName | None, FormerName("way")] = None
    number: int = 1
    profile: str = ""
    priced: str | None = None
    fabric: FrozenJson | None = None
    evidence: Annotated[tuple[Evidence, ...], FormerName("proofs")] = ()


def blueprint_tree(blueprint: Blueprint) -> dict[str, Plain]:
    """Return the blueprint as dictionaries, lists and scalars."""
    values = {
        "workload": plain(blueprint.workload),
        "option": plain(blueprint.option),
        "machine": plain(blueprint.machine),
        "chip": plain(blueprint.chip),
        "consumption": blueprint.consumption,
        "number": blueprint.number,
        "profile": blueprint.profile,
        "priced": plain(blueprint.priced),
        "fabric": None if blueprint.fabric is None else json.loads(to_json(blueprint.fabric)),
        "evidence": plain(blueprint.evidence),
    }
    return {key: _with_integers(value) for key, value in values.items() if value is not None}


def blueprint_hash(blueprint: Blueprint) -> str:
    """Return the SHA-256 of the canonical JSON, the same on every machine."""
    return _hash(blueprint_tree(blueprint))


def _hash(tree: Plain) -> str:
    text = json.dumps(
        tree, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    return hashlib.sha256(text.encode()).hexdigest()


def _with_integers(tree: Plain) -> Plain:
    # 48 and 48.0 are the same value and must have the same hash.
    if isinstance(tree, dict):
        return {key: _with_integers(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_with_integers(value) for value in tree]
    return int(tree) if isinstance(tree, float) and tree.is_integer() else tree


def blueprint_to_json(blueprint: Blueprint) -> str:
    """Return the blueprint as JSON text with its hash."""
    tree = blueprint_tree(blueprint)
    saved: dict[str, Plain] = {"format": FORMAT, "hash": _hash(tree), **tree}
    return json.dumps(saved, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def blueprint_from_json(text: str, file: str = "<json>") -> Blueprint:
    """Load a saved blueprint.

    Raises:
        InputError: the text is not a blueprint, or it was changed after it was saved.
    """
    saved = load_json(text, _Saved, file)
    if saved.format != FORMAT:
        raise InputError.one(
            file, f'format is "{saved.format}"', f"render it again: this version reads {FORMAT}"
        )
    tree = parse_json(text, file)
    assert isinstance(tree, dict)  # decoded above
    contents = {key: value for key, value in tree.items() if key not in ("format", "hash")}
    if _hash(_with_integers(contents)) != saved.hash:
        what = "the contents do not match the hash: the file was changed after it was saved"
        raise InputError.one(file, what, "render it again with `gpuyard provision`")
    return Blueprint(
        workload=saved.workload,
        option=saved.option,
        machine=saved.machine,
        chip=saved.chip,
        consumption=saved.consumption,
        number=saved.number,
        profile=saved.profile,
        priced=None if saved.priced is None else _date(saved.priced, file),
        fabric=None if saved.fabric is None else from_json(saved.fabric.text, f"{file}: fabric"),
        evidence=saved.evidence,
    )


def _date(text: str, file: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise InputError.one(
            f"{file}: priced", f'"{text}" is not a date', "write it like 2026-08-21"
        ) from None
