"""Sizing of a Clos fabric: leaves, spines, cores and cables, before switches are chosen.

The radix is the number of ports of a switch at NIC speed. Two planes halve the speed of a link and
double the links of a switch; a cable at full NIC speed then carries one link to each plane.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.errors import Infeasible, InputError, Problem
from gpuyard.fabric.clos import (
    Clos,
    Leaf,
    max_servers,
    one_leaf_clos,
    split_leaf_ports,
    three_tier,
    two_tier,
)

Tiers = Literal["auto", "1", "2", "3"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """Input of `size`; a radix counts ports at NIC speed."""

    nodes: Annotated[int, AtLeast(1)]
    rails: Annotated[int, AtLeast(1)] = 8
    radix: Annotated[int, AtLeast(2)] = 64
    tiers: Tiers = "auto"
    planes: Annotated[int, AtLeast(1)] = 1
    oversubscription_ratio: float = 1.0
    min_spines: Annotated[int, AtLeast(1)] = 4
    grow_to: Annotated[int | None, Doc("servers after growth, without moving a cable")] = None
    spine_radix: Annotated[int | None, Doc("if the spine is another switch, such as a chassis")] = (
        None
    )
    core_radix: int | None = None
    uplink_ratio: Annotated[float, Doc("uplink speed over server link speed")] = 1.0
    servers_per_stripe: Annotated[int | None, Doc("none: computed from the radix")] = None
    spines: Annotated[int | None, Doc("none: computed; with links_per_pair")] = None
    links_per_pair: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The counts of a fabric, over all planes."""

    leaves: int
    spines: int
    cores: int
    node_leaf_cables: int
    leaf_spine_cables: int
    spine_core_cables: int
    gpus: int
    uplinks_per_leaf: Annotated[int, Doc("cables; each carries one link per plane")]
    oversubscription_ratio: Annotated[
        float,
        Doc("server bandwidth over uplink bandwidth of the most-loaded leaf; 0 without uplinks"),
    ]
    nodes: int
    rails: int
    planes: int
    tiers: int
    stripes: int
    pods: Annotated[int, Doc("groups of stripes that share spines; 1 below three tiers")]
    servers_per_stripe: Annotated[int, Doc("server ports of a leaf, used or not")]
    uplinks_per_leaf_and_plane: Annotated[int, Doc("links of one leaf to spines")]
    links_per_pair: Annotated[int, Doc("parallel links between a leaf and a spine")]
    spines_per_pod: Annotated[int, Doc("in one plane")]
    uplinks_per_spine: int
    cores_per_group: Annotated[
        int, Doc("in one plane, cores shared by the spines with the same number")
    ]
    links_per_core_pair: int
    most_nodes: Annotated[int, Doc("maximum servers with these switches and tiers")]

    @property
    def switches(self) -> int:
        return self.leaves + self.spines + self.cores


def size(sizing: Sizing) -> Size | Infeasible:
    """Size a fabric for N servers, or return the binding constraint and the nearest fix."""
    if problems := [*_problems(sizing)]:
        raise InputError(problems)
    planes = sizing.planes
    leaf = _leaf(sizing)
    if isinstance(leaf, Infeasible):
        return leaf
    spine = (sizing.spine_radix or sizing.radix) * planes / sizing.uplink_ratio
    above = (sizing.core_radix or sizing.radix) * planes / sizing.uplink_ratio
    clos = _clos(sizing, leaf, int(spine + 1e-9), int(above + 1e-9))
    if isinstance(clos, Infeasible):
        return clos
    links_per_cable = max(1, round(planes / max(1.0, sizing.uplink_ratio)))
    return size_of(clos, sizing.nodes, planes, links_per_cable, sizing.nodes * sizing.rails)


def _leaf(sizing: Sizing) -> Leaf | Infeasible:
    radix = sizing.radix * sizing.planes
    if sizing.tiers == "1":
        return Leaf(servers=radix // sizing.rails, uplinks=0, ratio=0.0, rails=sizing.rails)
    down, up = split_leaf_ports(radix, sizing.oversubscription_ratio, sizing.uplink_ratio)
    if sizing.spines:
        up = sizing.spines * (sizing.links_per_pair or max(1, up // sizing.spines))
        down = min(down, int(sizing.oversubscription_ratio * up * sizing.uplink_ratio + 1e-9))
    down = sizing.servers_per_stripe or down
    if down + up * sizing.uplink_ratio > radix + 1e-9:
        return Infeasible(
            binding="radix",
            what=f"{down} servers and {up} uplinks per leaf need more than its {radix} ports",
            fix=f"use at most {int(radix - up * sizing.uplink_ratio)} servers per stripe,"
            " or fewer spines or links",
        )
    if not up or not down:
        return Infeasible(
            binding="radix",
            what=f"{radix} ports cannot be split {sizing.oversubscription_ratio:g}:1",
            fix="use a larger radix, or an oversubscription closer to 1",
        )
    return Leaf(servers=down, uplinks=up, ratio=down / (up * sizing.uplink_ratio))


def _clos(sizing: Sizing, leaf: Leaf, spine: int, above: int) -> Clos | Infeasible:
    now, final = sizing.nodes, max(sizing.nodes, sizing.grow_to or 0)
    if sizing.tiers == "1":
        return one_leaf_clos(final, sizing.rails, leaf)
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
    """Return the counts of a fabric with this Clos in every plane."""
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
        oversubscription_ratio=leaf.ratio * min(nodes, leaf.servers) / leaf.servers,
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
        most_nodes=max_servers(clos),
    )


def check_rails(rails: int, gpus: int) -> Problem | None:
    """Return the problem with a number of rails; None if a server's GPUs divide evenly."""
    if (rails == 1 or rails % 2 == 0) and (gpus % rails == 0 or rails % gpus == 0):
        return None
    fits = [
        number
        for number in range(1, 2 * gpus + 1)
        if gpus % number == 0 and (number == 1 or number % 2 == 0)
    ]
    closest = sorted(sorted(fits, key=lambda number: (abs(number - rails), -number))[:2])
    return Problem(
        where="rails",
        what=f"{rails} rails do not divide the {gpus} GPUs of a server",
        fix=f"use {' or '.join(map(str, closest))} rails",
    )


def _problems(sizing: Sizing) -> Iterator[Problem]:
    positive = {
        "nodes": sizing.nodes,
        "rails": sizing.rails,
        "planes": sizing.planes,
        "min_spines": sizing.min_spines,
    }
    for name, value in positive.items():
        if value < 1:
            yield Problem(where=name, what=f"{value} is less than 1", fix="use at least 1")
    if sizing.radix < 2:
        yield Problem(
            where="radix",
            what=f"a switch with {sizing.radix} ports connects nothing",
            fix="use at least 2",
        )
    if sizing.rails > 1 and sizing.rails % 2:
        yield Problem(
            where="rails",
            what=f"{sizing.rails} rails: an odd number does not divide the GPUs of a server",
            fix=f"use {sizing.rails - 1} or {sizing.rails + 1}; servers have 1, 2, 4, 8 or 16 NICs",
        )
    if not 0 < sizing.oversubscription_ratio < float("inf"):
        yield Problem(
            where="oversubscription",
            what=f"{sizing.oversubscription_ratio:g} is not a bandwidth ratio",
            fix="use 1 for a non-blocking fabric, 2 for 2:1",
        )
    if sizing.grow_to is not None and sizing.grow_to < sizing.nodes:
        yield Problem(
            where="grow_to",
            what=f"{sizing.grow_to} servers after growth are fewer than {sizing.nodes} now",
            fix="set the final number of servers, or remove it",
        )
