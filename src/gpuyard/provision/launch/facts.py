"""Launch facts: default container images, and the environment of each fabric's NCCL plugin."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from gpuyard.catalog.rows import Source
from gpuyard.document.decode import decode
from gpuyard.document.field_types import Doc, Keys
from gpuyard.document.read import read_file
from gpuyard.provision.invariants.facts import Technology

PATH = Path(__file__).parent / "data" / "launch.toml"
# Where the program runs decides which NIC names and library paths it sees.
RunsOn = Literal["pod", "host"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerImage:
    """Default container image of a framework or engine."""

    name: str
    image: str
    source: tuple[str, ...]
    arm: Annotated[bool, Doc("also built for Arm hosts")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricRuntime:
    """Environment in which NCCL uses a fabric."""

    name: str
    variables: Annotated[tuple[str, ...], Doc("NAME=VALUE")]
    source: tuple[str, ...]
    env_script: Annotated[str, Doc("the vendor's script that sets the values of its release")] = ""
    library_path: Annotated[str, Doc("put before the image's own LD_LIBRARY_PATH")] = ""
    variables_after_script: Annotated[
        tuple[str, ...], Doc("that the vendor's script would otherwise overwrite")
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFacts:
    """Contents of launch.toml."""

    sources: tuple[Source, ...]
    images: tuple[ContainerImage, ...]
    fabric_runtimes: tuple[FabricRuntime, ...]

    def image(self, name: str) -> ContainerImage:
        """Return the image of a framework or engine."""
        return next(row for row in self.images if row.name == name)

    def fabric_runtime(self, name: str) -> FabricRuntime:
        """Return the runtime of a fabric, e.g. roce-pod."""
        return next(row for row in self.fabric_runtimes if row.name == name)


@functools.cache
def read_launch_facts() -> LaunchFacts:
    """Return the facts that ship with gpuyard."""
    return decode(read_file(PATH).root, LaunchFacts, Keys.SUFFIXED)


def fabric_runtime(technology: Technology, runs_on: RunsOn) -> FabricRuntime:
    """Return the runtime of a fabric technology in a pod or on a host."""
    return read_launch_facts().fabric_runtime(f"{technology}-{runs_on}")
