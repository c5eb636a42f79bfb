"""NCCL variables: the environment in which NCCL uses a fabric, in a pod or on a host."""

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

PATH = Path(__file__).parent / "data" / "nccl.toml"
# Where the program runs decides which NIC names and library paths it sees.
RunsOn = Literal["pod", "host"]


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
class NcclFacts:
    """Contents of nccl.toml."""

    sources: tuple[Source, ...]
    fabric_runtimes: tuple[FabricRuntime, ...]


@functools.cache
def read_nccl_facts() -> NcclFacts:
    """Return the facts that ship with gpuyard."""
    return decode(read_file(PATH).root, NcclFacts, Keys.SUFFIXED)


def fabric_runtime(technology: Technology, runs_on: RunsOn) -> FabricRuntime:
    """Return the runtime of a fabric technology in a pod or on a host."""
    return _runtime(f"{technology}-{runs_on}")


def nvlink_domain() -> FabricRuntime:
    """Return the runtime of machines in an NVLink domain of several machines."""
    return _runtime("nvlink-domain")


def _runtime(name: str) -> FabricRuntime:
    return next(row for row in read_nccl_facts().fabric_runtimes if row.name == name)
