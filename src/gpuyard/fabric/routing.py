"""Routing policy: eBGP with one ASN per switch, ECMP, and valley-free export."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.fabric.demand import Demand
from gpuyard.units import BYTES, DURATION

# Port MTU minus IP MTU: 9,216 and 9,170 in Juniper's AI fabric designs.
ENCAPSULATION_BYTES = 46
# Community on all routes sent down; routes with it are never sent up (valley-free).
FROM_ABOVE = "0:15"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bfd:
    """BFD timers."""

    interval_s: Annotated[float, DURATION]
    multiplier: int

    @property
    def detect_s(self) -> float:
        return self.interval_s * self.multiplier


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """The policy shared by all devices."""

    protocol: Annotated[str, Doc("ebgp; none on InfiniBand, where a subnet manager routes")]
    unnumbered: Annotated[
        bool, Doc("IPv6 link-local sessions that carry IPv4 routes (RFC 5549, now RFC 8950)")
    ]
    multipath_count: Annotated[int, Doc("the largest ECMP group of this fabric")]
    from_above: Annotated[str, Doc("community set on routes sent down, rejected on routes sent up")]
    bfd: Bfd
    ip_mtu_bytes: Annotated[int, BYTES, Doc("of IP packets on links between switches")]
    host_mtu_bytes: Annotated[int, BYTES, Doc("of IP packets on servers and on ports toward them")]
    overlay_bfd: Annotated[
        Bfd | None, Doc("of EVPN sessions between loopbacks; None without tenants")
    ] = None


def routing_for(demand: Demand, multipath_count: int) -> Routing:
    """Return the routing policy; BFD is slow enough for PFC pauses not to trip it."""
    return Routing(
        protocol="none" if demand.technology == "infiniband" else "ebgp",
        unnumbered=demand.addressing == "unnumbered",
        multipath_count=multipath_count,
        from_above=FROM_ABOVE,
        bfd=Bfd(interval_s=1.0, multiplier=3),
        overlay_bfd=Bfd(interval_s=3.0, multiplier=3) if demand.has_overlay else None,
        ip_mtu_bytes=demand.fabric_mtu_bytes - ENCAPSULATION_BYTES,
        host_mtu_bytes=demand.host_mtu_bytes,
    )
