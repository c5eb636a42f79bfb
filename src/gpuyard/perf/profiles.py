"""Named, dated software profiles: what a training framework did in a period."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from gpuyard.document import Doc, Keys, decode, read_file
from gpuyard.errors import InputError, nearest

__all__ = ["Flag", "Profile", "ProfileFile", "choose_profile", "find_profile", "read_profile_file", "read_profiles"]

Flag = Literal[
    "flash", "fused", "tp_overlap", "dp_overlap", "p2p_overlap", "graphs", "graphs_nvl72", "moe_overlap", "dist_opt",
    "flash2", "shard_broadcast", "fp32_reduce", "deepep", "one_port",
]  # fmt: skip


TODAY = "8"  # sorts after every date and before the end of every open period


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A framework in a period."""

    name: str
    family: Annotated[str, Doc("profiles that share a code base; gives the scalar of one without runs")]
    framework: Annotated[str, Doc("pattern over the framework's name")]
    flags: tuple[Flag, ...]
    fitted_on: Annotated[tuple[str, ...], Doc("the published runs that set its scalar")]
    chip: str = ""
    precision: str = ""
    first: Annotated[str, Doc("from this date on")] = ""
    until: Annotated[str, Doc("before this date")] = "9"
    words: Annotated[str, Doc("the framework as published runs spell it, for its recipes of experts")] = ""
    scalar: Annotated[float | None, Doc("set by `gpuyard calibrate`; otherwise from the calibration's effects")] = None

    def matches(self, framework: str, date: str, chip: str, precision: str) -> bool:
        """Whether this profile describes such a run."""
        return bool(
            re.search(self.framework, framework)
            and re.search(self.chip, chip)
            and re.search(self.precision, precision)
            and self.first <= date < self.until
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileFile:
    """The data file."""

    profiles: tuple[Profile, ...]


@functools.cache
def read_profiles() -> tuple[Profile, ...]:
    """The shipped profiles, in order."""
    return read_profile_file(Path(__file__).parent / "data" / "profiles.toml")


def read_profile_file(path: Path) -> tuple[Profile, ...]:
    """The profiles of a file, ours or one that `gpuyard calibrate` wrote."""
    return decode(read_file(path).root, ProfileFile, Keys.SUFFIXED).profiles


def choose_profile(framework: str, date: str, chip: str, precision: str) -> Profile | None:
    """The last profile that describes such a run; one without a date is of today."""
    found = [profile for profile in read_profiles() if profile.matches(framework, date or TODAY, chip, precision)]
    return found[-1] if found else None


def find_profile(name: str) -> Profile:
    """The profile of that name, or the last of the file of that path."""
    profiles = {profile.name: profile for profile in read_profiles()}
    if name in profiles:
        return profiles[name]
    if name.endswith((".toml", ".yaml", ".json")):
        return read_profile_file(Path(name))[-1]
    meant = nearest(name, profiles)
    fix = f'use "{meant}"' if meant else f"use one of {', '.join(profiles)}"
    raise InputError.one("--profile", f'no software profile named "{name}"', fix)
