"""Requirements of a fabric: servers, topology, switches, addressing and tenants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.rows import LinkSpeed
from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.units import BYTES, LENGTH, RATIO

Purpose = Literal["backend", "storage", "frontend", "management"]
LOSSLESS: tuple[Purpose, ...] = ("backend", "storage")  # networks that carry RDMA
Shape = Literal["auto", "single-leaf", "two-tier", "three-tier", "rail-only"]
Technology = Literal["ethernet", "infiniband"]
Addressing = Literal["ipv4", "unnumbered"]
Tenancy = Literal["none", "server", "gpu"]
Balancing = Literal["ecmp", "flowlet", "per-packet", "adaptive", "global", "spray"]
Scheme = Literal["private", "jvd", "apstra"]
NicVendor = Literal["connectx", "thor2", "pollara", "unknown"]
Metres = Annotated[float, LENGTH, AtLeast(0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CableLengths:
    """The longest cable of each tier; headroom is computed from them, so they are upper bounds."""

    server_m: Annotated[Metres, Doc("server to leaf")] = 5.0
    spine_m: Annotated[Metres, Doc("leaf to spine")] = 40.0
    core_m: Annotated[Metres, Doc("spine to core")] = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """Pools of ASNs and addresses; the scheme sets those that are none."""

    scheme: Annotated[
        Scheme, Doc("private ASNs by default; jvd and apstra as in Juniper's published designs")
    ] = "private"
    spine_asn: Annotated[int | None, AtLeast(1), Doc("of the first spine; the others follow")] = (
        None
    )
    leaf_asn: Annotated[int | None, AtLeast(1)] = None
    core_asn: Annotated[int | None, AtLeast(1)] = None
    spine_loopback: Annotated[str | None, Doc("address of the first spine's loopback")] = None
    leaf_loopback: str | None = None
    core_loopback: str | None = None
    server: Annotated[str | None, Doc("prefix of the /31s between leaf and server")] = None
    link: Annotated[str | None, Doc("prefix of the /31s between switches")] = None
    first_vni: Annotated[int, AtLeast(1)] = 20001


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A tenant: whole servers, or some of their rails; servers count from 1, rails from 0."""

    name: str
    first_server: Annotated[int, AtLeast(1)]
    server_count: Annotated[int, AtLeast(1)]
    rails: Annotated[tuple[int, ...], Doc("empty: every rail; only with GPU isolation")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedHosts:
    """Other hosts of a network: storage nodes, or the switches that a management network reaches.

    Each has the NICs that a server has in this network.
    """

    name: Annotated[str, Doc("their names are this and a number: vast-1, vast-2")]
    count: Annotated[int, AtLeast(1)]
    names: Annotated[tuple[str, ...], Doc("of every host, if they have names already")] = ()

    @property
    def host_names(self) -> tuple[str, ...]:
        width = len(str(self.count))
        numbered = (f"{self.name}-{number:0{width}d}" for number in range(1, self.count + 1))
        return self.names or tuple(numbered)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The requirements of one fabric."""

    server_count: Annotated[int, AtLeast(1)]
    nic_bits_per_s: Annotated[LinkSpeed, Doc("of one NIC, over all planes")]
    rails: Annotated[int, AtLeast(1), Doc("NICs per server in this fabric")] = 8
    rails_per_leaf: Annotated[
        int, AtLeast(1), Doc("NICs of each server on one leaf; more need fewer switches")
    ] = 1
    attached: Annotated[
        tuple[AttachedHosts, ...], Doc("storage nodes and other hosts without GPUs")
    ] = ()
    gpus_per_server: Annotated[int, AtLeast(1)] = 8
    servers_per_domain: Annotated[
        int, AtLeast(1), Doc("of a scale-up domain, such as an NVL72; a stripe holds whole ones")
    ] = 1
    grow_to_count: Annotated[
        int | None, AtLeast(1), Doc("servers after growth, without moving a cable")
    ] = None
    machine: Annotated[str | None, Doc("a name under machines")] = None
    nic_vendor: Annotated[
        NicVendor,
        Doc("NVIDIA ConnectX, Broadcom Thor 2 or AMD Pollara; decides the script for NIC queues"),
    ] = "connectx"
    purpose: Purpose = "backend"
    technology: Technology = "ethernet"
    shape: Shape = "auto"
    planes: Annotated[int, AtLeast(1), Doc("parallel networks that share each NIC")] = 1
    oversubscription_ratio: Annotated[
        float, RATIO, Doc("server bandwidth of a leaf over its uplink bandwidth")
    ] = 1.0
    min_spines: Annotated[int, AtLeast(1), Doc("1 disables the policy")] = 4
    spine_count: Annotated[int | None, AtLeast(1), Doc("per plane; none: as many as needed")] = None
    links_per_pair: Annotated[
        int | None, AtLeast(1), Doc("between a leaf and a spine, with spine_count")
    ] = None
    servers_per_stripe: Annotated[
        int | None, AtLeast(1), Doc("none: as many as the ports of a leaf allow")
    ] = None
    uplink_bits_per_s: Annotated[
        LinkSpeed | None,
        Doc(
            "between switches; none: the NIC speed per plane, or that of the ports if finer splits"
            " than 2-way would be needed or the fabric is not a backend"
        ),
    ] = None
    leaf: Annotated[str | None, Doc("a name under switches; none: chosen by gpuyard")] = None
    spine: str | None = None
    core: str | None = None
    os: Annotated[str | None, Doc("switch OS; none: the first that the switches share")] = None
    addressing: Addressing = "ipv4"
    tenancy: Tenancy = "none"
    tenants: tuple[Tenant, ...] = ()
    balancing: Annotated[
        Balancing | None, Doc("none: adaptive where the OS has it, else flowlet, else ecmp")
    ] = None
    subflows: Annotated[int, AtLeast(0), Doc("IPv6 prefixes per leaf, one per coloured path")] = 0
    servers_per_rack: Annotated[int, AtLeast(1)] = 4
    cables: CableLengths = CableLengths()
    pools: Pools = Pools()
    host_mtu_bytes: Annotated[int, BYTES, AtLeast(1280)] = 9000
    fabric_mtu_bytes: Annotated[int, BYTES, AtLeast(1280)] = 9216

    @property
    def plane_bits_per_s(self) -> float:
        """Link speed between a NIC and one plane."""
        return self.nic_bits_per_s / self.planes

    @property
    def link_bits_per_s(self) -> float:
        return self.uplink_bits_per_s or self.plane_bits_per_s

    @property
    def final_count(self) -> int:
        """Servers after growth."""
        return max(self.server_count, self.grow_to_count or 0)

    @property
    def attached_count(self) -> int:
        """Hosts that are not servers; they have the first positions, so that servers can grow."""
        return sum(hosts.count for hosts in self.attached)

    @property
    def host_count(self) -> int:
        return self.server_count + self.attached_count

    @property
    def final_host_count(self) -> int:
        return self.final_count + self.attached_count

    @property
    def has_overlay(self) -> bool:
        return self.tenancy != "none"
