"""The platform interface: render a blueprint as files, or report why it cannot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.catalog.load import load_catalog
from gpuyard.document.field_types import Doc
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.deployment_settings import ResolvedSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployStep:
    """One step of a deployment: its purpose, the command, and the command that undoes it."""

    what: str
    command: str
    undo: str = ""
    request: Annotated[str, Doc("file of the API request that the command sends")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artefacts:
    """Files and steps that deploy a blueprint on a platform."""

    platform: str
    files: Annotated[tuple[Artefact, ...], Doc("in the order in which they are applied")]
    steps: tuple[DeployStep, ...]
    user_access: Annotated[
        tuple[DeployStep, ...], Doc("how users connect to virtual workstations")
    ] = ()
    notes: Annotated[tuple[str, ...], Doc("what to know or replace before applying it")] = ()
    extra_files: Annotated[
        tuple[Artefact, ...], Doc("other forms of the files, which apply does not read")
    ] = ()
    without_ttl: Annotated[
        str, Doc("resources that the provider does not terminate; empty: all have a TTL")
    ] = ""
    unbounded: Annotated[
        str, Doc("machines that nothing terminates: their cost has no maximum")
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsuitable:
    """Why a platform cannot deploy a blueprint, and the nearest platform that can."""

    platform: str
    why: str
    nearest: str = ""
    nearest_why: str = ""

    @property
    def fix(self) -> str:
        """The nearest platform that can, if there is one."""
        if self.nearest:
            return f"use {self.nearest}: {self.nearest_why}"
        return "choose another option of the plan"

    def __str__(self) -> str:
        return f"unsuitable: {self.platform}: {self.why}\n  fix: {self.fix}"


class Platform(Protocol):
    """A deployment target."""

    @property
    def name(self) -> str:
        """Value of --on."""
        ...

    @property
    def label(self) -> str:
        """Product name."""
        ...

    def render(self, blueprint: Blueprint, settings: ResolvedSettings) -> Artefacts | Unsuitable:
        """Render the files, or return why there are none; the same input gives the same bytes."""
        ...


def unsuitable(
    platform: str, why: str, blueprint: Blueprint, nearest: tuple[str, str] | None = None
) -> Unsuitable:
    """Return why a platform is unsuitable, with the nearest suitable platform of the plan."""
    name, reason = nearest or nearest_platform(blueprint, platform)
    return Unsuitable(platform=platform, why=why, nearest=name, nearest_why=reason)


def not_google(
    platform: str, blueprint: Blueprint, own: tuple[str, str] | None = None
) -> Unsuitable | None:
    """Return why a platform of Google Cloud is unsuitable for another cloud's machine, or None.

    Args:
        own: what replaces the platform on-premises; None: the plan's best platform.
    """
    machine = blueprint.machine
    if machine.provider == "google":
        return None
    if machine.provider == "onprem":
        return unsuitable(platform, f"{machine.name} is on-premises", blueprint, own)
    cloud = next(
        (row.label for row in load_catalog().providers if row.name == machine.provider),
        machine.provider,
    )
    verdicts = [
        verdict
        for verdict in blueprint.option.platforms
        # Slurm has no load balancer.
        if verdict.suits and (verdict.platform != "slurm" or blueprint.shape != "service")
    ]
    names = ", ".join(verdict.platform for verdict in verdicts) or "no platform"
    why = f"{machine.name} is rented from {cloud}, and {platform} is a platform of Google Cloud"
    nearest = (verdicts[0].platform, verdicts[0].why) if verdicts else ("", "")
    return unsuitable(platform, f"{why}; on {cloud}: {names}", blueprint, nearest)


def workstations_unsupported(platform: str, why: str, blueprint: Blueprint) -> Unsuitable | None:
    """Return why workstations are unsuitable here (only Compute Engine deploys them), or None."""
    if blueprint.shape != "workstations":
        return None
    nearest = ("", "")
    if blueprint.machine.provider == "google" and blueprint.machine.vws_api_name is not None:
        nearest = ("compute-engine", "it offers virtual workstations with one desktop per session")
    return unsuitable(platform, why, blueprint, nearest)


def pools_unsupported(platform: str, blueprint: Blueprint) -> Unsuitable | None:
    """Return why prefill and decode pools are unsuitable here, or None if there are none."""
    service = blueprint.option.service
    if service is None or service.prefill is None:
        return None
    name = "gke" if blueprint.machine.provider == "google" else "kubernetes"
    why = "nothing here runs prefill and decode pools with a router between them"
    return unsuitable(platform, why, blueprint, (name, "it runs both pools and their router"))


def nearest_platform(blueprint: Blueprint, excluded: str) -> tuple[str, str]:
    """Return the plan's best other platform and its reason; empty strings if there is none."""
    for verdict in blueprint.option.platforms:
        if verdict.suits and verdict.platform != excluded:
            return verdict.platform, verdict.why
    return "", ""
