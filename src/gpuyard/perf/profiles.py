"""Software profiles: training frameworks by release date, and their optimisations."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from gpuyard.document.decode import decode
from gpuyard.document.field_types import Doc, Keys
from gpuyard.document.read import read_file
from gpuyard.errors import InputError, closest_match

Flag = Literal[
    "flash",
    "fused",
    "tp_overlap",
    "dp_overlap",
    "p2p_overlap",
    "graphs",
    "graphs_nvl72",
    "moe_overlap",
    "dist_opt",
    "flash2",
    "shard_broadcast",
    "fp32_reduce",
    "deepep",
    "one_port",
]


TODAY = "8"  # sorts after every date and before the end of an open range ("9")


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareProfile:
    """A training framework in a range of release dates."""

    name: str
    family: Annotated[str, Doc("profiles with one code base; the scalar of a profile without runs")]
    framework: Annotated[str, Doc("pattern over the framework's name")]
    flags: tuple[Flag, ...]
    fitted_on: Annotated[tuple[str, ...], Doc("published runs that its scalar is fitted to")]
    after: Annotated[str, Doc("previous release, whose scalar is the prior")] = ""
    chip: str = ""
    precision: str = ""
    first: Annotated[str, Doc("from this date on")] = ""
    until: Annotated[str, Doc("before this date")] = "9"
    last: Annotated[
        str, Doc("date of its latest published run; a later run is a later release")
    ] = ""
    words: Annotated[str, Doc("the framework as published runs spell it, for MoE recipes")] = ""
    scalar: Annotated[
        float | None, Doc("set by `gpuyard calibrate`; otherwise from the calibration's effects")
    ] = None

    def matches(self, framework: str, date: str, chip: str, precision: str) -> bool:
        """Return whether this profile describes such a run."""
        return bool(
            re.search(self.framework, framework, re.IGNORECASE)
            and re.search(self.chip, chip)
            and re.search(self.precision, precision)
            and self.first <= date < self.until
        )

    def precedes(self, date: str) -> bool:
        """Return whether a run of that date is later than all runs of the profile."""
        return bool(self.last and date[:7] > self.last)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileFile:
    """The data file."""

    profiles: tuple[SoftwareProfile, ...]


@functools.cache
def read_profiles() -> tuple[SoftwareProfile, ...]:
    """Return the shipped profiles, in order."""
    return read_profile_file(Path(__file__).parent / "data" / "profiles.toml")


def read_profile_file(path: Path) -> tuple[SoftwareProfile, ...]:
    """Return the profiles of a file, shipped or written by `gpuyard calibrate`."""
    return decode(read_file(path).root, ProfileFile, Keys.SUFFIXED).profiles


def choose_profile(framework: str, date: str, chip: str, precision: str) -> SoftwareProfile | None:
    """Return the last profile that describes such a run; without a date, today's."""
    matches = [
        profile
        for profile in read_profiles()
        if profile.matches(framework, date or TODAY, chip, precision)
    ]
    return matches[-1] if matches else None


def lineage(profile: SoftwareProfile) -> tuple[SoftwareProfile, ...]:
    """Return the releases before a profile, oldest first, and the profile."""
    known = {item.name: item for item in read_profiles()}
    releases = [profile]
    while releases[0].after:
        releases.insert(0, known[releases[0].after])
    return tuple(releases)


def find_profile(name: str) -> SoftwareProfile:
    """Return the profile of that name, or the last one in the file of that path."""
    profiles = {profile.name: profile for profile in read_profiles()}
    if name in profiles:
        return profiles[name]
    if name.endswith((".toml", ".yaml", ".json")):
        return read_profile_file(Path(name))[-1]
    meant = closest_match(name, profiles)
    fix = f'use "{meant}"' if meant else f"use one of {', '.join(profiles)}"
    raise InputError.one("--profile", f'no software profile named "{name}"', fix)
