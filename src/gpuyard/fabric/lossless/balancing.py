"""How packets are spread over equal paths, and what each way cannot do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog import SwitchOs
from gpuyard.document import Doc
from gpuyard.fabric.demand import Balancing as Mode
from gpuyard.units import DURATION, RATIO

__all__ = ["OPTIONS", "Balancer", "Option", "balancer_for", "limits_broken", "option"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One way to spread, with its limits; a limit that does not apply is None."""

    mode: Mode | Literal["rlb"]
    label: str
    os: tuple[SwitchOs, ...]
    what: str
    source: str
    keeps_order: bool = True
    clos_stages: int | None = None
    max_leaves: int | None = None
    links_per_pair: int | None = None
    overlay: Annotated[bool, Doc("may carry routes of tenants over VXLAN")] = True
    same_everywhere: Annotated[bool, Doc("every switch must have the same setting")] = False
    max_bits_per_s: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Balancer:
    """The way chosen for a fabric, with its numbers."""

    mode: Mode
    inactivity_s: Annotated[float | None, DURATION, Doc("a flow this long silent may change its path")] = None
    flowset_count: int | None = None
    reassign_probability: int | None = None
    reassign_delta: int | None = None
    sampling_per_s: int | None = None
    utilisation_ratio: Annotated[float | None, RATIO, Doc("above this load a link is avoided")] = None


JUNIPER_DLB = "https://www.juniper.net/documentation/us/en/software/junos/ai-ml-evo/ (2026-11-15)"

OPTIONS: tuple[Option, ...] = (
    Option(
        mode="ecmp", label="hash (ECMP)", os=("junos", "sonic", "cumulus", "frr"), what="a flow keeps its path",
        notes=("few long RDMA flows collide: some links run over, others idle",
               "the destination queue pair in the hash spreads the flows of one pair of NICs"),
        source="https://www.juniper.net/documentation/us/en/software/junos/ai-ml-evo/topics/topic-map/"
               "load-balancing-queue-pair-hash.html (2026-11-15)",
    ),
    Option(
        mode="flowlet", label="dynamic, by flowlet (DLB)", os=("junos", "sonic"), same_everywhere=True,
        what="a flow moves to a better link after a pause", source=JUNIPER_DLB,
        notes=("not with resilient hashing, unicast only, not over members of a LAG",
               "poor where links differ in speed", "SONiC: no tunnel egress"),
    ),
    Option(
        mode="per-packet", label="dynamic, by packet (DLB)", os=("junos", "sonic"), same_everywhere=True,
        keeps_order=False, what="each packet takes the best link", source=JUNIPER_DLB,
        notes=("the NIC must accept packets out of order", "not with resilient hashing, unicast only, not over a LAG"),
    ),
    Option(
        mode="adaptive", label="adaptive routing", os=("cumulus",), keeps_order=False, overlay=False,
        max_bits_per_s=400e9, what="each RoCE packet takes the least loaded link",
        source="https://github.com/CumulusNetworks/docs, Cumulus Linux 5.19, Equal Cost Multipath, commit 506e83b3d9 "
               "(2026-08-21)",
        notes=("RoCE only, routed ports, default VRF; not on 800 Gb/s links, sub-interfaces, SVIs or bonds",
               "the NIC must accept packets out of order"),
    ),
    Option(
        mode="global", label="global load balancing (GLB)", os=("junos",), clos_stages=3, max_leaves=64,
        links_per_pair=1, overlay=False, same_everywhere=True,
        what="leaves also weigh the links behind the spines",
        source="https://www.juniper.net/documentation/us/en/software/junos/interfaces-ethernet-switches/topics/"
               "topic-map/global-load-balancing.html (2026-11-15)",
        notes=("spines are helpers only, leaves balance only", "not for overlay routes, IRB or multihomed servers"),
    ),
    Option(
        mode="spray", label="packet spraying", os=("junos", "sonic"), keeps_order=False, same_everywhere=True,
        what="packets go round all links", source=JUNIPER_DLB,
        notes=("the NIC must accept packets out of order", "all paths must be equal"),
    ),
    Option(
        mode="rlb", label="paths by address (RLB)", os=("junos",), same_everywhere=True, overlay=False,
        what="each sub-flow of a queue pair has an IPv6 address of its own, bound to a coloured path",
        source="https://www.juniper.net/documentation/jp/ja/software/jvd/jvd-ai-dc-qpp-bgp-dpf/ (2026-11-15)",
        notes=("four /64 prefixes for each rail of a leaf", "needs unnumbered IPv6 links and path forwarding by colour",
               "asked for by sub-flows, not as a way to balance"),
    ),
)  # fmt: skip


def option(mode: Mode | Literal["rlb"]) -> Option:
    """The option of that name."""
    return next(each for each in OPTIONS if each.mode == mode)


def balancer_for(mode: Mode, os: SwitchOs | None) -> Balancer:
    """The numbers of a mode: Junos flowlets as in the 2025 validated design, Cumulus as documented."""
    if os == "junos" and mode in ("flowlet", "per-packet", "global", "spray"):
        return Balancer(mode=mode, inactivity_s=128e-6, flowset_count=2048, reassign_probability=3, reassign_delta=6,
                        sampling_per_s=1_000_000)  # fmt: skip
    if mode == "adaptive":
        return Balancer(mode=mode, utilisation_ratio=0.70)
    if os == "sonic" and mode == "flowlet":
        return Balancer(mode=mode, inactivity_s=256e-6)
    return Balancer(mode=mode)


def limits_broken(
    chosen: Option, *, os: SwitchOs | None, leaves: int, tiers: int, links_per_pair: int, overlay: bool,
    fastest_bits_per_s: float,
) -> Iterator[str]:  # fmt: skip
    """What this fabric asks of a balancer that it cannot do, one sentence each."""
    if os is not None and os not in chosen.os:
        yield f"{chosen.label} is not a feature of {os}"
    if chosen.clos_stages is not None and 2 * tiers - 1 != chosen.clos_stages:
        yield f"{chosen.label} works in a Clos of {chosen.clos_stages} stages; this one has {2 * tiers - 1}"
    if chosen.max_leaves is not None and leaves > chosen.max_leaves:
        yield f"{chosen.label} works with {chosen.max_leaves} leaves at most; here are {leaves}"
    if chosen.links_per_pair is not None and links_per_pair > chosen.links_per_pair:
        yield f"{chosen.label} works with {chosen.links_per_pair} link between two switches; here are {links_per_pair}"
    if overlay and not chosen.overlay:
        yield f"{chosen.label} does not balance routes of an overlay"
    if chosen.max_bits_per_s is not None and fastest_bits_per_s > chosen.max_bits_per_s:
        yield f"{chosen.label} does not work on links above {chosen.max_bits_per_s / 1e9:g} Gb/s"
