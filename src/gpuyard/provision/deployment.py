"""A rendered deployment as a file: what was rendered from what, so that a later command can tell whether it drifted."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated

from gpuyard.document import Doc, dump_json, load_json
from gpuyard.errors import InputError
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.exposure import Exposure
from gpuyard.provision.settings import Settings

__all__ = ["DEPLOYMENT", "Deployment", "Rendered", "deployment_from_json", "deployment_to_json", "rendered"]

DEPLOYMENT = "deployment.json"
FORMAT = "gpuyard-deployment-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """One file that was written."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What stands in a folder."""

    platform: str
    blueprint: Annotated[str, Doc("hash of blueprint.json beside it")]
    settings: Settings
    exposure: Exposure
    files: tuple[Rendered, ...]
    format: str = FORMAT


def rendered(artefact: Artefact) -> Rendered:
    """A file with the hash of its text."""
    return Rendered(name=artefact.name, sha256=hashlib.sha256(artefact.text.encode()).hexdigest())


def deployment_to_json(deployment: Deployment) -> str:
    """The deployment as JSON text."""
    return dump_json(deployment)


def deployment_from_json(text: str, file: str = DEPLOYMENT) -> Deployment:
    """The deployment that was written; InputError where it is none."""
    found = load_json(text, Deployment, file)
    if found.format != FORMAT:
        raise InputError.one(file, f'format is "{found.format}"', f"render it again: this version reads {FORMAT}")
    return found
