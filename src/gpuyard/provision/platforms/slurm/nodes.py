"""Slurm nodes: machines, or the trays of a rack that the catalog counts as one machine."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.field_types import Doc
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.invariants.facts import read_facts

# Compute trays per rack, each a node with four GPUs (NVIDIA DGX GB200 user guide).
TRAYS = {"gb200-nvl72": 18}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNodes:
    """A blueprint in Slurm nodes, with their NVLink domain and switches."""

    blueprint: Annotated[Blueprint, Doc("its machines are nodes, not racks")]
    domain_count: Annotated[int | None, Doc("nodes per NVLink domain; None: no domain")] = None
    switches: Annotated[
        int | None, Doc("maximum leaf switches; None: Slurm uses as few as possible")
    ] = None


def nodes_of(blueprint: Blueprint, settings: ResolvedSettings) -> SlurmNodes:
    """Return the nodes of a blueprint; by default the fabric gives the number of switches."""
    trays = TRAYS.get(blueprint.machine.name, 1)
    if trays > 1:
        machine = replace(blueprint.machine, chip_count=blueprint.machine.chip_count / trays)
        cluster = replace(blueprint.option.cluster, machine_count=blueprint.machine_count * trays)
        blueprint = replace(
            blueprint, machine=machine, option=replace(blueprint.option, cluster=cluster)
        )
    fabric = read_facts().fabric(blueprint.machine.name)
    domain = trays if trays > 1 else fabric.domain_node_count if fabric else None
    nodes_per_switch = domain or _servers_per_stripe(blueprint)
    switches = settings.requested.switches
    if switches is None and nodes_per_switch and blueprint.shape == "multi-node":
        switches = math.ceil(blueprint.machine_count / nodes_per_switch)
    return SlurmNodes(blueprint=blueprint, domain_count=domain, switches=switches)


def _servers_per_stripe(blueprint: Blueprint) -> int | None:
    """Servers of one stripe (scalable unit); None without a designed fabric."""
    if blueprint.fabric is None:
        return None
    return sum(
        server.stripe == blueprint.fabric.servers[0].stripe for server in blueprint.fabric.servers
    )
