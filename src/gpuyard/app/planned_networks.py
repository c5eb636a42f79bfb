"""The simulated network behind `gpuyard plan --network simulated`: flows over the fabric that an option would have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpuyard.app.shapes import Site, Wanted
from gpuyard.app.sites import scale_up_of, site_of_fabric
from gpuyard.catalog import Catalog, Chip, Machine, load_catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric import demand_for, design, provider_fabric
from gpuyard.perf import Constants, NetworkModel, nic_bytes_per_s
from gpuyard.plan.shortlist import Networks
from gpuyard.simulate.flow import Balance, FlowModel, FlowSettings, flow_model, rail_network
from gpuyard.units import bits_from_bytes

__all__ = ["model_of", "planned_networks", "planned_site"]

LEAST_BITS_PER_S = 1.0  # a network of which nothing is known is left to the closed forms


def planned_networks(layers: Sequence[Path] = ()) -> Networks:
    """For each cluster of a plan the model of its network; each is made once."""
    catalog = load_catalog(layers)
    made: dict[tuple[str, int, str | None], FlowModel | None] = {}

    def network(machine: Machine, machine_count: int, switch: str | None, constants: Constants) -> NetworkModel | None:
        """The model of so many machines."""
        key = machine.name, machine_count, switch
        if key not in made:
            site = planned_site(machine, machine_count, switch, catalog)
            made[key] = model_of(site, constants) if site is not None else None
        return made[key]

    return network


def model_of(site: Site, constants: Constants, balancing: str | None = None) -> FlowModel:
    """Collectives as flows over a network, balanced as it was designed or as is asked."""
    # A provider's network is taken as adaptive: nothing is published that would speak for collisions.
    asked = balancing or (site.packets.balance if site.packets else "adaptive")
    balance: Balance = "ecmp" if asked == "ecmp" else "spray" if asked == "spray" else "adaptive"
    return flow_model(site.network, constants, FlowSettings(balance=balance))


def planned_site(machine: Machine, machine_count: int, switch: str | None, catalog: Catalog) -> Site | None:
    """The fabric that is designed for machines that are bought; non-blocking rails for those that are rented.

    None for a single server, for tori, and where the catalog does not tell the network's rate.
    """
    chip = next((chip for chip in catalog.chips if chip.name == machine.chip), None)
    rate = bits_from_bytes(nic_bytes_per_s(machine))
    if chip is None or chip.kind != "gpu" or rate < LEAST_BITS_PER_S or machine_count * machine.chip_count < 2:
        return None
    designed = _designed(machine, machine_count, switch, catalog)
    return designed or _rails(machine, machine_count, chip, rate, catalog)


def _designed(machine: Machine, machine_count: int, switch: str | None, catalog: Catalog) -> Site | None:
    """The designer's fabric, where machines are bought and every GPU has its NIC."""
    if provider_fabric(machine) is not None or machine.provider != "onprem":
        return None
    try:
        demand = replace(demand_for(machine, machine_count), leaf=switch)
        fabric = design(demand, catalog)
    except InputError:  # the catalog knows too little of the machine
        return None
    if isinstance(fabric, Infeasible) or demand.rails != demand.gpus_per_server:
        return None
    return site_of_fabric(fabric, catalog)


def _rails(machine: Machine, machine_count: int, chip: Chip, rate: float, catalog: Catalog) -> Site:
    """Rails without oversubscription: each GPU has its share of the machine's network."""
    domain = max(1, machine.scale_up_domain_count or 1) if chip.scale_up else 1
    gpus = int(machine_count * machine.chip_count)
    domain = min(domain, gpus)
    domain = domain if gpus % domain == 0 else 1
    inner, _ = scale_up_of(Wanted(), machine.name, domain, catalog)
    network = rail_network(gpus // domain, domain, nic_bits_per_s=rate, scale_up_bits_per_s=inner or rate)
    note = f"{machine.name}: no fabric is published; non-blocking rails are taken, an upper bound"
    return Site(network=network, label=f"{gpus:,} GPUs of {machine.name}", notes=(note,))
