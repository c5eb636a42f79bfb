"""Machines that can be rented or bought: chips inside, host, network, and where and how they can be had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.rows import Bytes, LinkSpeed, SourceNames, Watts
from gpuyard.document import AtLeast, Doc
from gpuyard.units import BITS_PER_S, BYTES, COUNT, show

__all__ = ["Answer", "Consumption", "Machine", "Network", "NetworkTechnology", "Offer", "PlatformSupport", "Provider"]

Provider = Literal["google", "onprem", "aws", "azure", "lambda", "nebius", "runpod", "oci"]
NetworkTechnology = Literal["roce", "tcpxo", "tcpx", "ici", "infiniband", "ethernet"]
Answer = Literal["yes", "no"]  # a missing answer means that no source tells, never "no"
Offer = Literal[
    "yes", "no", "price-only"
]  # price-only: a price is listed, the documentation does not confirm the offer


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What joins the machine to others; the accelerator fabric and the host network apart."""

    technology: NetworkTechnology
    max_bits_per_s: Annotated[LinkSpeed | None, Doc("as the provider prints it: fabric and host together")] = None
    fabric_bits_per_s: Annotated[LinkSpeed | None, Doc("for accelerator traffic, all NICs, one direction")] = None
    host_bits_per_s: LinkSpeed | None = None
    nic_count: Annotated[int | None, AtLeast(1)] = None
    rail_count: Annotated[int | None, AtLeast(1)] = None
    mtu_bytes: Annotated[int | None, BYTES] = None
    vpc_layout: str = ""

    @property
    def words(self) -> str:
        """The technology, and the speed of one machine where it is known."""
        speed = self.fabric_bits_per_s or self.max_bits_per_s
        return f"{self.technology}, {show(speed, BITS_PER_S)} a machine" if speed else self.technology


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption:
    """The ways to pay for it, as the documentation allows them."""

    on_demand: Offer | None = None
    spot: Offer | None = None
    flex_start: Offer | None = None
    on_demand_reservation: Offer | None = None
    calendar_reservation: Offer | None = None
    future_reservation: Offer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformSupport:
    """Which provisioning platforms can run it."""

    compute_engine: Answer | None = None
    gke_standard: Answer | None = None
    gke_autopilot: Answer | None = None
    cluster_toolkit: Answer | None = None
    cluster_director: Answer | None = None
    vertex_training_clusters: Answer | None = None
    vertex_ai: Annotated[str | None, Doc("the accelerator's name in the Vertex AI API")] = None
    cloud_run: Annotated[Answer | None, Doc("whether it offers this accelerator in this number")] = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One machine type."""

    name: str
    series: str
    provider: Provider
    memory_bytes: Bytes
    network: Network
    source: SourceNames
    consumption: Annotated[Consumption, Doc("nothing is known of a machine that is bought")] = Consumption()
    platforms: PlatformSupport = PlatformSupport()
    chip: Annotated[str | None, Doc("a name under chips; none for a machine without accelerators")] = None
    chip_count: Annotated[float, COUNT, Doc("accelerators; below one where a share of one is rented")] = 0
    vcpu_count: Annotated[int | None, AtLeast(1), Doc("the most, where the host can be chosen")] = None
    core_count: Annotated[int | None, AtLeast(1), Doc("physical cores of the host")] = None
    cpu: Annotated[str, Doc("the host's processor: a name under chips where the catalog has it")] = ""
    scale_up_domain_count: Annotated[int | None, AtLeast(1), Doc("chips that share a scale-up domain")] = None
    api_name: Annotated[str, Doc("the accelerator's name in the provider's API")] = ""
    vws_api_name: Annotated[
        str | None, Doc("its name there as a virtual workstation; none: no source tells that it can be had so")
    ] = None
    multi_host: Annotated[bool, Doc("several of them can work as one; false: each is a slice by itself")] = True
    local_ssd_bytes: Annotated[Bytes | None, Doc("the most, where it is optional")] = None
    local_ssd_mode: Literal["attached", "optional", "none"] | None = None
    power_w: Annotated[Watts | None, Doc("the whole server at full load")] = None
    note: str = ""

    @property
    def is_accelerated(self) -> bool:
        """True when it holds an accelerator."""
        return self.chip is not None
