"""`gpuyard provision`: the files that deploy an option of a plan, and the README that says how."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuyard.app.plan import one_pool, plan_workload
from gpuyard.blueprint import (
    Blueprint,
    Change,
    Proof,
    blueprint_from_json,
    blueprint_hash,
    blueprint_to_json,
    diff_blueprints,
    make_blueprint,
)
from gpuyard.catalog import Catalog, load_catalog
from gpuyard.document import Settings as AnyKeys
from gpuyard.errors import Infeasible, InputError, Problem, RefusedError, nearest, one_of
from gpuyard.fabric import from_json
from gpuyard.home import write_whole
from gpuyard.plan import Plan
from gpuyard.provision.apply.journal import check_none_stand
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.deployment import (
    DEPLOYMENT,
    Deployment,
    deployment_from_json,
    deployment_to_json,
    rendered,
)
from gpuyard.provision.exposure import Exposure, exposure_of
from gpuyard.provision.lint import Lint, lint
from gpuyard.provision.platform import Artefacts, Platform, Unsuitable
from gpuyard.provision.platforms import PLATFORMS, platform_named
from gpuyard.provision.readme import readme
from gpuyard.provision.settings import Settings, place_of
from gpuyard.workload import ConsumptionName, own_catalogs, read_workload

__all__ = ["BLUEPRINT", "Choice", "Provisioned", "blueprint_of", "provision_file"]

BLUEPRINT = "blueprint.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which option is deployed, and what was proven of it."""

    option: int = 1
    way: ConsumptionName | None = None
    profile: str = ""
    fabric: Path | None = None
    proofs: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Provisioned:
    """What was written."""

    folder: Path
    blueprint: Blueprint
    artefacts: Artefacts
    lint: Lint
    exposure: Exposure
    written: tuple[str, ...]
    changes: tuple[Change, ...] = ()


def provision_file(
    path: Path, platform: str, settings: Settings, folder: Path, choice: Choice, layers: Sequence[Path] = ()
) -> Provisioned | Unsuitable | Infeasible:
    """Renders a workload file or a saved blueprint for a platform into a folder, or says why it cannot be."""
    target = _platform(platform)
    catalog = load_catalog((*layers, *own_catalogs(path)) if path.suffix != ".json" else layers)
    blueprint = blueprint_of(path, catalog, choice)
    if isinstance(blueprint, Infeasible):
        return blueprint
    artefacts = target.render(blueprint, settings)
    if isinstance(artefacts, Unsuitable):
        return artefacts
    found = lint(artefacts.files, catalog)
    if found.errors:
        raise InputError(Problem(where=item.where, what=item.what, fix=item.fix) for item in found.errors)
    place = place_of(blueprint, settings)
    exposure = exposure_of(blueprint, place)
    files = (
        *artefacts.files,
        readme(blueprint, place, artefacts, exposure, target.label),
        Artefact(name=BLUEPRINT, text=blueprint_to_json(blueprint)),
    )
    deployment = Deployment(
        platform=target.name,
        blueprint=blueprint_hash(blueprint),
        settings=settings,
        exposure=exposure,
        files=tuple(rendered(item) for item in files),
    )
    changes = _changes(folder, blueprint)
    _write(folder, (*files, Artefact(name=DEPLOYMENT, text=deployment_to_json(deployment))))
    return Provisioned(
        folder=folder,
        blueprint=blueprint,
        artefacts=artefacts,
        lint=found,
        exposure=exposure,
        written=(*(item.name for item in files), DEPLOYMENT),
        changes=changes,
    )


def _platform(name: str) -> Platform:
    """The platform of that name."""
    found = platform_named(name)
    if found is None:
        known = [platform.name for platform in PLATFORMS]
        meant = nearest(name, known)
        fix = f'use "{meant}"' if meant else f"use {one_of(known)}"
        raise InputError.one("--on", f'no platform named "{name}"', fix)
    return found


def blueprint_of(path: Path, catalog: Catalog, choice: Choice) -> Blueprint | Infeasible:
    """The decision: a saved blueprint as it stands, or an option of the plan of a workload file."""
    if path.suffix == ".json":
        return blueprint_from_json(_text(path), str(path))
    workload = read_workload(path, catalog)
    plan = plan_workload(workload, catalog, choice.profile, path.parent)
    if isinstance(plan, Infeasible):
        return plan
    _refuse_pools(plan, choice.option)
    fabric = from_json(_text(choice.fabric), str(choice.fabric)) if choice.fabric else None
    proofs = tuple(proof for file in choice.proofs for proof in _proofs(file))
    return make_blueprint(workload, plan, choice.option, catalog, way=choice.way, fabric=fabric, proofs=proofs)


def _refuse_pools(plan: Plan, number: int) -> None:
    """InputError for an option that reads prompts apart."""
    service = plan.options[number - 1].service if 1 <= number <= len(plan.options) else None
    if service is None or service.prefill is None:
        return
    other = one_pool(plan)
    by_hand = f"start it with the lines of `gpuyard plan FILE --explain {number}`"
    fix = f"use --option {other}, the first of one pool, or {by_hand}" if other else by_hand
    raise InputError.one("--option", f"option {number} has a pool that reads prompts apart, which is not deployed", fix)


def _text(path: Path) -> str:
    """The text of a file."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError.one(str(path), f"cannot be read: {error}", "name a file that can be read") from None


def _proofs(path: Path) -> tuple[Proof, ...]:
    """What `gpuyard fabric verify --json` or `gpuyard simulate … --json` printed."""
    try:
        tree = json.loads(_text(path))
    except ValueError as error:
        raise InputError.one(str(path), f"not JSON: {error}", "save what a command printed with --json") from None
    if not isinstance(tree, dict):
        raise InputError.one(str(path), "not a mapping", "save what a command printed with --json")
    rows = tree.get("findings")
    if isinstance(rows, list):
        return tuple(
            Proof(
                kind="finding", name=str(row["check"]), what=f"{row['where']}: {row['what']}", severity=row["severity"]
            )
            for row in rows
            if isinstance(row, dict) and {"check", "where", "what", "severity"} <= row.keys()
        )
    told = [f"{key} {value:g}" for key, value in tree.items() if isinstance(value, float)][:4]
    return (Proof(kind="simulation", name=path.stem, what=", ".join(told), numbers=AnyKeys.of(tree)),)


def _changes(folder: Path, blueprint: Blueprint) -> tuple[Change, ...]:
    """What is not as it was when the folder was last written; nothing where there is no earlier decision to read."""
    earlier = folder / BLUEPRINT
    if not earlier.exists():
        return ()
    try:
        return diff_blueprints(blueprint_from_json(_text(earlier), str(earlier)), blueprint)
    except InputError:
        return ()  # it is written anew in any case


def _write(folder: Path, files: Sequence[Artefact]) -> None:
    """Writes the files, and removes those of an earlier rendering that are no longer there."""
    check_none_stand(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        earlier = folder / DEPLOYMENT
        if earlier.exists():
            names = {
                item.name for item in deployment_from_json(earlier.read_text(encoding="utf-8"), str(earlier)).files
            }
            for name in sorted(names - {item.name for item in files}):
                (folder / name).unlink(missing_ok=True)
        for item in files:
            (folder / item.name).parent.mkdir(parents=True, exist_ok=True)
            write_whole(folder / item.name, item.text)
    except OSError as error:
        raise RefusedError(str(folder), f"cannot be written: {error}", "name another folder with -o") from None
