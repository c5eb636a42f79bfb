"""Fits switches to a demand: the split of leaf ports, and the resulting Clos."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.catalog.switches import Switch
from gpuyard.errors import Infeasible
from gpuyard.fabric.clos import Clos, Leaf, one_leaf_clos, three_tier, two_tier
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.ports import links_per_port, uplinks_per_port
from gpuyard.fabric.render.switch_os_list import os_names
from gpuyard.fabric.size import Size, size_of
from gpuyard.units import BITS_PER_S, show


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosFit:
    """The switches of a fabric, the breakouts of their ports, and the Clos of one plane."""

    leaf: Switch
    spine: Switch | None
    core: Switch | None
    os: str | None
    down_ways: int  # breakout of leaf ports toward servers
    up_ways: int  # breakout of leaf ports toward spines
    spine_ways: int
    core_ways: int
    up_ports: int  # leaf ports toward spines
    link_bits_per_s: float  # between switches
    clos: Clos
    size: Size

    @property
    def split(self) -> int:
        return max(self.down_ways, self.up_ways, self.spine_ways, self.core_ways)

    @property
    def final_switches(self) -> int:
        clos = self.clos
        return (clos.final_leaves + clos.final_spines + clos.cores) * self.size.planes

    @property
    def power_w(self) -> float | None:
        """Power of all switches; None if that of one is unknown."""
        total_w = 0.0
        for switch, count in self.counted:
            if switch.power_w is None:
                return None
            total_w += switch.power_w * count
        return total_w

    @property
    def counted(self) -> tuple[tuple[Switch, int], ...]:
        counts = (
            (self.leaf, self.size.leaves),
            (self.spine, self.size.spines),
            (self.core, self.size.cores),
        )
        return tuple((switch, count) for switch, count in counts if switch is not None and count)


def fit(demand: Demand, leaf: Switch, spine: Switch, core: Switch | None) -> ClosFit | Infeasible:
    """Fit these switches to the demand in its shape; with a core, in three tiers."""
    down = links_per_port(leaf, demand.plane_bits_per_s)
    if not down:
        return _no_speed(leaf, demand.plane_bits_per_s)
    if demand.shape in ("single-leaf", "rail-only"):
        clos = _leaves_only(demand, leaf.port_count * down)
        ways, up_ports = (down, 0, 0, 0), 0
    else:
        used = (leaf, spine, core) if core else (leaf, spine)
        up, above, top = (
            *(uplinks_per_port(switch, demand.link_bits_per_s) for switch in used),
            0,
        )[:3]
        for switch, links in zip(used, (up, above, top), strict=False):
            if not links:
                return _no_speed(switch, demand.link_bits_per_s)
        divided = _divide(demand, leaf, down, up)
        if isinstance(divided, Infeasible):
            return divided
        ways = (down, up, above, top)
        clos = _fewest_switches(
            demand,
            divided,
            spine.port_count * above,
            core.port_count * top if core else None,
        )
        if isinstance(clos, Infeasible):
            return clos
        up_ports = -(-clos.leaf.uplinks // up)
    if isinstance(clos, Infeasible):
        return clos
    switches = (leaf, spine if clos.spines else None, core)
    os = _shared_os(demand, [switch for switch in switches if switch])
    if isinstance(os, Infeasible):
        return os
    return ClosFit(
        leaf=leaf,
        spine=spine if clos.spines else None,
        core=core,
        os=os,
        down_ways=ways[0],
        up_ways=ways[1],
        spine_ways=ways[2],
        core_ways=ways[3],
        up_ports=up_ports,
        link_bits_per_s=demand.link_bits_per_s,
        clos=clos,
        size=_size(demand, clos),
    )


def _fewest_switches(
    demand: Demand, largest: Leaf, spine_links: int, core_links: int | None
) -> Clos | Infeasible:
    """The Clos with the fewest switches, then cables, whose uplinks carry the planned servers."""
    rails, spines = demand.rails, demand.min_spines
    now, final = demand.host_count, demand.final_host_count

    def clos_of(leaf: Leaf) -> Clos | Infeasible:
        if core_links is None:
            return two_tier(now, final, rails, leaf, spine_links, spines, demand.spine_count)
        return three_tier(now, final, rails, leaf, spine_links, core_links, spines)

    tried = [clos_of(leaf) for leaf in _leaf_splits(demand, largest)]
    feasible = [clos for clos in tried if isinstance(clos, Clos)]
    if not feasible:
        return clos_of(largest)
    return min(feasible, key=_final_spines)  # the first of equals has the fewest uplinks


def _final_spines(clos: Clos) -> int:
    return clos.final_spines + clos.cores


def _leaf_splits(demand: Demand, largest: Leaf) -> Iterator[Leaf]:
    """Leaves for the planned servers in equal stripes, with few uplinks first.

    The uplinks are rounded up to multiples of every number of spines, which must divide them.
    """
    if demand.spine_count or demand.servers_per_stripe:
        yield largest
        return
    speed = demand.link_bits_per_s / demand.plane_bits_per_s
    servers = _servers_per_stripe(demand, largest.servers)
    links = servers * largest.rails
    needed = math.ceil(links / (demand.oversubscription_ratio * speed) - 1e-9)
    rounded = {
        -(-needed // spines) * spines for spines in range(1, max(needed, demand.min_spines) + 1)
    }
    for uplinks in sorted(rounded | {largest.uplinks}):
        if needed <= uplinks <= largest.uplinks:
            yield Leaf(
                servers=servers,
                uplinks=uplinks,
                ratio=links / (uplinks * speed),
                rails=largest.rails,
            )


def _servers_per_stripe(demand: Demand, most: int) -> int:
    """Servers in equal stripes of at most `most`, with whole scale-up domains where they fit."""
    domain = demand.servers_per_domain if demand.servers_per_domain <= most else 1
    domains = -(-demand.final_host_count // domain)
    stripes = -(-domains // (most // domain))
    return -(-domains // stripes) * domain


def _shared_os(demand: Demand, used: list[Switch]) -> str | Infeasible | None:
    # The requested OS, or the first that gpuyard supports on all the switches; None on InfiniBand.
    first, *others = used
    shared = [
        os for os in first.os if os in os_names() and all(os in switch.os for switch in others)
    ]
    if any(switch.technology != first.technology for switch in others):
        shared = []
    elif first.technology == "infiniband" or demand.os is not None:
        return demand.os
    if not shared:
        labels = " and ".join(switch.label for switch in used)
        return Infeasible(
            binding="os", what=f"{labels} share no OS", fix="choose switches that share one"
        )
    return shared[0]


def _size(demand: Demand, clos: Clos) -> Size:
    # Uplinks at plane speed share cables as the planes of a NIC do.
    uplink_ratio = demand.link_bits_per_s / demand.plane_bits_per_s
    links_per_cable = max(1, round(demand.planes / max(1.0, uplink_ratio)))
    gpus = demand.server_count * demand.gpus_per_server
    return size_of(clos, demand.host_count, demand.planes, links_per_cable, gpus)


def _leaves_only(demand: Demand, links: int) -> Clos | Infeasible:
    final, rails, lanes = demand.final_host_count, demand.rails, demand.rails_per_leaf
    if demand.shape == "single-leaf":
        return one_leaf_clos(
            final, rails, Leaf(servers=links // rails, uplinks=0, ratio=0.0, rails=rails)
        )
    most = links // lanes
    if final > most:
        return Infeasible(
            binding="reach",
            what=f"a rail without spines is one leaf of {most} servers, and {final:,} are needed",
            fix=f"use shape two-tier, or at most {most} servers",
        )
    return Clos(
        tiers=1,
        rails=rails,
        leaf=Leaf(servers=most, uplinks=0, ratio=0.0, rails=lanes),
        stripes=1,
        final_stripes=1,
        leaves=rails // lanes,
        stripes_per_pod=1,
    )


def _divide(demand: Demand, switch: Switch, down: int, up: int) -> Leaf | Infeasible:
    speed = demand.link_bits_per_s / demand.plane_bits_per_s  # of an uplink, in server links
    ratio, ports, lanes = demand.oversubscription_ratio, switch.port_count, demand.rails_per_leaf
    most = ports * down // lanes  # servers, if every port faces them
    uplinks = servers = 0
    for up_ports in range(switch.uplink_port_count or ports - 1, 0, -1):
        uplinks = up_ports * up
        servers = min(most, int(ratio * uplinks * speed / lanes + 1e-9))
        if servers and _ports_needed(switch, servers * lanes, down, uplinks, up) <= ports:
            break
    if demand.spine_count:
        uplinks = demand.spine_count * (
            demand.links_per_pair or max(1, uplinks // demand.spine_count)
        )
        servers = min(servers, int(ratio * uplinks * speed / lanes + 1e-9))
    servers = demand.servers_per_stripe or servers
    needed = _ports_needed(switch, servers * lanes, down, uplinks, up)
    if not servers or not uplinks or needed > ports:
        return Infeasible(
            binding="ports",
            what=f"{switch.label} has {ports} ports, and {servers} servers with {uplinks} uplinks"
            f" need {needed}",
            fix="use fewer servers per stripe, fewer spines or links, or a leaf with more ports",
        )
    return Leaf(
        servers=servers,
        uplinks=uplinks,
        ratio=servers * lanes / (uplinks * speed),
        rails=lanes,
    )


def _ports_needed(switch: Switch, links: int, down: int, uplinks: int, up: int) -> int:
    # A switch with separate uplink ports needs the others for servers alone.
    uplink_ports = -(-uplinks // up)
    if switch.uplink_port_count:
        return (
            switch.port_count + 1 if uplink_ports > switch.uplink_port_count else -(-links // down)
        )
    return -(-links // down) + uplink_ports


def _no_speed(switch: Switch, bits_per_s: float) -> Infeasible:
    speeds = [
        show(speed, BITS_PER_S)
        for speed in sorted(switch.speeds_bits_per_s or (switch.port_bits_per_s,))
    ]
    return Infeasible(
        binding="speed",
        what=f"{switch.label} does not support {show(bits_per_s, BITS_PER_S)}",
        fix=f"use one of its speeds ({', '.join(speeds)}), or another switch",
    )
