"""Load balancing over ECMP paths: the modes, their limits and their settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document.field_types import Doc
from gpuyard.fabric.demand import Balancing as Mode
from gpuyard.topology.topology import Topology
from gpuyard.units import DURATION, RATIO


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancingMode:
    """A load-balancing mode with its limits; a limit that does not apply is None."""

    mode: Mode | Literal["rlb"]
    label: str
    what: str
    source: str
    clos_stages: int | None = None
    max_leaves: int | None = None
    links_per_pair: int | None = None
    overlay: Annotated[bool, Doc("supports tenant routes over VXLAN")] = True
    same_everywhere: Annotated[bool, Doc("must be configured alike on every switch")] = False
    max_bits_per_s: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBalancing:
    """The load balancing of a fabric: a mode with its settings."""

    mode: Mode
    inactivity_s: Annotated[
        float | None, DURATION, Doc("idle time after which a flow may move")
    ] = None
    flowset_count: int | None = None
    reassign_probability: int | None = None
    reassign_delta: int | None = None
    sampling_per_s: int | None = None
    utilisation_ratio: Annotated[float | None, RATIO, Doc("links above this load are avoided")] = (
        None
    )


JUNIPER_DLB = "https://www.juniper.net/documentation/us/en/software/junos/ai-ml-evo/ (2026-11-15)"

BALANCING_MODES: tuple[BalancingMode, ...] = (
    BalancingMode(
        mode="ecmp",
        label="hash (ECMP)",
        what="a flow keeps its path",
        notes=(
            "few long RDMA flows collide: some links overload, others stay idle",
            "hashing the destination queue pair spreads the flows of one NIC pair",
        ),
        source="https://www.juniper.net/documentation/us/en/software/junos/ai-ml-evo/topics/topic-map/"
        "load-balancing-queue-pair-hash.html (2026-11-15)",
    ),
    BalancingMode(
        mode="flowlet",
        label="flowlet load balancing (DLB)",
        same_everywhere=True,
        what="a flow moves to a less loaded link after an idle gap",
        source=JUNIPER_DLB,
        notes=(
            "not with resilient hashing, unicast only, not over members of a LAG",
            "poor where links differ in speed",
            "SONiC: no tunnel egress",
        ),
    ),
    BalancingMode(
        mode="per-packet",
        label="per-packet load balancing (DLB)",
        same_everywhere=True,
        what="each packet takes the best link",
        source=JUNIPER_DLB,
        notes=(
            "the NIC must accept packets out of order",
            "not with resilient hashing, unicast only, not over a LAG",
        ),
    ),
    BalancingMode(
        mode="adaptive",
        label="adaptive routing",
        overlay=False,
        max_bits_per_s=400e9,
        what="each RoCE packet takes the least loaded link",
        # "The Spectrum-4 switch does not support adaptive routing on 800G links."
        source="https://github.com/CumulusNetworks/docs, Cumulus Linux 5.19, content/"
        "cumulus-linux-519/Layer-3/Routing/Equal-Cost-Multipath-Load-Sharing.md, "
        "commit 506e83b3d9 (2026-08-21)",
        notes=(
            (
                "RoCE only, routed ports, default VRF; not on 800 Gb/s links, sub-interfaces, SVIs"
                " or bonds"
            ),
            "the NIC must accept packets out of order",
        ),
    ),
    BalancingMode(
        mode="global",
        label="global load balancing (GLB)",
        clos_stages=3,
        max_leaves=64,
        links_per_pair=1,
        overlay=False,
        same_everywhere=True,
        what="leaves also weigh the links beyond the spines",
        source="https://www.juniper.net/documentation/us/en/software/junos/interfaces-ethernet-switches/topics/"
        "topic-map/global-load-balancing.html (2026-11-15)",
        notes=(
            "spines are helpers only, leaves balance only",
            "not for overlay routes, IRB or multihomed servers",
        ),
    ),
    BalancingMode(
        mode="spray",
        label="packet spraying",
        same_everywhere=True,
        what="packets are sprayed round-robin over all links",
        source=JUNIPER_DLB,
        notes=("the NIC must accept packets out of order", "all paths must be equal"),
    ),
    BalancingMode(
        mode="rlb",
        label="address-based load balancing (RLB)",
        same_everywhere=True,
        overlay=False,
        what="each sub-flow of a queue pair has its own IPv6 address, bound to a coloured path",
        source="https://www.juniper.net/documentation/jp/ja/software/jvd/jvd-ai-dc-qpp-bgp-dpf/"
        " (2026-11-15)",
        notes=(
            "four /64 prefixes for each rail of a leaf",
            "needs unnumbered IPv6 links and path forwarding by colour",
            "enabled by sub-flows, not as a load-balancing mode",
        ),
    ),
)


# NVIDIA's adaptive routing, on Cumulus Linux and on InfiniBand.
ADAPTIVE = LoadBalancing(mode="adaptive", utilisation_ratio=0.70)


def balancing_mode(mode: Mode | Literal["rlb"]) -> BalancingMode:
    """Return the description of a mode."""
    return next(candidate for candidate in BALANCING_MODES if candidate.mode == mode)


def exceeded_limits(mode: Mode, topology: Topology, *, overlay: bool) -> tuple[str, ...]:
    """Return each limit of a mode that cabling exceeds; none without links between switches."""
    roles = {node.name: node.role for node in topology.nodes}
    between = [
        link for link in topology.links if "server" not in (roles[link.a.node], roles[link.b.node])
    ]
    if not between:
        return ()
    pairs = Counter((link.a.node, link.b.node) for link in between)
    return tuple(
        unmet_limits(
            balancing_mode(mode),
            leaves=sum(role == "leaf" for role in roles.values()),
            tiers=len({role for role in roles.values() if role != "server"}),
            links_per_pair=max(pairs.values()),
            overlay=overlay,
            fastest_bits_per_s=max(link.speed_bits_per_s for link in between),
        )
    )


def unmet_limits(
    chosen: BalancingMode,
    *,
    leaves: int,
    tiers: int,
    links_per_pair: int,
    overlay: bool,
    fastest_bits_per_s: float,
) -> Iterator[str]:
    """Yield each limit of a mode that these counts exceed."""
    stages = 2 * tiers - 1
    if chosen.clos_stages is not None and stages != chosen.clos_stages:
        yield f"{chosen.label} needs a Clos of {chosen.clos_stages} stages; this one has {stages}"
    if chosen.max_leaves is not None and leaves > chosen.max_leaves:
        yield (
            f"{chosen.label} supports at most {chosen.max_leaves} leaves; this fabric has {leaves}"
        )
    if chosen.links_per_pair is not None and links_per_pair > chosen.links_per_pair:
        yield (
            f"{chosen.label} supports {chosen.links_per_pair} link between two switches;"
            f" this fabric has {links_per_pair}"
        )
    if overlay and not chosen.overlay:
        yield f"{chosen.label} does not balance routes of an overlay"
    if chosen.max_bits_per_s is not None and fastest_bits_per_s > chosen.max_bits_per_s:
        yield (
            f"{chosen.label} does not work on links above {chosen.max_bits_per_s / 1e9:g} Gb/s"
            " (Spectrum-4)"
        )
