"""One plane of a Clos: stripes (scalable units) of one leaf per rail, spines, and cores above pods.

The rules reproduce the published tables of Juniper's validated designs and NVIDIA's DGX SuperPODs:

    leaves  = rails / rails per leaf x stripes
    spines  = the smallest divisor of the uplinks per leaf that is
              >= leaves x uplinks / ports per spine,
              so that each leaf has the same number of links to every spine
    stripes <= ports per spine / (leaves per stripe x links per pair)
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.errors import Infeasible


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """The split of a leaf's links in one plane."""

    servers: int  # maximum
    uplinks: int
    ratio: float  # downlink over uplink bandwidth; 0 without uplinks
    rails: int = 1  # NICs of every server on this leaf


@dataclass(frozen=True, slots=True, kw_only=True)
class Clos:
    """One plane; `final` counts are those after growth, for which the cabling is laid out."""

    tiers: int
    rails: int
    leaf: Leaf
    stripes: int
    final_stripes: int
    leaves: int
    spines: int = 0
    cores: int = 0
    pods: int = 1
    stripes_per_pod: int
    spines_per_pod: int = 0
    links_per_pair: int = 0
    uplinks_per_spine: int = 0
    cores_per_group: int = 0
    links_per_core_pair: int = 0
    spine_links: int = 0  # per spine, at uplink speed
    core_links: int = 0

    @property
    def single_leaf(self) -> bool:
        return self.tiers == 1 and self.leaves == 1

    @property
    def leaves_per_stripe(self) -> int:
        return self.rails // self.leaf.rails

    @property
    def final_leaves(self) -> int:
        return self.final_stripes * self.leaves_per_stripe

    @property
    def final_pods(self) -> int:
        return -(-self.final_stripes // self.stripes_per_pod)

    @property
    def final_spines(self) -> int:
        return self.final_pods * self.spines_per_pod


def split_leaf_ports(radix: int, ratio: float, uplink_ratio: float = 1.0) -> tuple[int, int]:
    """Return servers and uplinks per leaf: the most uplinks for which the servers still fit."""
    for uplinks in range(int(radix / uplink_ratio), 0, -1):
        servers = int(ratio * uplinks * uplink_ratio + 1e-9)
        if servers and servers + uplinks * uplink_ratio <= radix + 1e-9:
            return servers, uplinks
    return 0, 0


def one_leaf_clos(final: int, rails: int, leaf: Leaf) -> Clos | Infeasible:
    """Return a plane of one leaf with every NIC."""
    if final > leaf.servers:
        return Infeasible(
            binding="reach",
            what=f"one leaf connects {leaf.servers} servers with {rails} NICs,"
            f" and {final} are needed",
            fix="use two tiers, or a switch with more ports",
        )
    return Clos(
        tiers=1, rails=rails, leaf=leaf, stripes=1, final_stripes=1, leaves=1, stripes_per_pod=1
    )


def two_tier(
    now: int,
    final: int,
    rails: int,
    leaf: Leaf,
    spine: int,
    min_spines: int,
    spines: int | None = None,
) -> Clos | Infeasible:
    """Return leaves and spines laid out for `final` servers, with the leaves that `now` need."""
    stripes, final_stripes = _up(now, leaf.servers), _up(final, leaf.servers)
    per_stripe = rails // leaf.rails
    final_leaves = per_stripe * final_stripes
    needed = _up(final_leaves * leaf.uplinks, spine)
    if needed > leaf.uplinks:
        most = spine // per_stripe * leaf.servers
        return Infeasible(
            binding="reach",
            what=f"two tiers reach {most:,} servers with {rails} NICs ({spine} spine ports"
            f" / {per_stripe} leaves = {spine // per_stripe} stripes of {leaf.servers}),"
            f" and {final:,} are needed",
            fix=f"use three tiers, a chassis spine with at least {final_leaves} ports,"
            f" or at most {most:,} servers",
        )
    chosen = spines or _divisor(leaf.uplinks, max(needed, min_spines))
    if chosen is None:
        return Infeasible(
            binding="min_spines",
            what=f"a leaf has {leaf.uplinks} uplinks, too few for {min_spines} spines",
            fix=f"use at most {leaf.uplinks} spines, or a leaf with more uplinks",
        )
    if chosen < needed or leaf.uplinks % chosen:
        return Infeasible(
            binding="spines",
            what=f"{chosen} spines with {spine} ports cannot take {final_leaves} leaves"
            f" x {leaf.uplinks} uplinks evenly",
            fix=f"use {_divisor(leaf.uplinks, needed)} spines",
        )
    return Clos(
        tiers=2,
        rails=rails,
        leaf=leaf,
        stripes=stripes,
        final_stripes=final_stripes,
        leaves=per_stripe * stripes,
        spines=chosen,
        stripes_per_pod=final_stripes,
        spines_per_pod=chosen,
        links_per_pair=leaf.uplinks // chosen,
        spine_links=spine,
    )


def three_tier(
    now: int, final: int, rails: int, leaf: Leaf, spine: int, above: int, min_spines: int
) -> Clos | Infeasible:
    """Return pods of leaves and spines under cores, with the pod size of fewest switches."""
    best: Clos | None = None
    most = (
        spine // 2 // (rails // leaf.rails)
    )  # stripes per pod with one link from every leaf to every spine
    for stripes_per_pod in range(min(most, _up(final, leaf.servers)), 0, -1):
        clos = _pods(now, final, rails, leaf, spine, above, min_spines, stripes_per_pod)
        if clos and (
            best is None or clos.final_spines + clos.cores < best.final_spines + best.cores
        ):
            best = clos
    if best is None:
        reach = most * above * leaf.servers
        return Infeasible(
            binding="reach",
            what=f"three tiers of these switches reach {reach:,} servers with {rails} NICs,"
            f" and {final:,} are needed",
            fix=f"use switches with more ports, chassis cores, or at most {reach:,} servers",
        )
    return best


def _pods(
    now: int,
    final: int,
    rails: int,
    leaf: Leaf,
    spine: int,
    above: int,
    min_spines: int,
    stripes_per_pod: int,
) -> Clos | None:
    per_stripe = rails // leaf.rails
    leaves_per_pod = per_stripe * stripes_per_pod
    spines = _divisor(leaf.uplinks, max(_up(leaves_per_pod * leaf.uplinks, spine // 2), min_spines))
    if spines is None:
        return None
    links = leaf.uplinks // spines
    up = leaves_per_pod * links  # as many links up as down
    stripes, final_stripes = _up(now, leaf.servers), _up(final, leaf.servers)
    pods, final_pods = _up(stripes, stripes_per_pod), _up(final_stripes, stripes_per_pod)
    cores = _divisor(up, _up(final_pods * up, above))
    if cores is None:
        return None
    return Clos(
        tiers=3,
        rails=rails,
        leaf=leaf,
        stripes=stripes,
        final_stripes=final_stripes,
        leaves=per_stripe * stripes,
        spines=pods * spines,
        cores=spines * cores,
        pods=pods,
        stripes_per_pod=stripes_per_pod,
        spines_per_pod=spines,
        links_per_pair=links,
        uplinks_per_spine=up,
        cores_per_group=cores,
        links_per_core_pair=up // cores,
        spine_links=spine,
        core_links=above,
    )


def max_servers(clos: Clos) -> int:
    """Return the servers that fit without another tier and without moving a cable."""
    if clos.tiers == 1:
        return clos.leaf.servers
    if clos.tiers == 2:
        return (
            clos.spine_links // (clos.leaves_per_stripe * clos.links_per_pair) * clos.leaf.servers
        )
    return clos.core_links // clos.links_per_core_pair * clos.stripes_per_pod * clos.leaf.servers


def _up(number: int, by: int) -> int:
    return -(-number // by)


def _divisor(number: int, least: int) -> int | None:
    return next(
        (divisor for divisor in range(max(1, least), number + 1) if number % divisor == 0), None
    )
