"""Networks to simulate: designed for a number of GPUs, from cabling, or by name."""

from __future__ import annotations

from dataclasses import replace

from gpuyard.catalog.load import Catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric.demand import CableLengths, Demand
from gpuyard.fabric.design import design
from gpuyard.fabric.machine_demands import demand_for
from gpuyard.fabric.provider import ProviderFabric, provider_fabric
from gpuyard.simulate.flow.rails import rail_network
from gpuyard.simulate.network import from_topology
from gpuyard.simulate.sites.fabric_network import (
    NVLINK_MACHINE,
    PORT_DELAY_S,
    SCALE_UP_DELAY_S,
    nccl_cluster,
    scale_up_of,
    site_of_fabric,
)
from gpuyard.simulate.sites.named_topologies import (
    DESIGNED,
    LINK_DELAY_S,
    NIC_BITS_PER_S,
    NetworkOptions,
    NetworkSetup,
    shaped_site,
)
from gpuyard.topology.topology import Topology
from gpuyard.units import BITS_PER_S, show


def network_setup(
    wanted: NetworkOptions, catalog: Catalog, default_hosts: int | None = None
) -> NetworkSetup | Infeasible:
    """Build the network; InputError if the options do not define one."""
    if wanted.gpus is not None:
        return _designed(wanted, catalog)
    if wanted.shape == DESIGNED:
        return _rails(wanted, catalog)
    return shaped_site(wanted, default_hosts)


def _designed(wanted: NetworkOptions, catalog: Catalog) -> NetworkSetup | Infeasible:
    if wanted.machine:
        demand = demand_for(catalog.machine(wanted.machine), 1)
    else:
        rails = wanted.gpus_per_server or 8
        nic = wanted.link_bits_per_s or NIC_BITS_PER_S
        demand = Demand(server_count=1, nic_bits_per_s=nic, gpus_per_server=rails, rails=rails)
    gpus, per_server = wanted.gpus or 0, demand.gpus_per_server
    if gpus % per_server:
        raise InputError.one(
            "--gpus",
            f"{gpus} GPUs do not fill servers of {per_server}",
            f"use {-(-gpus // per_server) * per_server}",
        )
    demand = replace(
        demand,
        server_count=gpus // per_server,
        leaf=wanted.leaf,
        spine=wanted.spine,
        oversubscription_ratio=wanted.oversubscription_ratio or 1.0,
    )
    managed = provider_fabric(catalog.machine(demand.machine)) if demand.machine else None
    if managed is not None:
        return _rented(managed, demand, catalog, wanted)
    fabric = design(demand, catalog)
    return fabric if isinstance(fabric, Infeasible) else site_of_fabric(fabric, catalog, wanted)


def site_of_cabling(topology: Topology, wanted: NetworkOptions) -> NetworkSetup:
    """The network of cabling alone, with unknown cables at the length of a spine link."""
    network = from_topology(
        topology,
        port_delay_s=PORT_DELAY_S if wanted.delay_s is None else wanted.delay_s,
        unknown_cable_m=CableLengths().spine_m,
        scale_up_bits_per_s=wanted.scale_up_bits_per_s,
        scale_up_delay_s=SCALE_UP_DELAY_S,
    )
    return NetworkSetup(
        network=network, topology=topology, label=f"cabling of {network.host_count:,} hosts"
    )


def _rented(
    given: ProviderFabric, demand: Demand, catalog: Catalog, wanted: NetworkOptions
) -> NetworkSetup:
    """A provider's own fabric: rails without oversubscription, since nothing else is published."""
    rate, _ = scale_up_of(wanted, demand.machine, demand.gpus_per_server, catalog)
    if rate is None:
        raise InputError.one(
            "--machine", f"no scale-up link is known of {given.machine}", "add --scale-up"
        )
    row, gpus = catalog.machine(given.machine), wanted.gpus or 0
    per_machine = int(row.chip_count)
    if gpus % per_machine:
        raise InputError.one(
            "--gpus",
            f"{gpus} GPUs do not fill machines of {per_machine}",
            f"use {-(-gpus // per_machine) * per_machine}",
        )
    share = demand.nic_bits_per_s * demand.rails / demand.gpus_per_server  # of the NICs, a GPU
    network = rail_network(
        gpus // per_machine, per_machine, nic_bits_per_s=share, scale_up_bits_per_s=rate
    )
    note = (
        f"{given.machine}: the provider's fabric is not published; non-blocking rails are taken, an"
        " upper bound"
    )
    label = f"{network.host_count:,} GPUs of {given.machine}"
    measured = nccl_cluster(row, share, rate, catalog)
    return NetworkSetup(network=network, label=label, nccl=measured, notes=(note,))


def _rails(wanted: NetworkOptions, catalog: Catalog) -> NetworkSetup:
    """Servers with a NIC a GPU, each rail on its own leaf."""
    hosts, rails = wanted.hosts, wanted.gpus_per_server or 8
    if not hosts or hosts % rails:
        fix = f"use {max(1, -(-(hosts or 0) // rails)) * rails}"
        raise InputError.one("--hosts", f"{hosts or 0} do not fill servers of {rails}", fix)
    rate = wanted.link_bits_per_s or NIC_BITS_PER_S
    inner, note = scale_up_of(wanted, wanted.machine, rails, catalog)
    network = rail_network(
        hosts // rails,
        rails,
        nic_bits_per_s=rate,
        scale_up_bits_per_s=inner or rate,
        oversubscription_ratio=wanted.oversubscription_ratio or 1.0,
        link_delay_s=LINK_DELAY_S if wanted.delay_s is None else wanted.delay_s,
    )
    label = f"rails of {hosts:,} hosts, {show(rate, BITS_PER_S)}"
    measured = nccl_cluster(catalog.machine(wanted.machine or NVLINK_MACHINE), rate, inner, catalog)
    return NetworkSetup(network=network, label=label, nccl=measured, notes=(note,) if note else ())
