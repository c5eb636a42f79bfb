"""The networks that are simulated: shapes by name, fabrics from files, and fabrics designed on the spot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpuyard.app.fabric import demand_of_file, design_fabric, read_cabling
from gpuyard.app.shapes import DESIGNED, LINK_DELAY_S, NIC_BITS_PER_S, Site, Wanted, shaped_site
from gpuyard.app.sites import NVLINK_MACHINE, PORT_DELAY_S, SCALE_UP_DELAY_S, nccl_cluster, scale_up_of, site_of_fabric
from gpuyard.catalog import Catalog, load_catalog
from gpuyard.document import read_text
from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric import Demand, Fabric, ProviderFabric, demand_for
from gpuyard.fabric.demand import Cables
from gpuyard.simulate.flow import rail_network
from gpuyard.simulate.network import from_topology
from gpuyard.topology import Topology
from gpuyard.units import BITS_PER_S, show

__all__ = ["site_for"]


def site_for(wanted: Wanted, layers: Sequence[Path] = (), default_hosts: int | None = None) -> Site | Infeasible:
    """The network that is wanted; InputError if nothing says which."""
    if wanted.fabric is not None:
        return _from_file(wanted.fabric, wanted, layers)
    if wanted.gpus is not None:
        return _designed(wanted, layers)
    if wanted.shape == DESIGNED:
        return _rails(wanted, load_catalog(layers))
    return shaped_site(wanted, default_hosts)


def _from_file(path: Path, wanted: Wanted, layers: Sequence[Path]) -> Site | Infeasible:
    """A saved fabric, a topology or cabling; a fabric designed for a demand or a workload."""
    found: Fabric | ProviderFabric | Topology | Infeasible
    if path.suffix in (".yaml", ".yml"):
        demand = demand_of_file(path, layers)
        found = demand if isinstance(demand, Infeasible) else design_fabric(demand, layers)
    elif path.suffix == ".json" and path.is_file() and not _holds_cables(path):
        raise InputError.one(str(path), "is no saved fabric", "give what `gpuyard fabric design -o` wrote")
    else:
        found = read_cabling(path)
    if isinstance(found, Infeasible):
        return found
    if isinstance(found, Fabric):
        return site_of_fabric(found, load_catalog(layers), wanted)
    if isinstance(found, ProviderFabric):
        raise InputError.one(str(path), f"the fabric of {found.machine} is its provider's", "use --gpus with --machine")
    return _site_of_cabling(found, wanted)


def _holds_cables(path: Path) -> bool:
    """Whether a JSON file is a fabric, a topology, or a report of neighbours (a list); broken ones are told later."""
    try:
        data = json.loads(read_text(path))
    except json.JSONDecodeError:
        return True
    return not isinstance(data, dict) or bool({"interfaces", "port_names", "lldp"} & set(data))


def _designed(wanted: Wanted, layers: Sequence[Path]) -> Site | Infeasible:
    """The fabric that the designer makes of the flags."""
    catalog = load_catalog(layers)
    if wanted.machine:
        demand = demand_for(catalog.machine(wanted.machine), 1)
    else:
        rails = wanted.gpus_per_server or 8
        nic = wanted.link_bits_per_s or NIC_BITS_PER_S
        demand = Demand(server_count=1, nic_bits_per_s=nic, gpus_per_server=rails, rails=rails)
    gpus, each = wanted.gpus or 0, demand.gpus_per_server
    if gpus % each:
        raise InputError.one("--gpus", f"{gpus} GPUs do not fill servers of {each}", f"use {-(-gpus // each) * each}")
    demand = replace(
        demand,
        server_count=gpus // each,
        leaf=wanted.leaf,
        spine=wanted.spine,
        oversubscription_ratio=wanted.oversubscription_ratio or 1.0,
    )
    found = design_fabric(demand, layers)
    if isinstance(found, Infeasible):
        return found
    if isinstance(found, ProviderFabric):
        return _rented(found, demand, catalog, wanted)
    return site_of_fabric(found, catalog, wanted)


def _site_of_cabling(topology: Topology, wanted: Wanted) -> Site:
    """Cabling without a design."""
    network = from_topology(
        topology,
        port_delay_s=PORT_DELAY_S if wanted.delay_s is None else wanted.delay_s,
        unknown_cable_m=Cables().spine_m,
        scale_up_bits_per_s=wanted.scale_up_bits_per_s,
        scale_up_delay_s=SCALE_UP_DELAY_S,
    )
    return Site(network=network, topology=topology, label=f"cabling of {network.host_count:,} hosts")


def _rented(given: ProviderFabric, demand: Demand, catalog: Catalog, wanted: Wanted) -> Site:
    """A provider's own fabric: rails without oversubscription, since nothing else is published."""
    rate, _ = scale_up_of(wanted, demand.machine, demand.gpus_per_server, catalog)
    if rate is None:
        raise InputError.one("--machine", f"no scale-up link is known of {given.machine}", "add --scale-up")
    row, gpus = catalog.machine(given.machine), wanted.gpus or 0
    each = int(row.chip_count)
    if gpus % each:
        raise InputError.one("--gpus", f"{gpus} GPUs do not fill machines of {each}", f"use {-(-gpus // each) * each}")
    share = demand.nic_bits_per_s * demand.rails / demand.gpus_per_server  # of the NICs, a GPU
    network = rail_network(gpus // each, each, nic_bits_per_s=share, scale_up_bits_per_s=rate)
    note = f"{given.machine}: the provider's fabric is not published; non-blocking rails are taken, an upper bound"
    label = f"{network.host_count:,} GPUs of {given.machine}"
    measured = nccl_cluster(row, share, rate, catalog)
    return Site(network=network, label=label, nccl=measured, notes=(note,))


def _rails(wanted: Wanted, catalog: Catalog) -> Site:
    """Servers with a NIC a GPU, each rail on its own leaf."""
    hosts, rails = wanted.hosts, wanted.gpus_per_server or 8
    if not hosts or hosts % rails:
        fix = f"use {max(1, -(-(hosts or 0) // rails)) * rails}"
        raise InputError.one("--hosts", f"{hosts or 0} do not fill servers of {rails}", fix)
    rate = wanted.link_bits_per_s or NIC_BITS_PER_S
    inner, note = scale_up_of(wanted, wanted.machine, rails, catalog)
    network = rail_network(
        hosts // rails, rails, nic_bits_per_s=rate, scale_up_bits_per_s=inner or rate,
        oversubscription_ratio=wanted.oversubscription_ratio or 1.0,
        link_delay_s=LINK_DELAY_S if wanted.delay_s is None else wanted.delay_s,
    )  # fmt: skip
    label = f"rails of {hosts:,} hosts, {show(rate, BITS_PER_S)}"
    measured = nccl_cluster(catalog.machine(wanted.machine or NVLINK_MACHINE), rate, inner, catalog)
    return Site(network=network, label=label, nccl=measured, notes=(note,) if note else ())
