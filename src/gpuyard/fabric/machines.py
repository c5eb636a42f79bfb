"""Demands made from machines of the catalog, and the fabrics that stand beside a backend."""

from __future__ import annotations

from dataclasses import replace

from gpuyard.catalog import Machine
from gpuyard.errors import InputError
from gpuyard.fabric.demand import Demand, Pools, Purpose

__all__ = ["beside", "demand_for", "servers_of"]

# Juniper's validated front-end fabrics are 3:1 with two spines; storage is as the backend, without its policy.
BESIDE_SPINES = 2
FRONTEND_RATIO = 3.0


def servers_of(machine: Machine) -> int:
    """Servers that a machine is to its fabric: the trays of a rack, one for everything else."""
    nics, rails = machine.network.nic_count, machine.network.rail_count
    return max(1, nics // rails) if nics and rails else 1


def demand_for(machine: Machine, machine_count: int) -> Demand:
    """The backend that so many machines need, with the rails and NICs that the catalog gives them."""
    rails, fabric = machine.network.rail_count, machine.network.fabric_bits_per_s
    if rails is None or fabric is None or machine.chip_count < 1:
        raise InputError.one(
            "machine",
            f"the catalog does not say how many rails and how much fabric bandwidth {machine.name} has",
            "give rails, gpus_per_server and nic_bits_per_s instead of a machine",
        )
    servers = servers_of(machine)
    return Demand(
        machine=machine.name,
        server_count=machine_count * servers,
        gpus_per_server=int(machine.chip_count) // servers,
        rails=rails,
        nic_bits_per_s=fabric / (servers * rails),
    )


def beside(backend: Demand, purpose: Purpose, nic_bits_per_s: float, nics: int = 2) -> Demand:
    """The storage or front-end fabric of the same servers: each NIC to a leaf of its own, so that one may fail."""
    if purpose == "backend":
        raise InputError.one("purpose", "a backend does not stand beside itself", "use storage or frontend")
    return replace(
        backend,
        purpose=purpose,
        rails=nics,
        nic_bits_per_s=nic_bits_per_s,
        planes=1,
        shape="auto",
        min_spines=BESIDE_SPINES,
        oversubscription_ratio=FRONTEND_RATIO if purpose == "frontend" else 1.0,
        spine_count=None, links_per_pair=None, servers_per_stripe=None, uplink_bits_per_s=None,
        leaf=None, spine=None, core=None,
        tenancy="none", tenants=(), subflows=0, pools=Pools(scheme=backend.pools.scheme),
    )  # fmt: skip
