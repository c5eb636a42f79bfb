"""Scales a design down to one host: fewer servers, with the same rails and stripes if possible."""

from __future__ import annotations

import math
from dataclasses import replace

from gpuyard.catalog.load import Catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric

MAX_SERVERS = 32
MAX_SWITCHES = 40  # three daemons each, about 15 MB together


def scaled(fabric: Fabric, server_count: int, catalog: Catalog) -> Fabric | Infeasible:
    """Return the design for N servers with one link per leaf and spine, on Linux with FRR."""
    if fabric.demand.technology != "ethernet":
        raise InputError.one(
            "lab", "InfiniBand has no routing daemons to run", "design an Ethernet fabric"
        )
    if fabric.demand.has_overlay:
        raise InputError.one(
            "lab",
            "tenants need VRF devices, which the lab does not support",
            "design with --tenancy none",
        )
    if not 1 <= server_count <= MAX_SERVERS:
        raise InputError.one("--servers", f"{server_count} servers", f"use 1 to {MAX_SERVERS}")
    demand, size = fabric.demand, fabric.size
    if (
        demand.os == "frr"
        and server_count == demand.server_count
        and len(fabric.switches) <= MAX_SWITCHES
    ):
        return fabric
    stripes = max(1, min(size.stripes, server_count))
    per_stripe = math.ceil(server_count / stripes)
    wanted = Demand(
        server_count=server_count,
        nic_bits_per_s=demand.nic_bits_per_s,
        rails=demand.rails,
        gpus_per_server=demand.gpus_per_server,
        machine=demand.machine,
        shape="two-tier" if demand.shape == "three-tier" else demand.shape,
        planes=demand.planes,
        min_spines=1,
        os="frr",
        addressing=demand.addressing,
        balancing="ecmp",  # what the Linux kernel does
        pools=demand.pools,
    )
    if size.spines:
        wanted = replace(
            wanted,
            servers_per_stripe=per_stripe,
            spine_count=max(1, min(size.spines, per_stripe)),
            links_per_pair=1,
            oversubscription_ratio=per_stripe / max(1, min(size.spines, per_stripe)),
        )
    small = design(wanted, catalog)
    if isinstance(small, Fabric) and len(small.switches) > MAX_SWITCHES:
        return Infeasible(
            binding="switches",
            what=f"{len(small.switches)} switches exceed the limit of {MAX_SWITCHES} per host",
            fix="use fewer servers, or design with fewer rails",
        )
    return small
