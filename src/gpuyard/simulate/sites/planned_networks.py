"""Simulated networks of planned options, for `gpuyard plan --network simulated`."""

from __future__ import annotations

from dataclasses import replace

from gpuyard.catalog.chips import Chip
from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric.design import design
from gpuyard.fabric.machine_demands import demand_for
from gpuyard.fabric.provider import provider_fabric
from gpuyard.perf.collectives import NetworkModel
from gpuyard.perf.constants import TrainingConstants
from gpuyard.perf.from_catalog import nic_bytes_per_s
from gpuyard.plan.shortlist import Networks
from gpuyard.simulate.flow.model import FlowModel, flow_model
from gpuyard.simulate.flow.rails import rail_network
from gpuyard.simulate.flow.settings import Balance, FlowSettings
from gpuyard.simulate.sites.fabric_network import scale_up_of, site_of_fabric
from gpuyard.simulate.sites.named_topologies import NetworkOptions, NetworkSetup
from gpuyard.units import bits_from_bytes

LEAST_BITS_PER_S = 1.0  # a network of which nothing is known is left to the closed forms


def planned_networks(catalog: Catalog) -> Networks:
    """Simulated network models for the clusters of a plan, each built once."""
    models: dict[tuple[str, int, str | None], FlowModel | None] = {}

    def network(
        machine: Machine, machine_count: int, switch: str | None, constants: TrainingConstants
    ) -> NetworkModel | None:
        key = machine.name, machine_count, switch
        if key not in models:
            site = planned_site(machine, machine_count, switch, catalog)
            models[key] = model_of(site, constants) if site is not None else None
        return models[key]

    return network


def model_of(
    site: NetworkSetup, constants: TrainingConstants, balancing: str | None = None
) -> FlowModel:
    """Collectives as flows over a network, balanced as it was designed or as is asked."""
    # A provider's network is taken as adaptive: nothing is published that would speak for
    # collisions.
    mode = balancing or (site.packets.balance if site.packets else "adaptive")
    balance: Balance = "ecmp" if mode == "ecmp" else "spray" if mode == "spray" else "adaptive"
    return flow_model(site.network, constants, FlowSettings(balance=balance))


def planned_site(
    machine: Machine, machine_count: int, switch: str | None, catalog: Catalog
) -> NetworkSetup | None:
    """Return the designed fabric of bought machines, non-blocking rails for rented ones.

    None for a single server, for tori, and where the catalog has no network rate.
    """
    chip = next((chip for chip in catalog.chips if chip.name == machine.chip), None)
    rate = bits_from_bytes(nic_bytes_per_s(machine))
    if (
        chip is None
        or chip.kind != "gpu"
        or rate < LEAST_BITS_PER_S
        or machine_count * machine.chip_count < 2
    ):
        return None
    designed = _designed(machine, machine_count, switch, catalog)
    return designed or _rails(machine, machine_count, chip, rate, catalog)


def _designed(
    machine: Machine, machine_count: int, switch: str | None, catalog: Catalog
) -> NetworkSetup | None:
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


def _rails(
    machine: Machine, machine_count: int, chip: Chip, rate: float, catalog: Catalog
) -> NetworkSetup:
    """Rails without oversubscription: each GPU has its share of the machine's network."""
    domain = max(1, machine.scale_up_domain_count or 1) if chip.scale_up else 1
    gpus = int(machine_count * machine.chip_count)
    domain = min(domain, gpus)
    domain = domain if gpus % domain == 0 else 1
    inner, _ = scale_up_of(NetworkOptions(), machine.name, domain, catalog)
    network = rail_network(
        gpus // domain, domain, nic_bits_per_s=rate, scale_up_bits_per_s=inner or rate
    )
    note = f"{machine.name}: no fabric is published; non-blocking rails are taken, an upper bound"
    return NetworkSetup(network=network, label=f"{gpus:,} GPUs of {machine.name}", notes=(note,))
