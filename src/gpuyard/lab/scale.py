"""A large design at the size of one host: fewer servers, and the same rails, stripes and spines as far as they go."""

from __future__ import annotations

import math
from dataclasses import replace

from gpuyard.catalog import Catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric import Demand, Fabric, design

__all__ = ["MOST_SERVERS", "scaled"]

MOST_SERVERS = 32
MOST_SWITCHES = 40  # three daemons each, about 15 MB together


def scaled(fabric: Fabric, server_count: int, catalog: Catalog) -> Fabric | Infeasible:
    """The design for `server_count` servers, each leaf with one link to each spine, configured as Linux with FRR."""
    if fabric.demand.technology != "ethernet":
        raise InputError.one("lab", "InfiniBand has no routing daemons to boot", "design an Ethernet fabric")
    if fabric.demand.has_overlay:
        raise InputError.one(
            "lab", "tenants need VRF devices, which a lab does not have", "design it with --tenancy none"
        )
    if not 1 <= server_count <= MOST_SERVERS:
        raise InputError.one("--servers", f"{server_count} servers", f"write 1 to {MOST_SERVERS}")
    demand, size = fabric.demand, fabric.size
    if demand.os == "frr" and server_count == demand.server_count and len(fabric.switches) <= MOST_SWITCHES:
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
    made = design(wanted, catalog)
    if isinstance(made, Fabric) and len(made.switches) > MOST_SWITCHES:
        return Infeasible(
            binding="switches",
            what=f"{len(made.switches)} switches are more than the {MOST_SWITCHES} that a host is asked to boot",
            fix="ask for fewer servers, or design with fewer rails",
        )
    return made
