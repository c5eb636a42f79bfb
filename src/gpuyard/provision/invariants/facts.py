"""Deployment facts: NICs and networks per machine type, plugin releases, minimum versions."""

from __future__ import annotations

import datetime
import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from gpuyard.catalog.rows import Source
from gpuyard.document.decode import decode
from gpuyard.document.field_types import Doc, Keys
from gpuyard.document.read import read_file
from gpuyard.units import BYTES

PATH = Path(__file__).parent / "data" / "fabrics.toml"
Technology = Literal["tcpx", "tcpxo", "roce"]
LABELS: dict[str, str] = {
    "tcpx": "GPUDirect-TCPX",
    "tcpxo": "GPUDirect-TCPXO",
    "roce": "GPUDirect RDMA",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFabric:
    """The GPU fabric of a machine type, as deployment files must request it."""

    name: str
    technology: Technology
    host_nic_count: int
    data_nic_count: int
    data_nic_type: Literal["GVNIC", "MRDMA"]
    architecture: Literal["amd64", "arm64"]
    gke_versions: Annotated[
        tuple[str, ...], Doc("minimum patch of each minor version; later minors work")
    ]
    source: tuple[str, ...]
    network_profile: Annotated[str, Doc("network profile of the data VPC, after ZONE-")] = ""
    mtu_bytes: Annotated[int | None, BYTES] = None
    domain_node_count: Annotated[int | None, Doc("nodes of one NVLink domain")] = None
    hyperdisk_only: Annotated[bool, Doc("cannot boot from a persistent disk")] = False
    needs_claims: Annotated[bool, Doc("pods get its NICs only by resource claims")] = False
    image: Annotated[
        str, Doc("image of virtual machines whose kernel its modules are known to build on")
    ] = ""

    @property
    def label(self) -> str:
        """The fabric's product name."""
        return LABELS[self.technology]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release: matching versions of the NCCL plugin and its receive daemon."""

    name: str
    technology: Technology
    plugin: str
    daemon: str
    date: datetime.date
    source: tuple[str, ...]
    nccl: str = ""
    hosts_only: Annotated[
        bool, Doc("of virtual machines; the installer of GKE nodes has an older plugin")
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudRunFloor:
    """The minimum CPU and memory of a Cloud Run instance with a GPU."""

    name: str
    min_cpu_count: int
    min_memory_bytes: Annotated[float, BYTES]
    source: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """The minimum GKE version of a feature."""

    name: str
    gke_version: str
    source: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All deployment facts."""

    sources: tuple[Source, ...]
    fabrics: tuple[MachineFabric, ...]
    releases: tuple[Release, ...]
    cloud_run: tuple[CloudRunFloor, ...]
    features: tuple[Feature, ...]

    def fabric(self, machine: str) -> MachineFabric | None:
        """Return the GPU fabric of a machine type, or None if it has none."""
        return next((fabric for fabric in self.fabrics if fabric.name == machine), None)

    def feature(self, name: str) -> Feature:
        return next(feature for feature in self.features if feature.name == name)


@functools.cache
def read_facts() -> Facts:
    """Return the facts shipped with gpuyard."""
    return decode(read_file(PATH).root, Facts, Keys.SUFFIXED)


def gke_version(text: str) -> tuple[int, ...] | None:
    """Parse a GKE version such as 1.32.2-gke.1475000 or 1.32; None if it is not one."""
    match = re.fullmatch(r"v?(\d+)\.(\d+)(?:\.(\d+)(?:-gke\.(\d+))?)?\.?", text)
    return tuple(int(number) for number in match.groups() if number is not None) if match else None
