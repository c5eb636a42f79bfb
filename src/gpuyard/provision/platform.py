"""What a platform is: something that turns a blueprint into files, or says why it cannot and which one can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

from gpuyard.blueprint import Blueprint
from gpuyard.document import Doc
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.settings import Settings

__all__ = ["Artefacts", "Platform", "Step", "Unsuitable", "desks_cannot", "nearest_platform", "unsuitable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing to do, in order: why, the command, and the command that takes it back."""

    what: str
    command: str
    undo: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artefacts:
    """Everything that deploys a blueprint on a platform."""

    platform: str
    files: Annotated[tuple[Artefact, ...], Doc("in the order in which they are applied")]
    steps: tuple[Step, ...]
    seating: Annotated[tuple[Step, ...], Doc("how a person comes to sit at it, where people do")] = ()
    notes: Annotated[tuple[str, ...], Doc("what has to be known or replaced before it is applied")] = ()
    unended: Annotated[str, Doc("what no server ends when the lifetime is over; empty: everything is ended")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsuitable:
    """The platform cannot do it: why, and the nearest that can."""

    platform: str
    why: str
    nearest: str = ""
    nearest_why: str = ""

    def __str__(self) -> str:
        there = f"use {self.nearest}: {self.nearest_why}" if self.nearest else "choose another option of the plan"
        return f"unsuitable: {self.platform}: {self.why}\n  fix: {there}"


class Platform(Protocol):
    """One way to provision."""

    @property
    def name(self) -> str:
        """The word after --on."""
        ...

    @property
    def label(self) -> str:
        """What people call it."""
        ...

    def render(self, blueprint: Blueprint, settings: Settings) -> Artefacts | Unsuitable:
        """The files that deploy the blueprint, or why there are none. Pure: the same input gives the same bytes."""
        ...


def unsuitable(platform: str, why: str, blueprint: Blueprint, nearest: tuple[str, str] | None = None) -> Unsuitable:
    """The answer no, with the nearest platform that the plan says suits."""
    name, reason = nearest or nearest_platform(blueprint, platform)
    return Unsuitable(platform=platform, why=why, nearest=name, nearest_why=reason)


def desks_cannot(platform: str, why: str, blueprint: Blueprint) -> Unsuitable | None:
    """The answer no to desks, which Compute Engine alone deploys; None for other work."""
    if blueprint.shape != "desks":
        return None
    can = blueprint.machine.provider == "google" and blueprint.machine.vws_api_name is not None
    nearest = ("compute-engine", "its machines are had as workstations, with a desktop for each seat")
    return unsuitable(platform, why, blueprint, nearest if can else ("", ""))


def nearest_platform(blueprint: Blueprint, but: str) -> tuple[str, str]:
    """The best platform of the plan that is another one, with the plan's reason; empty where there is none."""
    for verdict in blueprint.option.platforms:
        if verdict.suits and verdict.platform != but:
            return verdict.platform, verdict.why
    return "", ""
