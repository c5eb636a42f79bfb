"""Read a rendered deployment from its files and check that they are unchanged."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.blueprint.saved import blueprint_from_json, blueprint_hash
from gpuyard.document.field_types import Doc
from gpuyard.errors import InputError, Problem
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.cost_bound import CostBound, cost_bound_of
from gpuyard.provision.deployment import DEPLOYMENT, Deployment, deployment_from_json
from gpuyard.provision.deployment_settings import ResolvedSettings, resolve_settings
from gpuyard.provision.extra_names import is_extra_file
from gpuyard.provision.platform import Artefacts
from gpuyard.provision.platforms import platform_named

BLUEPRINT = "blueprint.json"
NOT_APPLIED = (BLUEPRINT, "README.md")
RENDER_AGAIN = "render it again with `gpuyard provision`"


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedDeployment:
    """A rendered deployment: blueprint, settings, cost bound and files."""

    hash: Annotated[str, Doc("SHA-256 of the rendered files, README included")]
    deployment: Deployment
    blueprint: Blueprint
    settings: ResolvedSettings
    artefacts: tuple[Artefact, ...]

    @property
    def cost_bound(self) -> CostBound:
        """Expected and maximum cost."""
        return self.deployment.cost_bound

    @property
    def plan_hash(self) -> str:
        """Value of the label plan-hash on everything it creates."""
        return str(self.settings.labels["plan-hash"])


def read_rendered_deployment(texts: Mapping[str, str], folder: str) -> RenderedDeployment:
    """Return the deployment in a folder, given its texts by file name.

    Raises InputError with every file that is missing, changed or unexpected.
    """
    if DEPLOYMENT not in texts:
        fix = "write one with `gpuyard provision FILE --on PLATFORM -o DIR`"
        raise InputError.one(folder, "contains no rendered deployment", fix)
    deployment = deployment_from_json(texts[DEPLOYMENT], f"{folder}/{DEPLOYMENT}")
    _check_unchanged(deployment, texts, folder)
    blueprint = blueprint_from_json(texts.get(BLUEPRINT, ""), f"{folder}/{BLUEPRINT}")
    settings = resolve_settings(blueprint, deployment.settings)
    if (
        blueprint_hash(blueprint) != deployment.blueprint
        or cost_bound_of(blueprint, settings, deployment.cost_bound.unbounded)
        != deployment.cost_bound
    ):
        what = "does not match its blueprint: it was changed after rendering"
        raise InputError.one(f"{folder}/{DEPLOYMENT}", what, RENDER_AGAIN)
    digests = sorted((file.name, file.sha256) for file in deployment.files)
    return RenderedDeployment(
        hash=_sha256(json.dumps([deployment.platform, digests])),
        deployment=deployment,
        blueprint=blueprint,
        settings=settings,
        artefacts=tuple(
            Artefact(name=file.name, text=texts[file.name])
            for file in deployment.files
            if file.name not in NOT_APPLIED and not is_extra_file(file.name)
        ),
    )


def check_rendering(rendered: RenderedDeployment, folder: str) -> None:
    """Raise InputError if rendering the blueprint again does not give the same files."""
    platform = platform_named(rendered.deployment.platform)
    fresh = platform.render(rendered.blueprint, rendered.settings) if platform else None
    texts = {file.name: file.text for file in fresh.files} if isinstance(fresh, Artefacts) else {}
    if isinstance(fresh, Artefacts) and fresh.unbounded != rendered.cost_bound.unbounded:
        what = "its maximum cost differs from a fresh rendering"
        raise InputError.one(f"{folder}/{DEPLOYMENT}", what, RENDER_AGAIN)
    problems = [
        Problem(
            where=f"{folder}/{file.name}",
            what="differs from a fresh rendering: changed, or written by another version",
            fix=RENDER_AGAIN,
        )
        for file in rendered.artefacts
        if texts.get(file.name) != file.text
    ]
    if problems:
        raise InputError(problems)


def _check_unchanged(deployment: Deployment, texts: Mapping[str, str], folder: str) -> None:
    checksums = {file.name: file.sha256 for file in deployment.files}
    problems = [
        Problem(
            where=f"{folder}/{name}",
            what="is missing" if name not in texts else "was changed",
            fix=RENDER_AGAIN,
        )
        for name, digest in checksums.items()
        if name not in texts or _sha256(texts[name]) != digest
    ]
    problems += [
        Problem(
            where=f"{folder}/{name}",
            what="does not belong to this rendering",
            fix=f"delete it, or {RENDER_AGAIN}",
        )
        for name in texts
        # Only numbered files would be applied; the user may keep other files in the folder.
        if name not in checksums and re.match(r"\d\d-", name)
    ]
    if problems:
        raise InputError(problems)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
