"""How many leaves, spines, cores and cables: the arithmetic of a Clos, before any switch has a name.

R is the number of ports of a switch at the speed of a NIC. Two planes halve the speed of a link and double the
links of a switch; a cable of a NIC's full speed then carries one link to each plane, and cables are counted so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document import AtLeast, Doc
from gpuyard.errors import Infeasible, InputError, Problem
from gpuyard.fabric.clos import Clos, Leaf, flat, most_servers, split, three_tier, two_tier

__all__ = ["Size", "Sizing", "Tiers", "check_rails", "size", "size_of"]

Tiers = Literal["auto", "1", "2", "3"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """What `size` is asked; radixes count ports at the speed of a NIC."""

    nodes: Annotated[int, AtLeast(1)]
    rails: Annotated[int, AtLeast(1)] = 8
    radix: Annotated[int, AtLeast(2)] = 64
    tiers: Tiers = "auto"
    planes: Annotated[int, AtLeast(1)] = 1
    oversubscription_ratio: float = 1.0
    min_spines: Annotated[int, AtLeast(1)] = 4
    grow_to: Annotated[int | None, Doc("servers later, without moving a cable")] = None
    spine_radix: Annotated[int | None, Doc("of a spine, where it is another switch: a chassis")] = None
    core_radix: int | None = None
    uplink_ratio: Annotated[float, Doc("speed of an uplink over the speed of a server's link")] = 1.0
    servers_per_stripe: Annotated[int | None, Doc("fixed, instead of reckoned from the radix")] = None
    spines: Annotated[int | None, Doc("fixed, instead of reckoned; with links_per_pair")] = None
    links_per_pair: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The counts of a fabric, all planes together."""

    leaves: int
    spines: int
    cores: int
    node_leaf_cables: int
    leaf_spine_cables: int
    spine_core_cables: int
    gpus: int
    uplinks_per_leaf: Annotated[int, Doc("cables; with several planes each carries one link a plane")]
    oversubscription_ratio: Annotated[float, Doc("server bandwidth of a full leaf over its uplink bandwidth")]
    nodes: int
    rails: int
    planes: int
    tiers: int
    stripes: int
    pods: Annotated[int, Doc("groups of stripes with spines of their own; 1 below three tiers")]
    servers_per_stripe: Annotated[int, Doc("server ports of a leaf, used or not")]
    uplinks_per_leaf_and_plane: Annotated[int, Doc("links of one leaf upward")]
    links_per_pair: Annotated[int, Doc("parallel links between a leaf and a spine")]
    spines_per_pod: Annotated[int, Doc("in one plane")]
    uplinks_per_spine: int
    cores_per_group: Annotated[int, Doc("in one plane, the cores that the spines of one number share")]
    links_per_core_pair: int
    most_nodes: Annotated[int, Doc("servers that these switches reach in this number of tiers")]

    @property
    def switches(self) -> int:
        """Switches in all."""
        return self.leaves + self.spines + self.cores


def size(sizing: Sizing) -> Size | Infeasible:
    """The counts for a number of servers, or the limit that binds and the nearest design that works."""
    if problems := [*_problems(sizing)]:
        raise InputError(problems)
    planes = sizing.planes
    leaf = _leaf(sizing)
    if isinstance(leaf, Infeasible):
        return leaf
    spine = (sizing.spine_radix or sizing.radix) * planes / sizing.uplink_ratio
    above = (sizing.core_radix or sizing.radix) * planes / sizing.uplink_ratio
    found = _clos(sizing, leaf, int(spine + 1e-9), int(above + 1e-9))
    if isinstance(found, Infeasible):
        return found
    links_per_cable = max(1, round(planes / max(1.0, sizing.uplink_ratio)))
    return size_of(found, sizing.nodes, planes, links_per_cable, sizing.nodes * sizing.rails)


def _leaf(sizing: Sizing) -> Leaf | Infeasible:
    """How a leaf's ports are divided: as asked, or by the ratio."""
    radix = sizing.radix * sizing.planes
    if sizing.tiers == "1":
        return Leaf(servers=radix // sizing.rails, uplinks=0, ratio=0.0)
    down, up = split(radix, sizing.oversubscription_ratio, sizing.uplink_ratio)
    if sizing.spines:
        up = sizing.spines * (sizing.links_per_pair or max(1, up // sizing.spines))
        down = min(down, int(sizing.oversubscription_ratio * up * sizing.uplink_ratio + 1e-9))
    down = sizing.servers_per_stripe or down
    if down + up * sizing.uplink_ratio > radix + 1e-9:
        return Infeasible(
            binding="radix",
            what=f"{down} servers and {up} uplinks on a leaf need more than its {radix} ports",
            fix=f"use at most {int(radix - up * sizing.uplink_ratio)} servers a stripe, or fewer spines or links",
        )
    if not up or not down:
        return Infeasible(
            binding="radix",
            what=f"a switch of {radix} ports cannot be divided {sizing.oversubscription_ratio:g} to 1",
            fix="use a larger radix, or an oversubscription nearer to 1",
        )
    return Leaf(servers=down, uplinks=up, ratio=down / (up * sizing.uplink_ratio))


def _clos(sizing: Sizing, leaf: Leaf, spine: int, above: int) -> Clos | Infeasible:
    """The smallest number of tiers that reaches every server."""
    now, final = sizing.nodes, max(sizing.nodes, sizing.grow_to or 0)
    if sizing.tiers == "1":
        return flat(final, sizing.rails, leaf)
    two = two_tier(now, final, sizing.rails, leaf, spine, sizing.min_spines, sizing.spines)
    if sizing.tiers == "2" or isinstance(two, Clos):
        if sizing.tiers != "3":
            return two
    elif sizing.spines:
        return two
    three = three_tier(now, final, sizing.rails, leaf, spine, above, sizing.min_spines)
    if isinstance(three, Infeasible) and sizing.tiers == "auto" and isinstance(two, Infeasible):
        return three if two.binding == "reach" else two
    return three


def size_of(clos: Clos, nodes: int, planes: int, links_per_cable: int, gpus: int) -> Size:
    """The counts of a fabric whose planes are all this Clos; uplinks share cables by `links_per_cable`."""
    leaf = clos.leaf
    return Size(
        leaves=clos.leaves * planes,
        spines=clos.spines * planes,
        cores=clos.cores * planes,
        node_leaf_cables=nodes * clos.rails,
        leaf_spine_cables=clos.leaves * planes * leaf.uplinks // links_per_cable,
        spine_core_cables=clos.spines * planes * clos.uplinks_per_spine // links_per_cable,
        gpus=gpus,
        uplinks_per_leaf=-(-leaf.uplinks // links_per_cable),
        oversubscription_ratio=leaf.ratio,
        nodes=nodes,
        rails=clos.rails,
        planes=planes,
        tiers=clos.tiers,
        stripes=clos.stripes,
        pods=clos.pods,
        servers_per_stripe=leaf.servers,
        uplinks_per_leaf_and_plane=leaf.uplinks,
        links_per_pair=clos.links_per_pair,
        spines_per_pod=clos.spines_per_pod,
        uplinks_per_spine=clos.uplinks_per_spine,
        cores_per_group=clos.cores_per_group,
        links_per_core_pair=clos.links_per_core_pair,
        most_nodes=most_servers(clos),
    )


def check_rails(rails: int, gpus: int) -> Problem | None:
    """What is wrong with a number of rails; None if a server's GPUs spread evenly over them."""
    if (rails == 1 or rails % 2 == 0) and (gpus % rails == 0 or rails % gpus == 0):
        return None
    fits = [number for number in range(1, 2 * gpus + 1) if gpus % number == 0 and (number == 1 or number % 2 == 0)]
    near = sorted(sorted(fits, key=lambda number: (abs(number - rails), -number))[:2])
    return Problem(
        where="rails",
        what=f"{rails} rails do not divide the {gpus} GPUs of a server",
        fix=f"use {' or '.join(map(str, near))}: every GPU, or every even group of them, has its own rail",
    )


def _problems(sizing: Sizing) -> Iterator[Problem]:
    """What is wrong with the numbers, whatever the design."""
    positive = {"nodes": sizing.nodes, "rails": sizing.rails, "planes": sizing.planes, "min_spines": sizing.min_spines}
    for name, value in positive.items():
        if value < 1:
            yield Problem(where=name, what=f"{value} is less than 1", fix="give a whole number from 1")
    if sizing.radix < 2:
        yield Problem(where="radix", what=f"a switch with {sizing.radix} ports joins nothing", fix="give at least 2")
    if sizing.rails > 1 and sizing.rails % 2:
        yield Problem(
            where="rails",
            what=f"{sizing.rails} rails: an odd number does not divide the GPUs of a server",
            fix=f"use {sizing.rails - 1} or {sizing.rails + 1}; servers carry 1, 2, 4, 8 or 16 NICs",
        )
    if not 0 < sizing.oversubscription_ratio < float("inf"):
        yield Problem(
            where="oversubscription",
            what=f"{sizing.oversubscription_ratio:g} is no ratio of server to uplink bandwidth",
            fix="give 1 for a non-blocking fabric, 2 for 2:1",
        )
    if sizing.grow_to is not None and sizing.grow_to < sizing.nodes:
        yield Problem(
            where="grow_to",
            what=f"{sizing.grow_to} servers later are fewer than {sizing.nodes} now",
            fix="give the final number of servers, or leave it out",
        )
