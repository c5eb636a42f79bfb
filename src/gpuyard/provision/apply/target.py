"""What apply takes: a folder as it was rendered, nothing in it changed since."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from gpuyard.blueprint import Blueprint, blueprint_from_json, blueprint_hash
from gpuyard.document import Doc
from gpuyard.errors import InputError, Problem
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.deployment import DEPLOYMENT, Deployment, deployment_from_json
from gpuyard.provision.exposure import Exposure, exposure_of
from gpuyard.provision.platform import Artefacts
from gpuyard.provision.platforms import platform_named
from gpuyard.provision.settings import Place, place_of

__all__ = ["AGAIN", "BLUEPRINT", "Target", "check_rendering", "read_target"]

BLUEPRINT = "blueprint.json"
NOT_APPLIED = (BLUEPRINT, "README.md")
AGAIN = "render it again with `gpuyard provision`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A rendered deployment: the decision, where it goes, what it can cost, and its files."""

    hash: Annotated[str, Doc("sha256 of what was rendered, README included")]
    deployment: Deployment
    blueprint: Blueprint
    place: Place
    artefacts: tuple[Artefact, ...]

    @property
    def exposure(self) -> Exposure:
        """What it can cost."""
        return self.deployment.exposure

    @property
    def label(self) -> str:
        """The value of the label plan-hash of everything it makes."""
        return str(self.place.labels["plan-hash"])


def read_target(texts: Mapping[str, str], folder: str) -> Target:
    """The target of a folder's files by name; InputError with every file that is missing, changed or too much."""
    if DEPLOYMENT not in texts:
        what = "holds no rendered deployment"
        raise InputError.one(folder, what, "write one with `gpuyard provision FILE --on PLATFORM -o DIR`")
    deployment = deployment_from_json(texts[DEPLOYMENT], f"{folder}/{DEPLOYMENT}")
    _check_unchanged(deployment, texts, folder)
    blueprint = blueprint_from_json(texts.get(BLUEPRINT, ""), f"{folder}/{BLUEPRINT}")
    place = place_of(blueprint, deployment.settings)
    if blueprint_hash(blueprint) != deployment.blueprint or exposure_of(blueprint, place) != deployment.exposure:
        what = "it does not say what follows from the blueprint: it was changed after it was written"
        raise InputError.one(f"{folder}/{DEPLOYMENT}", what, AGAIN)
    digests = sorted((file.name, file.sha256) for file in deployment.files)
    return Target(
        hash=_sha256(json.dumps([deployment.platform, digests])),
        deployment=deployment,
        blueprint=blueprint,
        place=place,
        artefacts=tuple(
            Artefact(name=file.name, text=texts[file.name]) for file in deployment.files if file.name not in NOT_APPLIED
        ),
    )


def check_rendering(target: Target, folder: str) -> None:
    """InputError where the decision, rendered again, does not give these very files."""
    platform = platform_named(target.deployment.platform)
    again = platform.render(target.blueprint, target.deployment.settings) if platform else None
    texts = {file.name: file.text for file in again.files} if isinstance(again, Artefacts) else {}
    problems = [
        Problem(
            where=f"{folder}/{file.name}",
            what="is not what its blueprint gives: it was changed, or written by another version",
            fix=AGAIN,
        )
        for file in target.artefacts
        if texts.get(file.name) != file.text
    ]
    if problems:
        raise InputError(problems)


def _check_unchanged(deployment: Deployment, texts: Mapping[str, str], folder: str) -> None:
    """InputError with every file that is not as it was written."""
    sealed = {file.name: file.sha256 for file in deployment.files}
    problems = [
        Problem(where=f"{folder}/{name}", what="is missing" if name not in texts else "was changed", fix=AGAIN)
        for name, digest in sealed.items()
        if name not in texts or _sha256(texts[name]) != digest
    ]
    problems += [
        Problem(where=f"{folder}/{name}", what="was not rendered with the rest", fix=f"take it away, or {AGAIN}")
        for name in texts
        if name not in sealed and re.match(r"\d\d-", name)  # what would be applied; a note of yours may lie there
    ]
    if problems:
        raise InputError(problems)


def _sha256(text: str) -> str:
    """The hash of a text as it stands in a file."""
    return hashlib.sha256(text.encode()).hexdigest()
