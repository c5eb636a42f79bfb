"""Switch selection: the requested switches, or the best of the catalog."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.switches import Switch
from gpuyard.errors import Infeasible
from gpuyard.fabric.clos_fit import ClosFit, fit
from gpuyard.fabric.demand import LOSSLESS, Demand
from gpuyard.fabric.fabric import RejectedChoice
from gpuyard.fabric.lossless.balancing import balancing_mode
from gpuyard.fabric.lossless.headroom import is_published
from gpuyard.fabric.ports import uplink_port_bits_per_s, uplinks_per_port
from gpuyard.fabric.render.switch_os_list import switch_os

# The validated designs use 2-way breakouts; finer ones put four servers on one cage.
FINEST_SPLIT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchChoice:
    """The switches that fit, best first, and those that do not."""

    ranked: tuple[ClosFit, ...]
    unfit: tuple[RejectedChoice, ...]

    def rejected(self, taken: ClosFit) -> tuple[RejectedChoice, ...]:
        others = (parts for parts in self.ranked if parts is not taken)
        return (
            *(RejectedChoice(name=parts.leaf.name, why=_against(parts, taken)) for parts in others),
            *self.unfit,
        )


def choose(demand: Demand, catalog: Catalog) -> SwitchChoice | Infeasible:
    """Choose switches for a demand, or return the binding constraint."""
    fits: list[ClosFit] = []
    unfit: list[tuple[Switch, Infeasible]] = []
    for leaf in _leaves(demand, catalog):
        parts = _best(demand, leaf, catalog)
        if isinstance(parts, ClosFit):
            fits.append(parts)
        else:
            unfit.append((leaf, parts))
    if not fits:
        return _binding(demand, unfit)
    return SwitchChoice(
        ranked=tuple(sorted(fits, key=_order)),
        unfit=tuple(RejectedChoice(name=leaf.name, why=reason.what) for leaf, reason in unfit),
    )


def _order(parts: ClosFit) -> tuple[bool, int, int, float, str]:
    # No fine breakouts, fewest tiers, fewest switches, least known power.
    power_w = float("inf") if parts.power_w is None else parts.power_w
    return (
        parts.split > FINEST_SPLIT,
        parts.size.tiers,
        parts.final_switches,
        power_w,
        parts.leaf.name,
    )


def _against(parts: ClosFit, best: ClosFit) -> str:
    if parts.split > FINEST_SPLIT >= best.split:
        return f"needs {parts.split}-way breakouts"
    if parts.size.tiers != best.size.tiers:
        return f"{parts.size.tiers} tiers against {best.size.tiers}"
    if parts.final_switches != best.final_switches:
        return f"{parts.final_switches} switches against {best.final_switches}"
    if parts.power_w is None and best.power_w is not None:
        return "as many switches, with unknown power"
    if parts.power_w is not None and best.power_w is not None and parts.power_w > best.power_w:
        return f"{parts.power_w:,.0f} W against {best.power_w:,.0f} W"
    return "equally good; the first by name was chosen"


def _leaves(demand: Demand, catalog: Catalog) -> Iterator[Switch]:
    if demand.leaf:
        yield catalog.switch(demand.leaf)
        return
    for switch in catalog.switches:
        if "leaf" in switch.roles and _runs(demand, switch):
            yield switch


def _runs(demand: Demand, switch: Switch) -> bool:
    """True of a switch of the wanted technology and OS; plain FRR runs wherever Linux does."""
    return switch.technology == demand.technology and (
        demand.os is None or switch_os(demand.os).runs_on(switch)
    )


def _best(demand: Demand, leaf: Switch, catalog: Catalog) -> ClosFit | Infeasible:
    # The first shape that fits: two tiers, a chassis spine, then three tiers.
    reason: Infeasible | None = None
    finer: ClosFit | None = None
    if _may_be_single_leaf(demand):
        alone = fit(replace(demand, shape="single-leaf"), leaf, leaf, None)
        if isinstance(alone, ClosFit):
            return alone
    for spine, core in _above(demand, leaf, catalog):
        speed = uplink_speed(demand, [leaf, spine, *([core] if core else [])], catalog)
        parts = fit(replace(demand, uplink_bits_per_s=speed), leaf, spine, core)
        if isinstance(parts, ClosFit):
            if parts.split <= FINEST_SPLIT or demand.spine:
                return parts
            finer = finer or parts
        elif reason is None or (parts.binding == "reach" and core is not None):
            reason = parts
    return (
        finer
        or reason
        or Infeasible(
            binding="switches",
            what=f"no spine in the catalog works with {leaf.label}",
            fix="set the spine, or choose another leaf",
        )
    )


def uplink_speed(demand: Demand, switches: Sequence[Switch], catalog: Catalog) -> float:
    """Return the speed of links between switches: the requested one, that of NICs, or of ports.

    Links at NIC speed split the ports of validated designs in two. Where they would be split
    further, and outside backends, links at the ports' own speed need a fraction of the cables;
    they must have published headroom, and a speed that the load balancing supports.
    """
    slow = demand.plane_bits_per_s
    if demand.uplink_bits_per_s is not None:
        return demand.uplink_bits_per_s
    ways = max(uplinks_per_port(switch, slow) for switch in switches)
    if ways <= FINEST_SPLIT and demand.purpose == "backend":
        return slow
    native = min(uplink_port_bits_per_s(switch) for switch in switches)
    limit = balancing_mode(demand.balancing).max_bits_per_s if demand.balancing else None
    works = all(
        uplinks_per_port(switch, native) and _has_headroom(demand, switch, native, catalog)
        for switch in switches
    )
    return native if native > slow and works and native <= (limit or native) else slow


def _has_headroom(demand: Demand, switch: Switch, bits_per_s: float, catalog: Catalog) -> bool:
    if demand.purpose not in LOSSLESS or switch.asic is None:
        return True
    asic = catalog.asic(switch.asic)
    tables = switch.headroom_lookup or asic.headroom_lookup
    return not tables or is_published(switch, asic, bits_per_s)


def _may_be_single_leaf(demand: Demand) -> bool:
    """Whether one switch per plane may be the whole fabric.

    Frontend and storage NICs have a leaf each, so that a server survives the loss of one; a
    management network has one port per device.
    """
    named = (demand.spine, demand.core, demand.spine_count, demand.servers_per_stripe)
    shared = demand.purpose in ("backend", "management")
    return demand.shape == "auto" and shared and not any(named)


def _above(
    demand: Demand, leaf: Switch, catalog: Catalog
) -> Iterator[tuple[Switch, Switch | None]]:
    if demand.shape in ("single-leaf", "rail-only"):
        yield leaf, None
        return
    spines = (
        [catalog.switch(demand.spine)]
        if demand.spine
        else [*_peers(demand, leaf, "spine", catalog)]
    )
    if demand.shape in ("auto", "two-tier"):
        yield from ((spine, None) for spine in spines)
    if demand.shape in ("auto", "three-tier"):
        cores = (
            [catalog.switch(demand.core)]
            if demand.core
            else [*_peers(demand, leaf, "core", catalog)]
        )
        for spine in spines:
            if not spine.chassis or demand.spine:
                yield from ((spine, core) for core in cores)


def _peers(demand: Demand, leaf: Switch, role: str, catalog: Catalog) -> Iterator[Switch]:
    # From the leaf's vendor, with its OS: the leaf's own model, larger ones, then chassis.
    if role in leaf.roles:
        yield leaf
    others = [
        switch
        for switch in catalog.switches
        if switch is not leaf
        and role in switch.roles
        and _runs(demand, switch)
        and switch.vendor == leaf.vendor
        and (set(switch.os) & set(leaf.os) or not leaf.os)
    ]
    yield from sorted(
        others, key=lambda switch: (switch.chassis, switch.port_count * switch.port_bits_per_s)
    )


def _binding(demand: Demand, unfit: list[tuple[Switch, Infeasible]]) -> Infeasible:
    # The constraint of the requested switch, or of the largest one.
    if not unfit:
        return Infeasible(
            binding="switches",
            what=f"the catalog has no {demand.technology} leaf"
            + (f" that runs {demand.os}" if demand.os else ""),
            fix="set a leaf, or choose another OS",
        )
    largest = sorted(
        unfit, key=lambda pair: pair[0].port_count * pair[0].port_bits_per_s, reverse=True
    )
    _, reason = next((pair for pair in largest if pair[1].binding == "reach"), largest[0])
    return reason
