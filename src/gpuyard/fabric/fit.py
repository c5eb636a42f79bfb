"""Whether given switches carry a demand: how the ports of a leaf are divided, and the Clos that they make."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.catalog import Switch, SwitchOs
from gpuyard.errors import Infeasible
from gpuyard.fabric.clos import Clos, Leaf, flat, three_tier, two_tier
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.ports import links_per_port
from gpuyard.fabric.size import Size, size_of
from gpuyard.units import BITS_PER_S, show

__all__ = ["Parts", "fit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The switches of a fabric, how their ports are split, and the Clos of one plane."""

    leaf: Switch
    spine: Switch | None
    core: Switch | None
    os: SwitchOs | None
    down_ways: int  # links that a leaf's port toward servers is split into
    up_ways: int  # the same toward spines
    spine_ways: int
    core_ways: int
    up_ports: int  # ports of a leaf toward spines
    clos: Clos
    size: Size

    @property
    def split(self) -> int:
        """The finest split of any port in use."""
        return max(self.down_ways, self.up_ways, self.spine_ways, self.core_ways)

    @property
    def final_switches(self) -> int:
        """Switches of the full-grown fabric."""
        clos = self.clos
        return (clos.final_leaves + clos.final_spines + clos.cores) * self.size.planes

    @property
    def power_w(self) -> float | None:
        """What the switches draw; None if that of one is not known."""
        total_w = 0.0
        for switch, count in self.counted:
            if switch.power_w is None:
                return None
            total_w += switch.power_w * count
        return total_w

    @property
    def counted(self) -> tuple[tuple[Switch, int], ...]:
        """The switches with their numbers, leaves first."""
        counts = ((self.leaf, self.size.leaves), (self.spine, self.size.spines), (self.core, self.size.cores))
        return tuple((switch, count) for switch, count in counts if switch is not None and count)


def fit(demand: Demand, leaf: Switch, spine: Switch, core: Switch | None) -> Parts | Infeasible:
    """The parts of a fabric made of these switches, in the shape asked; with a core, in three tiers."""
    down = links_per_port(leaf, demand.plane_bits_per_s)
    if not down:
        return _no_speed(leaf, demand.plane_bits_per_s)
    if demand.shape in ("single-leaf", "rail-only"):
        clos = _leaves_only(demand, leaf.port_count * down)
        ways, up_ports = (down, 0, 0, 0), 0
    else:
        used = (leaf, spine, core) if core else (leaf, spine)
        up, above, top = (*(links_per_port(switch, demand.link_bits_per_s) for switch in used), 0)[:3]
        for switch, links in zip(used, (up, above, top), strict=False):
            if not links:
                return _no_speed(switch, demand.link_bits_per_s)
        divided = _divide(demand, leaf, down, up)
        if isinstance(divided, Infeasible):
            return divided
        ways, up_ports = (down, up, above, top), -(-divided.uplinks // up)
        now, final, spine_links = demand.server_count, demand.final_count, spine.port_count * above
        if core:
            core_links = core.port_count * top
            clos = three_tier(now, final, demand.rails, divided, spine_links, core_links, demand.min_spines)
        else:
            clos = two_tier(now, final, demand.rails, divided, spine_links, demand.min_spines, demand.spine_count)
    if isinstance(clos, Infeasible):
        return clos
    systems = _systems(demand, [switch for switch in (leaf, spine if clos.spines else None, core) if switch])
    if isinstance(systems, Infeasible):
        return systems
    return Parts(
        leaf=leaf, spine=spine if clos.spines else None, core=core, os=systems,
        down_ways=ways[0], up_ways=ways[1], spine_ways=ways[2], core_ways=ways[3],
        up_ports=up_ports, clos=clos, size=_size(demand, clos),
    )  # fmt: skip


def _systems(demand: Demand, used: list[Switch]) -> SwitchOs | Infeasible | None:
    """The OS of all the switches: the one asked for, or the first that they share; None on InfiniBand."""
    first, *others = used
    shared = [os for os in first.os if all(os in switch.os for switch in others)]
    if any(switch.technology != first.technology for switch in others):
        shared = []
    elif first.technology == "infiniband" or demand.os is not None:
        return demand.os
    if not shared:
        labels = " and ".join(switch.label for switch in used)
        return Infeasible(binding="os", what=f"{labels} run no OS in common", fix="name switches that share one")
    return shared[0]


def _size(demand: Demand, clos: Clos) -> Size:
    """The counts; uplinks at the speed of a plane share cables as the planes of a NIC do."""
    uplink_ratio = demand.link_bits_per_s / demand.plane_bits_per_s
    links_per_cable = max(1, round(demand.planes / max(1.0, uplink_ratio)))
    gpus = demand.server_count * demand.gpus_per_server
    return size_of(clos, demand.server_count, demand.planes, links_per_cable, gpus)


def _leaves_only(demand: Demand, links: int) -> Clos | Infeasible:
    """One leaf for everything, or one for each rail, and nothing above."""
    final, rails = demand.final_count, demand.rails
    if demand.shape == "single-leaf":
        return flat(final, rails, Leaf(servers=links // rails, uplinks=0, ratio=0.0))
    if final > links:
        return Infeasible(
            binding="reach",
            what=f"a rail without spines is one leaf of {links} servers, and {final:,} are wanted",
            fix=f"use shape two-tier, or at most {links} servers",
        )
    leaf = Leaf(servers=links, uplinks=0, ratio=0.0)
    return Clos(tiers=1, rails=rails, leaf=leaf, stripes=1, final_stripes=1, leaves=rails, stripes_per_pod=1)


def _divide(demand: Demand, switch: Switch, down: int, up: int) -> Leaf | Infeasible:
    """How many links of a leaf go to servers and how many to spines."""
    speed = demand.link_bits_per_s / demand.plane_bits_per_s  # of an uplink, in links of servers
    ratio, ports = demand.oversubscription_ratio, switch.port_count
    uplinks = servers = 0
    for up_ports in range(ports - 1, 0, -1):
        uplinks = up_ports * up
        servers = int(ratio * uplinks * speed + 1e-9)
        if servers and -(-servers // down) + up_ports <= ports:
            break
    if demand.spine_count:
        uplinks = demand.spine_count * (demand.links_per_pair or max(1, uplinks // demand.spine_count))
        servers = min(servers, int(ratio * uplinks * speed + 1e-9))
    servers = demand.servers_per_stripe or servers
    needed = -(-servers // down) - (-uplinks // up)
    if not servers or not uplinks or needed > ports:
        return Infeasible(
            binding="ports",
            what=f"a {switch.label} has {ports} ports, and {servers} servers with {uplinks} uplinks take {needed}",
            fix="use fewer servers a stripe, fewer spines or links, or a leaf with more ports",
        )
    return Leaf(servers=servers, uplinks=uplinks, ratio=servers / (uplinks * speed))


def _no_speed(switch: Switch, bits_per_s: float) -> Infeasible:
    """The refusal of a switch without ports of a speed."""
    speeds = [show(speed, BITS_PER_S) for speed in sorted(switch.speeds_bits_per_s or (switch.port_bits_per_s,))]
    return Infeasible(
        binding="speed",
        what=f"{switch.label} has no ports of {show(bits_per_s, BITS_PER_S)}",
        fix=f"it runs {', '.join(speeds)}: choose one of them, or another switch",
    )
