"""Facts that only a deployment needs: NICs and networks of a machine type, plugin releases, version floors."""

from __future__ import annotations

import datetime
import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from gpuyard.catalog.rows import Source
from gpuyard.document import Doc, Keys, decode, read_file
from gpuyard.units import BYTES

__all__ = ["CloudRunFloor", "Fabric", "Facts", "Feature", "Release", "Technology", "gke_version", "read_facts"]

PATH = Path(__file__).parent / "data" / "fabrics.toml"
Technology = Literal["tcpx", "tcpxo", "roce"]
LABELS: dict[str, str] = {"tcpx": "GPUDirect-TCPX", "tcpxo": "GPUDirect-TCPXO", "roce": "GPUDirect RDMA"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """The GPU fabric of a machine type, as an artefact has to ask for it."""

    name: str
    technology: Technology
    host_nic_count: int
    data_nic_count: int
    data_nic_type: Literal["GVNIC", "MRDMA"]
    architecture: Literal["amd64", "arm64"]
    gke_versions: Annotated[tuple[str, ...], Doc("the least patch of each minor; a later minor is new enough")]
    source: tuple[str, ...]
    network_profile: Annotated[str, Doc("of the VPC of the data NICs, after ZONE-")] = ""
    mtu_bytes: Annotated[int | None, BYTES] = None
    domain_node_count: Annotated[int | None, Doc("nodes of one NVLink domain")] = None
    hyperdisk_only: Annotated[bool, Doc("it does not boot from a persistent disk")] = False
    needs_claims: Annotated[bool, Doc("its NICs reach a pod by resource claims alone")] = False

    @property
    def label(self) -> str:
        """The fabric's name as people know it."""
        return LABELS[self.technology]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Versions of the NCCL plugin and of its daemon that belong together."""

    name: str
    technology: Technology
    plugin: str
    daemon: str
    date: datetime.date
    source: tuple[str, ...]
    nccl: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudRunFloor:
    """The least host that Cloud Run gives with a GPU."""

    name: str
    min_cpu_count: int
    min_memory_bytes: Annotated[float, BYTES]
    source: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """The GKE version from which a feature works."""

    name: str
    gke_version: str
    source: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All of them."""

    sources: tuple[Source, ...]
    fabrics: tuple[Fabric, ...]
    releases: tuple[Release, ...]
    cloud_run: tuple[CloudRunFloor, ...]
    features: tuple[Feature, ...]

    def fabric(self, machine: str) -> Fabric | None:
        """The fabric of a machine type, or None where it has no fabric of its own."""
        return next((fabric for fabric in self.fabrics if fabric.name == machine), None)

    def feature(self, name: str) -> Feature:
        """A feature's row."""
        return next(feature for feature in self.features if feature.name == name)


@functools.cache
def read_facts() -> Facts:
    """The facts that are shipped."""
    return decode(read_file(PATH).root, Facts, Keys.SUFFIXED)


def gke_version(text: str) -> tuple[int, ...] | None:
    """A GKE version as numbers that compare: 1.32.2-gke.1475000; a bare 1.32 gives what it says."""
    found = re.fullmatch(r"v?(\d+)\.(\d+)(?:\.(\d+)(?:-gke\.(\d+))?)?\.?", text)
    return tuple(int(part) for part in found.groups() if part is not None) if found else None
