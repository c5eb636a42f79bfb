"""A blueprint as JSON text and back, and the hash that names it."""

from __future__ import annotations

import datetime
import hashlib
import json
from dataclasses import dataclass

from gpuyard.blueprint.blueprint import Blueprint, Proof
from gpuyard.catalog import Chip, Machine
from gpuyard.document import Plain, Settings, load_json, plain
from gpuyard.errors import InputError
from gpuyard.fabric import Fabric, from_json, to_json
from gpuyard.plan import Option
from gpuyard.workload import ConsumptionName, Workload

__all__ = ["FORMAT", "blueprint_from_json", "blueprint_hash", "blueprint_to_json", "blueprint_tree"]

FORMAT = "gpuyard-blueprint-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Saved:
    """The file, its fabric kept as a tree because the fabric's own room reads it."""

    format: str
    hash: str
    workload: Workload
    option: Option
    machine: Machine
    chip: Chip | None = None
    way: ConsumptionName | None = None
    number: int = 1
    profile: str = ""
    priced: str | None = None
    fabric: Settings | None = None
    proofs: tuple[Proof, ...] = ()


def blueprint_tree(blueprint: Blueprint) -> dict[str, Plain]:
    """The blueprint as dictionaries, lists and scalars."""
    values = {
        "workload": plain(blueprint.workload),
        "option": plain(blueprint.option),
        "machine": plain(blueprint.machine),
        "chip": plain(blueprint.chip),
        "way": blueprint.way,
        "number": blueprint.number,
        "profile": blueprint.profile,
        "priced": plain(blueprint.priced),
        "fabric": None if blueprint.fabric is None else json.loads(to_json(blueprint.fabric)),
        "proofs": plain(blueprint.proofs),
    }
    return {key: _even(value) for key, value in values.items() if value is not None}


def blueprint_hash(blueprint: Blueprint) -> str:
    """The sha256 of the canonical JSON: the same decision gives the same 64 digits on every machine."""
    return _hash(blueprint_tree(blueprint))


def _hash(tree: Plain) -> str:
    """The sha256 of a tree as JSON with sorted keys and without blanks."""
    text = json.dumps(tree, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _even(tree: Plain) -> Plain:
    """The tree with one spelling of whole numbers: 48 and 48.0 are the same value."""
    if isinstance(tree, dict):
        return {key: _even(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_even(value) for value in tree]
    return int(tree) if isinstance(tree, float) and tree.is_integer() else tree


def blueprint_to_json(blueprint: Blueprint) -> str:
    """The blueprint as JSON text, with its hash."""
    tree = blueprint_tree(blueprint)
    whole: dict[str, Plain] = {"format": FORMAT, "hash": _hash(tree), **tree}
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def blueprint_from_json(text: str, file: str = "<json>") -> Blueprint:
    """The blueprint that was saved; InputError where it is none, or was changed after it was saved."""
    saved = load_json(text, _Saved, file)
    if saved.format != FORMAT:
        raise InputError.one(file, f'format is "{saved.format}"', f"make it again: this version reads {FORMAT}")
    blueprint = Blueprint(
        workload=saved.workload,
        option=saved.option,
        machine=saved.machine,
        chip=saved.chip,
        way=saved.way,
        number=saved.number,
        profile=saved.profile,
        priced=None if saved.priced is None else _date(saved.priced, file),
        fabric=None if saved.fabric is None else _fabric(saved.fabric, file),
        proofs=saved.proofs,
    )
    if blueprint_hash(blueprint) != saved.hash:
        what = "its contents are not those of its hash: it was changed after it was saved"
        raise InputError.one(file, what, "make it again with `gpuyard provision`")
    return blueprint


def _date(text: str, file: str) -> datetime.date:
    """The date of the prices."""
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise InputError.one(f"{file}: priced", f'"{text}" is not a date', "write it like 2026-08-21") from None


def _fabric(tree: Settings, file: str) -> Fabric:
    """The fabric, by its own room."""
    return from_json(tree.text, f"{file}: fabric")
