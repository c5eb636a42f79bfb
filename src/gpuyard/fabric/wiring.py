"""The cabling plan: rail k of every server to leaf k of its stripe, every leaf to every spine.

Positions are those of the fabric after growth, so existing cables never move: a leaf owns its spine
ports from the start, and no name or port depends on the current number of servers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.fabric.clos_fit import ClosFit
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.names import Names
from gpuyard.fabric.ports import port_names, uplink_port_names
from gpuyard.topology.links import End, Link


@dataclass(frozen=True, slots=True, kw_only=True)
class Cable:
    """A link with the positions of its ends: `lower` toward the servers, `upper` above."""

    link: Link
    lower: End
    upper: End
    # host: (position,); leaf: (stripe, group of rails, plane); spine: (pod, number, plane)
    lower_key: tuple[int, ...]
    upper_key: tuple[int, ...]
    index: int  # among the links of its tier, in the fabric after growth
    rail: int = 0
    plane: int = 0


def cables(
    demand: Demand, parts: ClosFit, names: Names
) -> tuple[list[Cable], list[Cable], list[Cable]]:
    """Return the links from servers to leaves, from leaves to spines and from spines to cores."""
    planes = range(demand.planes)
    server = [cable for plane in planes for cable in _to_servers(demand, parts, names, plane)]
    spine = [cable for plane in planes for cable in _to_spines(demand, parts, names, plane)]
    above = [cable for plane in planes for cable in _to_cores(demand, parts, names, plane)]
    return server, spine, above


def _to_servers(demand: Demand, parts: ClosFit, names: Names, plane: int) -> Iterator[Cable]:
    clos, rails = parts.clos, demand.rails
    ports = port_names(parts.leaf, parts.os, parts.down_ways)
    lanes, per_stripe = clos.leaf.rails, clos.leaf.servers
    speed_bits_per_s, cable_m = demand.plane_bits_per_s, demand.cables.server_m
    offset = plane * clos.final_stripes * per_stripe * rails
    for number in range(demand.host_count):
        stripe, place = divmod(number, per_stripe)
        name = names.host(number)
        for rail in range(rails):
            group, lane = divmod(rail, lanes)
            leaf = (stripe, group, plane)
            lower = End(node=name, port=names.nic(rail, plane))
            upper = End(node=names.leaf(*leaf), port=ports[place * lanes + lane])
            yield Cable(
                link=Link(a=lower, b=upper, speed_bits_per_s=speed_bits_per_s, cable_m=cable_m),
                lower=lower,
                upper=upper,
                lower_key=(number,),
                upper_key=leaf,
                index=offset + number * rails + rail,
                rail=rail,
                plane=plane,
            )


def _to_spines(demand: Demand, parts: ClosFit, names: Names, plane: int) -> Iterator[Cable]:
    # The k-th group of a leaf's uplinks goes to the k-th spine of its pod.
    clos, leaves = parts.clos, parts.clos.leaves_per_stripe
    if parts.spine is None:
        return
    up = uplink_port_names(parts.leaf, parts.os, parts.up_ways, parts.up_ports)
    down = port_names(parts.spine, parts.os, parts.spine_ways)
    speed_bits_per_s, cable_m = demand.link_bits_per_s, demand.cables.spine_m
    uplinks, pair = clos.leaf.uplinks, clos.links_per_pair
    offset = plane * clos.final_stripes * leaves * uplinks
    for number in range(clos.stripes * leaves):
        stripe, group = divmod(number, leaves)
        pod, place = divmod(stripe, clos.stripes_per_pod)
        local = (place * leaves + group) * pair
        name = names.leaf(stripe, group, plane)
        for uplink in range(uplinks):
            spine, lane = divmod(uplink, pair)
            lower = End(node=name, port=up[uplink])
            upper = End(node=names.spine(pod, spine, plane), port=down[local + lane])
            yield Cable(
                link=Link(a=lower, b=upper, speed_bits_per_s=speed_bits_per_s, cable_m=cable_m),
                lower=lower,
                upper=upper,
                lower_key=(stripe, group, plane),
                upper_key=(pod, spine, plane),
                index=offset + number * uplinks + uplink,
                rail=group,
                plane=plane,
            )


def _to_cores(demand: Demand, parts: ClosFit, names: Names, plane: int) -> Iterator[Cable]:
    # Spines with the same number in their pods share a group of cores.
    clos = parts.clos
    if parts.spine is None or parts.core is None:
        return
    up = port_names(parts.spine, parts.os, parts.spine_ways)[clos.spine_links // 2 :]
    down = port_names(parts.core, parts.os, parts.core_ways)
    speed_bits_per_s, cable_m = demand.link_bits_per_s, demand.cables.core_m
    uplinks, pair = clos.uplinks_per_spine, clos.links_per_core_pair
    offset = plane * clos.final_spines * uplinks
    for number in range(clos.spines):
        pod, spine = divmod(number, clos.spines_per_pod)
        name = names.spine(pod, spine, plane)
        for uplink in range(uplinks):
            group, lane = divmod(uplink, pair)
            above = spine * clos.cores_per_group + group
            lower = End(node=name, port=up[uplink])
            upper = End(node=names.core(above, plane), port=down[pod * pair + lane])
            yield Cable(
                link=Link(a=lower, b=upper, speed_bits_per_s=speed_bits_per_s, cable_m=cable_m),
                lower=lower,
                upper=upper,
                lower_key=(pod, spine, plane),
                upper_key=(0, above, plane),
                index=offset + number * uplinks + uplink,
                plane=plane,
            )
