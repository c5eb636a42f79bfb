"""`gpuyard provision`: render the files that deploy an option of a plan, with a README."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from gpuyard.app.plan import POOL_PLATFORMS, first_deployable_option
from gpuyard.app.workspace import Workspace, catalog_with_blueprint
from gpuyard.blueprint.blueprint import Blueprint, Evidence
from gpuyard.blueprint.diff import Change, diff_blueprints
from gpuyard.blueprint.make import make_blueprint
from gpuyard.blueprint.saved import blueprint_from_json, blueprint_hash, blueprint_to_json
from gpuyard.catalog.load import Catalog
from gpuyard.document.frozen_json import FrozenJson, Plain
from gpuyard.document.read import parse_json
from gpuyard.errors import ExternalError, InputError, Problem, Severity, choices_text, closest_match
from gpuyard.fabric.fabric import Fabric
from gpuyard.home import write_atomic
from gpuyard.plan.option import Plan
from gpuyard.provision.apply.journal import check_nothing_deployed
from gpuyard.provision.apply.signing import created_key, signature
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.cost_bound import CostBound, cost_bound_of
from gpuyard.provision.deployment import (
    DEPLOYMENT,
    Deployment,
    deployment_from_json,
    deployment_to_json,
    rendered_file,
)
from gpuyard.provision.deployment_settings import (
    FLEX_START_MAX_S,
    DeploymentSettings,
    resolve_settings,
)
from gpuyard.provision.extra_files import with_extra_files
from gpuyard.provision.extra_names import TERRAFORM_FOLDER
from gpuyard.provision.lint import LintResult, lint
from gpuyard.provision.platform import Artefacts, Platform, Unsuitable
from gpuyard.provision.platforms import PLATFORMS, platform_named
from gpuyard.provision.readme import readme
from gpuyard.provision.setting_checks import check_values
from gpuyard.provision.terraform.module import MAIN
from gpuyard.units import DURATION, show
from gpuyard.workload.where import ConsumptionName

BLUEPRINT = "blueprint.json"
TERRAFORM_STATE = f"{TERRAFORM_FOLDER}/terraform.tfstate"
WEIGHTS_RULE = "weights-fit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provisioned:
    """A rendered deployment: its blueprint, files, lint result and cost bound."""

    blueprint: Blueprint
    artefacts: Artefacts
    lint: LintResult
    cost_bound: CostBound
    platform: str
    files: tuple[Artefact, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(file.name for file in self.files)


def provision(
    blueprint: Blueprint, platform: str, settings: DeploymentSettings, catalog: Catalog
) -> Provisioned | Unsuitable:
    """Render a blueprint for a platform, or say why the platform cannot run it."""
    target = _platform(platform)
    check_values(blueprint, settings)
    unsuitable = _without_gateway(target, blueprint, settings) or _too_long_for_flex_start(
        blueprint, platform, settings
    )
    if unsuitable is not None:
        return unsuitable
    resolved = resolve_settings(blueprint, settings)
    artefacts = target.render(blueprint, resolved)
    if isinstance(artefacts, Unsuitable):
        return artefacts
    artefacts = replace(artefacts, notes=(*_flex_start_notes(blueprint), *artefacts.notes))
    result = lint(artefacts.files, catalog_with_blueprint(catalog, blueprint))
    too_large = next((row for row in result.errors if row.rule == WEIGHTS_RULE), None)
    if too_large is not None:
        # The plan counts on fewer bits than the checkpoint that its command names.
        return Unsuitable(
            platform=target.name,
            why=f"the engine would run out of memory: {too_large.what}",
            nearest="another --option",
            nearest_why="one whose command names a checkpoint in the planned format",
        )
    if result.errors:
        raise InputError(
            Problem(where=item.where, what=item.what, fix=item.fix) for item in result.errors
        )
    bound = cost_bound_of(blueprint, resolved, artefacts.unbounded)
    artefacts = with_extra_files(artefacts, resolved)
    files = (
        *artefacts.files,
        *artefacts.extra_files,
        readme(blueprint, resolved, artefacts, bound, target.label),
        Artefact(name=BLUEPRINT, text=blueprint_to_json(blueprint)),
    )
    deployment = Deployment(
        platform=target.name,
        blueprint=blueprint_hash(blueprint),
        settings=settings,
        cost_bound=bound,
        files=tuple(rendered_file(item) for item in files),
    )
    return Provisioned(
        blueprint=blueprint,
        artefacts=artefacts,
        lint=result,
        cost_bound=bound,
        platform=target.name,
        files=(*files, Artefact(name=DEPLOYMENT, text=deployment_to_json(deployment))),
    )


def provision_first_suitable(
    blueprint: Blueprint,
    platforms: Iterable[str],
    settings: DeploymentSettings,
    catalog: Catalog,
) -> Provisioned | None:
    """Render a blueprint for the first of the platforms that can run it; None without one."""
    for platform in platforms:
        deployment = provision(blueprint, platform, settings, catalog)
        if isinstance(deployment, Provisioned):
            return deployment
    return None


def _without_gateway(
    platform: Platform, blueprint: Blueprint, settings: DeploymentSettings
) -> Unsuitable | None:
    if not settings.gateway or platform.name in ("gke", "kubernetes"):
        return None
    return Unsuitable(
        platform=platform.name,
        why="only services on Kubernetes have an inference gateway",
        nearest="gke" if blueprint.machine.provider == "google" else "kubernetes",
        nearest_why="it renders one; or leave out --gateway",
    )


def _too_long_for_flex_start(
    blueprint: Blueprint, platform: str, settings: DeploymentSettings
) -> Unsuitable | None:
    """Return why flex-start cannot run the job to its end, unless one part of it is requested."""
    is_part = settings.ttl_s is not None and settings.ttl_s <= FLEX_START_MAX_S
    if blueprint.consumption != "flex-start" or not blueprint.is_batch or is_part:
        return None
    if blueprint.expected_s <= FLEX_START_MAX_S:
        return None
    count = math.ceil(blueprint.expected_s / FLEX_START_MAX_S)
    limit, needed = show(FLEX_START_MAX_S, DURATION), show(blueprint.expected_s, DURATION)
    return Unsuitable(
        platform=platform,
        why=f"a flex-start machine lives for at most {limit}, and the run takes {needed}",
        nearest="--consumption reservation",
        nearest_why=f"it lasts for the whole run; or submit {count} jobs one after the other, "
        f"each with --ttl {limit} and resuming from the last checkpoint",
    )


def _flex_start_notes(blueprint: Blueprint) -> Iterator[str]:
    if blueprint.consumption != "flex-start" or not blueprint.is_batch:
        return
    latest_s = blueprint.expected_s * (1.0 + blueprint.option.error_ratio)
    if latest_s > FLEX_START_MAX_S:
        yield (
            f"Flex-start ends the machines after {show(FLEX_START_MAX_S, DURATION)}, and the run "
            f"may take up to {show(latest_s, DURATION)}: be ready to submit it again, from its "
            "last checkpoint."
        )


def _platform(name: str) -> Platform:
    platform = platform_named(name)
    if platform is None:
        known = [item.name for item in PLATFORMS]
        meant = closest_match(name, known)
        fix = f'use "{meant}"' if meant else f"use {choices_text(known)}"
        raise InputError.one("--on", f'no platform named "{name}"', fix)
    return platform


def blueprint_of_option(
    workspace: Workspace,
    plan: Plan,
    number: int = 1,
    *,
    consumption: ConsumptionName | None = None,
    fabric: Fabric | None = None,
    evidence: tuple[Evidence, ...] = (),
) -> Blueprint:
    """Freeze option `number` of a plan as a blueprint."""
    return make_blueprint(
        workspace.workload,
        plan,
        number,
        workspace.catalog,
        consumption=consumption,
        fabric=fabric,
        evidence=evidence,
    )


def default_option(plan: Plan, platform: str) -> tuple[int, str]:
    """Return the option to deploy by default on a platform, and why it is not the first."""
    number = first_deployable_option(plan, platform) or 1
    if number == 1:
        return number, ""
    return number, (
        f"this is option {number}: the plan's first option uses disaggregated prefill, whose pools "
        f"are deployed on {choices_text(POOL_PLATFORMS)}"
    )


def read_blueprint(path: Path) -> Blueprint:
    """Read a saved blueprint."""
    return blueprint_from_json(_text(path), str(path))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError.one(
            str(path), f"cannot be read: {error}", "name a file that can be read"
        ) from None


def read_evidence(path: Path) -> tuple[Evidence, ...]:
    """Read the output of `gpuyard fabric verify --json` or `gpuyard simulate … --json`."""
    fix = "save what a command printed with --json"
    tree = parse_json(_text(path), str(path))
    if not isinstance(tree, dict):
        raise InputError.one(str(path), "not a mapping", fix)
    return evidence_of(path.stem, tree)


def evidence_of(name: str, tree: dict[str, Plain]) -> tuple[Evidence, ...]:
    """Evidence for a blueprint: every finding of a verification, or the numbers of a simulation."""
    rows = tree.get("findings")
    if isinstance(rows, list):
        return tuple(_finding_evidence(row) for row in rows if isinstance(row, dict))
    numbers = [f"{key} {value:g}" for key, value in tree.items() if isinstance(value, float)][:4]
    what = ", ".join(numbers)
    return (Evidence(kind="simulation", name=name, what=what, numbers=FrozenJson.of(tree)),)


def _finding_evidence(row: dict[str, Plain]) -> Evidence:
    rule = row.get("rule", row.get("check", ""))  # version 0.1 wrote "check"
    severity = cast(Severity, str(row.get("severity", "note")))
    what = f"{row.get('where', '')}: {row.get('what', '')}"
    return Evidence(kind="finding", name=str(rule), what=what, severity=severity)


def changes_since(folder: Path, blueprint: Blueprint) -> tuple[Change, ...]:
    """Differences from the blueprint in the folder; none where there is no readable one."""
    earlier = folder / BLUEPRINT
    if not earlier.exists():
        return ()
    try:
        return diff_blueprints(blueprint_from_json(_text(earlier), str(earlier)), blueprint)
    except InputError:
        return ()  # it is overwritten in any case


def write_deployment(folder: Path, files: Sequence[Artefact]) -> None:
    """Write rendered files, and remove those of an earlier rendering that no longer exist."""
    check_nothing_deployed(folder)
    _check_terraform_state(folder, files)
    signed = (*files, *_signatures(files))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in _earlier_files(folder, {item.name for item in files}):
            path.unlink(missing_ok=True)
        for item in signed:
            (folder / item.name).parent.mkdir(parents=True, exist_ok=True)
            write_atomic(folder / item.name, item.text)
    except OSError as error:
        raise ExternalError(
            str(folder), f"cannot be written: {error}", "name another folder with -o"
        ) from None


def _check_terraform_state(folder: Path, files: Sequence[Artefact]) -> None:
    """Refuse to remove a module that Terraform has applied: its state would have no resources."""
    state = folder / TERRAFORM_STATE
    if state.exists() and all(file.name != MAIN for file in files):
        fix = "run terraform destroy first, use --format terraform, or name another folder with -o"
        raise InputError.one(str(state), "exists: Terraform manages this deployment", fix)


def _earlier_files(folder: Path, names: set[str]) -> Iterator[Path]:
    """Files of an earlier rendering that this one does not write; never outside the folder."""
    earlier = folder / DEPLOYMENT
    if not earlier.exists():
        return
    root = folder.resolve()
    for item in deployment_from_json(_text(earlier), str(earlier)).files:
        path = root / item.name
        if item.name not in names and path.parent.resolve().is_relative_to(root):
            yield path


def _signatures(files: Sequence[Artefact]) -> Iterator[Artefact]:
    # Without a state directory the files can still be applied by hand; --apply then says why it
    # cannot verify them.
    with contextlib.suppress(ExternalError):
        key = created_key()
        yield from (signature(item.text, key) for item in files if item.name == DEPLOYMENT)
