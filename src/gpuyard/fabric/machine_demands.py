"""Demands from machines of the catalog: the GPU backend, and frontend and storage fabrics."""

from __future__ import annotations

from dataclasses import replace

from gpuyard.catalog.machines import Machine
from gpuyard.errors import InputError
from gpuyard.fabric.demand import AttachedHosts, Demand, Pools, Purpose
from gpuyard.fabric.fabric import Fabric

# Juniper's validated frontend fabrics are 3:1 with two spines; storage is non-blocking with two.
SECONDARY_SPINES = 2
SECONDARY_NICS = 2
FRONTEND_RATIO = 3.0
SERVERS_PER_RACK = 4  # of 8 GPUs and about 10 kW, as in DGX SuperPODs
BMC_BITS_PER_S = 1e9  # of baseboard management controllers and of switches' management ports


def servers_of(machine: Machine) -> int:
    """Return the servers per machine: the trays of a rack, otherwise one."""
    nics, rails = machine.network.nic_count, machine.network.rail_count
    return max(1, nics // rails) if nics and rails else 1


def demand_for(machine: Machine, machine_count: int) -> Demand:
    """Return the backend demand of N machines, with rails and NICs from the catalog."""
    rails, fabric = machine.network.rail_count, machine.network.fabric_bits_per_s
    if rails is None or fabric is None or machine.chip_count < 1:
        raise InputError.one(
            "machine",
            f"the catalog has no rails or fabric bandwidth for {machine.name}",
            "set rails, gpus_per_server and nic_bits_per_s instead of a machine",
        )
    servers = servers_of(machine)
    return Demand(
        machine=machine.name,
        server_count=machine_count * servers,
        gpus_per_server=int(machine.chip_count) // servers,
        servers_per_domain=servers,
        rails=rails,
        nic_bits_per_s=fabric / (servers * rails),
        servers_per_rack=servers if servers > 1 else SERVERS_PER_RACK,
        # Servers with AMD GPUs are sold with Broadcom, AMD and NVIDIA NICs.
        nic_vendor="unknown" if (machine.chip or "").startswith("mi") else "connectx",
    )


def for_purpose(demand: Demand, purpose: Purpose) -> Demand:
    """Return the demand of another network of the same servers, with that purpose's defaults."""
    if purpose == demand.purpose:
        return demand
    if purpose == "backend":
        return replace(demand, purpose=purpose)
    management = purpose == "management"
    return replace(
        demand,
        purpose=purpose,
        rails=1 if management else SECONDARY_NICS,
        rails_per_leaf=1,
        servers_per_domain=1,
        nic_bits_per_s=BMC_BITS_PER_S if management else demand.nic_bits_per_s,
        min_spines=SECONDARY_SPINES,
        oversubscription_ratio=FRONTEND_RATIO if purpose == "frontend" else 1.0,
        planes=1,
        shape="auto",
        spine_count=None,
        links_per_pair=None,
        servers_per_stripe=None,
        uplink_bits_per_s=None,
        leaf=None,
        spine=None,
        core=None,
        os=None if management else demand.os,
        balancing=None,
        technology="ethernet",
        tenancy="none",
        tenants=(),
        subflows=0,
        pools=Pools(scheme=demand.pools.scheme),
    )


def with_switches(management: Demand, fabric: Fabric) -> Demand:
    """Return the management demand that also reaches every switch of a fabric."""
    names = tuple(device.name for device in fabric.switches)
    switches = AttachedHosts(name="switch", count=len(names), names=names)
    others = tuple(hosts for hosts in management.attached if hosts.name != switches.name)
    return replace(management, attached=(*others, switches))
