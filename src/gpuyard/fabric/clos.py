"""One plane of a Clos: leaves in stripes of one leaf a rail, spines that every leaf reaches alike, cores above pods.

The rules reproduce the published tables of Juniper's validated designs and NVIDIA's DGX SuperPODs:

    leaves  = rails x stripes
    spines  = the smallest divisor of a leaf's uplinks that is >= leaves x uplinks / ports of a spine,
              so that each leaf has the same number of links to every spine
    stripes <= ports of a spine / (rails x links a pair)
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.errors import Infeasible

__all__ = ["Clos", "Leaf", "flat", "most_servers", "split", "three_tier", "two_tier"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """How the links of a leaf are divided, in one plane."""

    servers: int  # servers that it can hold
    uplinks: int
    ratio: float  # bandwidth down over bandwidth up; 0 where nothing is above


@dataclass(frozen=True, slots=True, kw_only=True)
class Clos:
    """One plane; `final` counts are those of the full-grown fabric, which the wiring is laid out for."""

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
    spine_links: int = 0  # links that a spine has, at the speed of an uplink
    core_links: int = 0

    @property
    def single_leaf(self) -> bool:
        """True when one switch is the whole plane."""
        return self.tiers == 1 and self.leaves == 1

    @property
    def final_leaves(self) -> int:
        """Leaves of the full-grown plane."""
        return 1 if self.single_leaf else self.final_stripes * self.rails

    @property
    def final_pods(self) -> int:
        """Pods of the full-grown plane."""
        return -(-self.final_stripes // self.stripes_per_pod)

    @property
    def final_spines(self) -> int:
        """Spines of the full-grown plane."""
        return self.final_pods * self.spines_per_pod


def split(radix: int, ratio: float, uplink_ratio: float = 1.0) -> tuple[int, int]:
    """Servers and uplinks of a leaf: the most uplinks whose stated share of servers still fits beside them."""
    for uplinks in range(int(radix / uplink_ratio), 0, -1):
        servers = int(ratio * uplinks * uplink_ratio + 1e-9)
        if servers and servers + uplinks * uplink_ratio <= radix + 1e-9:
            return servers, uplinks
    return 0, 0


def flat(final: int, rails: int, leaf: Leaf) -> Clos | Infeasible:
    """One leaf that holds every NIC."""
    if final > leaf.servers:
        return Infeasible(
            binding="reach",
            what=f"one leaf holds {leaf.servers} servers of {rails} NICs, and {final} are wanted",
            fix="use two tiers, or a switch with more ports",
        )
    return Clos(tiers=1, rails=rails, leaf=leaf, stripes=1, final_stripes=1, leaves=1, stripes_per_pod=1)


def two_tier(
    now: int, final: int, rails: int, leaf: Leaf, spine: int, min_spines: int, spines: int | None = None
) -> Clos | Infeasible:
    """Leaves and spines for `final` servers, with the leaves that `now` of them need."""
    stripes, final_stripes = _up(now, leaf.servers), _up(final, leaf.servers)
    final_leaves = rails * final_stripes
    needed = _up(final_leaves * leaf.uplinks, spine)
    if needed > leaf.uplinks:
        most = spine // rails * leaf.servers
        return Infeasible(
            binding="reach",
            what=f"two tiers reach {most:,} servers of {rails} NICs (a spine's {spine} ports / {rails} rails"
            f" = {spine // rails} stripes of {leaf.servers}), and {final:,} are wanted",
            fix=f"use three tiers, a chassis spine of at least {final_leaves} ports, or at most {most:,} servers",
        )
    chosen = spines or _divisor(leaf.uplinks, max(needed, min_spines))
    if chosen is None:
        return Infeasible(
            binding="min_spines",
            what=f"a leaf has {leaf.uplinks} uplinks, too few to reach {min_spines} spines",
            fix=f"ask for at most {leaf.uplinks} spines, or use a leaf with more uplinks",
        )
    if chosen < needed or leaf.uplinks % chosen:
        good = _divisor(leaf.uplinks, needed)
        return Infeasible(
            binding="spines",
            what=f"{chosen} spines of {spine} ports cannot take {final_leaves} leaves x {leaf.uplinks} uplinks evenly",
            fix=f"use {good} spines",
        )
    return Clos(
        tiers=2, rails=rails, leaf=leaf, stripes=stripes, final_stripes=final_stripes,
        leaves=rails * stripes, spines=chosen, stripes_per_pod=final_stripes, spines_per_pod=chosen,
        links_per_pair=leaf.uplinks // chosen, spine_links=spine,
    )  # fmt: skip


def three_tier(
    now: int, final: int, rails: int, leaf: Leaf, spine: int, above: int, min_spines: int
) -> Clos | Infeasible:
    """Pods of leaves and spines under cores; of the sizes of a pod, the one with the fewest switches."""
    best: Clos | None = None
    most = spine // 2 // rails  # stripes of a pod when every leaf has one link to every spine
    for stripes_per_pod in range(min(most, _up(final, leaf.servers)), 0, -1):
        found = _pods(now, final, rails, leaf, spine, above, min_spines, stripes_per_pod)
        if found and (best is None or found.final_spines + found.cores < best.final_spines + best.cores):
            best = found
    if best is None:
        reach = most * above * leaf.servers
        return Infeasible(
            binding="reach",
            what=f"three tiers of these switches reach {reach:,} servers of {rails} NICs, and {final:,} are wanted",
            fix=f"use switches with more ports, a chassis above, or at most {reach:,} servers",
        )
    return best


def _pods(
    now: int, final: int, rails: int, leaf: Leaf, spine: int, above: int, min_spines: int, stripes_per_pod: int
) -> Clos | None:
    """The three tiers with pods of one size; None if they do not fit."""
    leaves_per_pod = rails * stripes_per_pod
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
        tiers=3, rails=rails, leaf=leaf, stripes=stripes, final_stripes=final_stripes, leaves=rails * stripes,
        spines=pods * spines, cores=spines * cores, pods=pods, stripes_per_pod=stripes_per_pod,
        spines_per_pod=spines, links_per_pair=links, uplinks_per_spine=up, cores_per_group=cores,
        links_per_core_pair=up // cores, spine_links=spine, core_links=above,
    )  # fmt: skip


def most_servers(clos: Clos) -> int:
    """Servers that fit without another tier and without moving a cable."""
    if clos.tiers == 1:
        return clos.leaf.servers
    if clos.tiers == 2:
        return clos.spine_links // (clos.rails * clos.links_per_pair) * clos.leaf.servers
    return clos.core_links // clos.links_per_core_pair * clos.stripes_per_pod * clos.leaf.servers


def _up(number: int, by: int) -> int:
    """The quotient, rounded up."""
    return -(-number // by)


def _divisor(number: int, least: int) -> int | None:
    """The smallest divisor that is not below `least`."""
    return next((divisor for divisor in range(max(1, least), number + 1) if number % divisor == 0), None)
