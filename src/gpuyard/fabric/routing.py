"""How routes travel: one ASN a device, all equal paths used, nothing that came from above sent up again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.document import Doc
from gpuyard.fabric.demand import Demand
from gpuyard.units import BYTES, DURATION

__all__ = ["Bfd", "Routing", "routing_for"]

# Room that a fabric link leaves for encapsulation: 9,216 on the port, 9,170 for IP (Juniper's AI fabric designs).
ENCAPSULATION_BYTES = 46
# On everything that a switch sends down; what carries it is never sent up (the valley-free rule).
FROM_ABOVE = "0:15"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bfd:
    """How fast a dead neighbour is noticed."""

    interval_s: Annotated[float, DURATION]
    multiplier: int

    @property
    def detect_s(self) -> float:
        """Time without an answer after which the neighbour counts as dead."""
        return self.interval_s * self.multiplier


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """The policy that every device shares; the numbers of each device stand in the device."""

    protocol: Annotated[str, Doc("ebgp; none on InfiniBand, where a subnet manager routes")]
    unnumbered: Annotated[bool, Doc("IPv6 link-local sessions that carry IPv4 routes (RFC 5549, now RFC 8950)")]
    multipath_count: Annotated[int, Doc("the widest choice of equal next hops in this fabric")]
    from_above: Annotated[str, Doc("community put on routes sent down, refused on routes sent up")]
    bfd: Bfd
    ip_mtu_bytes: Annotated[int, BYTES, Doc("of IP packets on links between switches")]
    host_mtu_bytes: Annotated[int, BYTES, Doc("of IP packets at the servers and on ports toward them")]
    overlay_bfd: Annotated[Bfd | None, Doc("of EVPN sessions between loopbacks; None without tenants")] = None


def routing_for(demand: Demand, multipath_count: int) -> Routing:
    """The routing policy of a demand; BFD is slow enough that pauses of a lossless class do not trip it."""
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
