"""Machine types to rent or buy: chips, host, network, availability and consumption options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.rows import Bytes, LinkSpeed, SourceNames, Watts
from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.units import BITS_PER_S, BYTES, COUNT, show

Provider = Literal[
    "google", "onprem", "aws", "azure", "coreweave", "lambda", "nebius", "oci", "runpod"
]
NetworkTechnology = Literal["roce", "tcpxo", "tcpx", "ici", "efa", "infiniband", "ethernet"]
YesNo = Literal["yes", "no"]  # a missing value means unknown, never "no"
# price-only: a price is listed, but the documentation does not confirm availability.
Offer = Literal["yes", "no", "price-only"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineNetwork:
    """Network of a machine: the accelerator fabric and the host network."""

    technology: NetworkTechnology
    max_bits_per_s: Annotated[
        LinkSpeed | None, Doc("the provider's number: fabric and host together")
    ] = None
    fabric_bits_per_s: Annotated[
        LinkSpeed | None, Doc("accelerator traffic, all NICs, one direction")
    ] = None
    host_bits_per_s: LinkSpeed | None = None
    host_rdma: Annotated[bool, Doc("RDMA on the host network: Cloud RDMA")] = False
    nic_count: Annotated[int | None, AtLeast(1)] = None
    nics_per_cage: Annotated[int, AtLeast(1), Doc("NIC ports that share a transceiver")] = 1
    rail_count: Annotated[int | None, AtLeast(1)] = None
    mtu_bytes: Annotated[int | None, BYTES] = None
    vpc_layout: str = ""

    @property
    def summary(self) -> str:
        """Technology and speed: `roce, 3.2Tbps per machine`."""
        speed = self.fabric_bits_per_s or self.max_bits_per_s
        if not speed:
            return self.technology
        return f"{self.technology}, {show(speed, BITS_PER_S)} per machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption:
    """Consumption options, as the documentation allows them."""

    on_demand: Offer | None = None
    spot: Offer | None = None
    flex_start: Offer | None = None
    on_demand_reservation: Offer | None = None
    calendar_reservation: Offer | None = None
    future_reservation: Offer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformSupport:
    """Provisioning platforms that support the machine."""

    compute_engine: YesNo | None = None
    gke_standard: YesNo | None = None
    gke_autopilot: YesNo | None = None
    cluster_toolkit: YesNo | None = None
    cluster_director: YesNo | None = None
    vertex_training_clusters: YesNo | None = None
    vertex_ai: Annotated[str | None, Doc("accelerator name in the Vertex AI API")] = None
    cloud_run: Annotated[YesNo | None, Doc("offers this accelerator in this number")] = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One machine type."""

    name: str
    series: str
    provider: Provider
    memory_bytes: Bytes
    network: MachineNetwork
    source: SourceNames
    consumption: Annotated[Consumption, Doc("empty for a machine that is bought")] = Consumption()
    platforms: PlatformSupport = PlatformSupport()
    chip: Annotated[str | None, Doc("a name under chips; null without accelerators")] = None
    chip_count: Annotated[float, COUNT, Doc("accelerators; below one for a fractional GPU")] = 0
    vcpu_count: Annotated[
        int | None, AtLeast(1), Doc("maximum, where the host is configurable")
    ] = None
    core_count: Annotated[int | None, AtLeast(1), Doc("physical cores of the host")] = None
    cpu: Annotated[str, Doc("host CPU: a name under chips where the catalog has it")] = ""
    scale_up_domain_count: Annotated[int | None, AtLeast(1), Doc("chips per scale-up domain")] = (
        None
    )
    api_name: Annotated[str, Doc("accelerator name in the provider's API")] = ""
    vws_api_name: Annotated[
        str | None,
        Doc("its name there as a virtual workstation; null: not documented"),
    ] = None
    multi_host: Annotated[
        bool, Doc("several machines can work as one; false: each is its own slice")
    ] = True
    local_ssd_bytes: Annotated[Bytes | None, Doc("maximum, where it is optional")] = None
    local_ssd_mode: Literal["attached", "optional", "none"] | None = None
    power_w: Annotated[Watts | None, Doc("the whole server at full load")] = None
    rack_units: Annotated[int | None, AtLeast(1), Doc("height of the server")] = None
    note: str = ""

    @property
    def is_accelerated(self) -> bool:
        return self.chip is not None
