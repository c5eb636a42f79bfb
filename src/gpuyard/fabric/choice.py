"""Which switches: those that were named, or of all that the catalog holds the ones that need least."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.catalog import Catalog, Switch
from gpuyard.errors import Infeasible
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.fabric import Rejected
from gpuyard.fabric.fit import Parts, fit

__all__ = ["Choice", "choose"]

# The validated designs split a port in two; finer splits hang four servers on one cage.
FINEST_SPLIT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What carries the demand, best first, and what does not."""

    ranked: tuple[Parts, ...]
    refused: tuple[Rejected, ...]

    def rejected(self, taken: Parts) -> tuple[Rejected, ...]:
        """Everything but the parts that were taken, each with what was better."""
        others = (parts for parts in self.ranked if parts is not taken)
        return (*(Rejected(name=parts.leaf.name, why=_against(parts, taken)) for parts in others), *self.refused)


def choose(demand: Demand, catalog: Catalog) -> Choice | Infeasible:
    """The switches for a demand; Infeasible names the limit."""
    fits: list[Parts] = []
    refusals: list[tuple[Switch, Infeasible]] = []
    for leaf in _leaves(demand, catalog):
        found = _best(demand, leaf, catalog)
        if isinstance(found, Parts):
            fits.append(found)
        else:
            refusals.append((leaf, found))
    if not fits:
        return _refused(demand, refusals)
    return Choice(
        ranked=tuple(sorted(fits, key=_order)),
        refused=tuple(Rejected(name=leaf.name, why=refusal.what) for leaf, refusal in refusals),
    )


def _order(parts: Parts) -> tuple[bool, int, int, float, str]:
    """No fine splits, fewest tiers, fewest switches, least power where it is known."""
    power_w = float("inf") if parts.power_w is None else parts.power_w
    return parts.split > FINEST_SPLIT, parts.size.tiers, parts.final_switches, power_w, parts.leaf.name


def _against(parts: Parts, best: Parts) -> str:
    """Why the best is better than these parts."""
    if parts.split > FINEST_SPLIT >= best.split:
        return f"its ports would be split in {parts.split}"
    if parts.size.tiers != best.size.tiers:
        return f"{parts.size.tiers} tiers against {best.size.tiers}"
    if parts.final_switches != best.final_switches:
        return f"{parts.final_switches} switches against {best.final_switches}"
    if parts.power_w is None and best.power_w is not None:
        return "as many switches, and their power is not known"
    if parts.power_w is not None and best.power_w is not None and parts.power_w > best.power_w:
        return f"{parts.power_w:,.0f} W against {best.power_w:,.0f} W"
    return "as good; the first by name was taken"


def _leaves(demand: Demand, catalog: Catalog) -> Iterator[Switch]:
    """The leaves to try."""
    if demand.leaf:
        yield catalog.switch(demand.leaf)
        return
    for switch in catalog.switches:
        if "leaf" in switch.roles and _runs(demand, switch):
            yield switch


def _runs(demand: Demand, switch: Switch) -> bool:
    """True of a switch of the wanted technology and OS; plain FRR runs wherever Linux does."""
    return switch.technology == demand.technology and (demand.os in (None, "frr") or demand.os in switch.os)


def _best(demand: Demand, leaf: Switch, catalog: Catalog) -> Parts | Infeasible:
    """The first shape that carries the demand: two tiers, a chassis above, then three tiers."""
    refusal: Infeasible | None = None
    finer: Parts | None = None
    for spine, core in _above(demand, leaf, catalog):
        found = fit(demand, leaf, spine, core)
        if isinstance(found, Parts):
            if found.split <= FINEST_SPLIT or demand.spine:
                return found
            finer = finer or found
        elif refusal is None or (found.binding == "reach" and core is not None):
            refusal = found
    return (
        finer
        or refusal
        or Infeasible(
            binding="switches",
            what=f"no spine in the catalog runs with {leaf.label}",
            fix="name the spine, or another leaf",
        )
    )


def _above(demand: Demand, leaf: Switch, catalog: Catalog) -> Iterator[tuple[Switch, Switch | None]]:
    """Spines and cores to try over a leaf, in order of preference."""
    if demand.shape in ("single-leaf", "rail-only"):
        yield leaf, None
        return
    spines = [catalog.switch(demand.spine)] if demand.spine else [*_peers(demand, leaf, "spine", catalog)]
    if demand.shape in ("auto", "two-tier"):
        yield from ((spine, None) for spine in spines)
    if demand.shape in ("auto", "three-tier"):
        cores = [catalog.switch(demand.core)] if demand.core else [*_peers(demand, leaf, "core", catalog)]
        for spine in spines:
            if not spine.chassis or demand.spine:
                yield from ((spine, core) for core in cores)


def _peers(demand: Demand, leaf: Switch, role: str, catalog: Catalog) -> Iterator[Switch]:
    """Switches of a role from the leaf's vendor that run its OS: the leaf's own model, larger ones, then chassis."""
    if role in leaf.roles:
        yield leaf
    others = [
        switch
        for switch in catalog.switches
        if switch is not leaf and role in switch.roles and _runs(demand, switch)
        and switch.vendor == leaf.vendor and (set(switch.os) & set(leaf.os) or not leaf.os)
    ]  # fmt: skip
    yield from sorted(others, key=lambda switch: (switch.chassis, switch.port_count * switch.port_bits_per_s))


def _refused(demand: Demand, refusals: list[tuple[Switch, Infeasible]]) -> Infeasible:
    """The refusal of the switch that was named, or of the one that reaches farthest."""
    if not refusals:
        return Infeasible(
            binding="switches",
            what=f"the catalog holds no {demand.technology} leaf" + (f" that runs {demand.os}" if demand.os else ""),
            fix="name a leaf, or another OS",
        )
    largest = sorted(refusals, key=lambda pair: pair[0].port_count * pair[0].port_bits_per_s, reverse=True)
    _, refusal = next((pair for pair in largest if pair[1].binding == "reach"), largest[0])
    return refusal
