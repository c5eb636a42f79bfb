"""Facts of launching: default images, and the environment that a fabric's NCCL plugin wants."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from gpuyard.catalog.rows import Source
from gpuyard.document import Doc, Keys, decode, read_file
from gpuyard.provision.invariants.facts import Technology

__all__ = ["Image", "Plumbing", "Spot", "plumbing", "read_launch_facts"]

PATH = Path(__file__).parent / "data" / "launch.toml"
Spot = Literal["pod", "host"]  # where the program sees the NICs from: a pod, or the machine itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The default container image of a framework or engine."""

    name: str
    image: str
    source: tuple[str, ...]
    arm: Annotated[bool, Doc("it is built for Arm hosts too")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plumbing:
    """What a program needs around it to use a fabric."""

    name: str
    variables: Annotated[tuple[str, ...], Doc("NAME=VALUE")]
    source: tuple[str, ...]
    sourced: Annotated[str, Doc("the vendor's script with the values of its release")] = ""
    library_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFacts:
    """All of them."""

    sources: tuple[Source, ...]
    images: tuple[Image, ...]
    plumbing: tuple[Plumbing, ...]

    def image(self, name: str) -> Image:
        """The image of a framework or engine."""
        return next(row for row in self.images if row.name == name)

    def told(self, names: tuple[str, ...]) -> str:
        """Where it was read and when."""
        rows = (row for row in self.sources if row.name in names)
        return "; ".join(f"{row.title}, {row.date}" for row in rows)


@functools.cache
def read_launch_facts() -> LaunchFacts:
    """The facts that are shipped."""
    return decode(read_file(PATH).root, LaunchFacts, Keys.SUFFIXED)


def plumbing(technology: Technology, spot: Spot) -> Plumbing:
    """What a program needs for a fabric, seen from a pod or from the machine itself."""
    return next(row for row in read_launch_facts().plumbing if row.name == f"{technology}-{spot}")
