"""What is asked of a fabric: how many servers, how joined, with which switches, addresses and tenants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog import SwitchOs
from gpuyard.catalog.rows import LinkSpeed
from gpuyard.document import AtLeast, Doc
from gpuyard.units import BYTES, LENGTH, RATIO

__all__ = [
    "Addressing", "Balancing", "Cables", "Demand", "Pools", "Purpose", "Scheme", "Shape", "Technology", "Tenancy",
    "Tenant",
]  # fmt: skip

Purpose = Literal["backend", "storage", "frontend"]
Shape = Literal["auto", "single-leaf", "two-tier", "three-tier", "rail-only"]
Technology = Literal["ethernet", "infiniband"]
Addressing = Literal["ipv4", "unnumbered"]
Tenancy = Literal["none", "server", "gpu"]
Balancing = Literal["ecmp", "flowlet", "per-packet", "adaptive", "global", "spray"]
Scheme = Literal["private", "jvd", "apstra"]
Metres = Annotated[float, LENGTH, AtLeast(0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cables:
    """The longest cable of each tier; headroom is reckoned from them, so they are upper bounds."""

    server_m: Annotated[Metres, Doc("server to leaf")] = 5.0
    spine_m: Annotated[Metres, Doc("leaf to spine")] = 40.0
    core_m: Annotated[Metres, Doc("spine to core")] = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """Where numbers and addresses are drawn from; a pool that is not given is the scheme's for this purpose."""

    scheme: Annotated[Scheme, Doc("private ASNs by default; jvd and apstra number as Juniper's published designs")] = (
        "private"
    )
    spine_asn: Annotated[int | None, AtLeast(1), Doc("of the first spine; the next spine has the next")] = None
    leaf_asn: Annotated[int | None, AtLeast(1)] = None
    core_asn: Annotated[int | None, AtLeast(1)] = None
    spine_loopback: Annotated[str | None, Doc("address of the first spine's loopback")] = None
    leaf_loopback: str | None = None
    core_loopback: str | None = None
    server: Annotated[str | None, Doc("prefix that the /31s between leaf and server come from")] = None
    link: Annotated[str | None, Doc("prefix that the /31s between switches come from")] = None
    first_vni: Annotated[int, AtLeast(1)] = 20001


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One tenant: whole servers, or some rails of them; servers count from 1 and rails from 0."""

    name: str
    first_server: Annotated[int, AtLeast(1)]
    server_count: Annotated[int, AtLeast(1)]
    rails: Annotated[tuple[int, ...], Doc("empty: every rail; only GPU isolation may name some")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One fabric that is wanted."""

    server_count: Annotated[int, AtLeast(1)]
    nic_bits_per_s: Annotated[LinkSpeed, Doc("of one NIC, all its planes together")]
    rails: Annotated[int, AtLeast(1), Doc("NICs of a server in this fabric")] = 8
    gpus_per_server: Annotated[int, AtLeast(1)] = 8
    grow_to_count: Annotated[int | None, AtLeast(1), Doc("servers later, without moving a cable")] = None
    machine: Annotated[str | None, Doc("a name under machines")] = None
    purpose: Purpose = "backend"
    technology: Technology = "ethernet"
    shape: Shape = "auto"
    planes: Annotated[int, AtLeast(1), Doc("parallel networks; each takes its share of a NIC")] = 1
    oversubscription_ratio: Annotated[float, RATIO, Doc("server bandwidth of a leaf over its uplink bandwidth")] = 1.0
    min_spines: Annotated[int, AtLeast(1), Doc("1 switches the policy off")] = 4
    spine_count: Annotated[int | None, AtLeast(1), Doc("of one plane; none: as many as are needed")] = None
    links_per_pair: Annotated[int | None, AtLeast(1), Doc("between a leaf and a spine, with spine_count")] = None
    servers_per_stripe: Annotated[int | None, AtLeast(1), Doc("none: as many as a leaf has ports for")] = None
    uplink_bits_per_s: Annotated[LinkSpeed | None, Doc("between switches; none: the speed of a NIC's plane")] = None
    leaf: Annotated[str | None, Doc("a name under switches; none: gpuyard chooses")] = None
    spine: str | None = None
    core: str | None = None
    os: SwitchOs | None = None
    addressing: Addressing = "ipv4"
    tenancy: Tenancy = "none"
    tenants: tuple[Tenant, ...] = ()
    balancing: Balancing = "flowlet"
    subflows: Annotated[int, AtLeast(0), Doc("IPv6 prefixes a leaf gives its rail, one a coloured path")] = 0
    servers_per_rack: Annotated[int, AtLeast(1)] = 4
    cables: Cables = Cables()
    pools: Pools = Pools()
    host_mtu_bytes: Annotated[int, BYTES, AtLeast(1280)] = 9000
    fabric_mtu_bytes: Annotated[int, BYTES, AtLeast(1280)] = 9216

    @property
    def plane_bits_per_s(self) -> float:
        """Speed of the link between a NIC and one plane."""
        return self.nic_bits_per_s / self.planes

    @property
    def link_bits_per_s(self) -> float:
        """Speed of a link between switches."""
        return self.uplink_bits_per_s or self.plane_bits_per_s

    @property
    def final_count(self) -> int:
        """Servers when the fabric is full grown."""
        return max(self.server_count, self.grow_to_count or 0)

    @property
    def has_overlay(self) -> bool:
        """True when tenants live in VRFs of their own, over VXLAN."""
        return self.tenancy != "none"
