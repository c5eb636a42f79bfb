"""deployment.json: what a folder was rendered from, to detect later changes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.encode import dump_json, load_json
from gpuyard.document.field_types import Doc, FormerName
from gpuyard.errors import InputError
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.cost_bound import CostBound
from gpuyard.provision.deployment_settings import DeploymentSettings

DEPLOYMENT = "deployment.json"
FORMAT = "gpuyard-deployment-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedFile:
    """A rendered file and its checksum."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A rendered deployment: platform, blueprint, settings, cost bound and files."""

    platform: str
    blueprint: Annotated[str, Doc("hash of the blueprint.json next to it")]
    settings: DeploymentSettings
    cost_bound: Annotated[CostBound, FormerName("exposure")]
    files: tuple[RenderedFile, ...]
    format: str = FORMAT


def rendered_file(artefact: Artefact) -> RenderedFile:
    """Return the record of a rendered file."""
    sha256 = hashlib.sha256(artefact.text.encode()).hexdigest()
    return RenderedFile(name=artefact.name, sha256=sha256)


def deployment_to_json(deployment: Deployment) -> str:
    """Return the deployment as JSON text."""
    return dump_json(deployment)


def deployment_from_json(text: str, file: str = DEPLOYMENT) -> Deployment:
    """Load a saved deployment; InputError if the text is not one."""
    deployment = load_json(text, Deployment, file)
    if deployment.format != FORMAT:
        what = f'format is "{deployment.format}"'
        raise InputError.one(file, what, f"render it again: this version reads {FORMAT}")
    return deployment
