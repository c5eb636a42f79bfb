"""What Slurm calls nodes: machines, or the trays of a rack that the catalog counts as one machine."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

from gpuyard.blueprint import Blueprint
from gpuyard.document import Doc
from gpuyard.provision.invariants.facts import read_facts
from gpuyard.provision.settings import Settings

__all__ = ["Nodes", "nodes_of"]

TRAYS = {"gb200-nvl72": 18}  # compute trays of a rack, each a node with four GPUs (NVIDIA DGX GB200 user guide)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The blueprint in nodes, and how they stand to each other."""

    blueprint: Annotated[Blueprint, Doc("with nodes where it had racks")]
    domain_count: Annotated[int | None, Doc("nodes that share NVLink; none: each by itself")] = None
    switches: Annotated[int | None, Doc("the most leaf switches; none: Slurm takes the fewest that are free")] = None


def nodes_of(blueprint: Blueprint, settings: Settings) -> Nodes:
    """The nodes of a blueprint; how many switches they take is told, or follows from the fabric."""
    trays = TRAYS.get(blueprint.machine.name, 1)
    if trays > 1:
        machine = replace(blueprint.machine, chip_count=blueprint.machine.chip_count / trays)
        cluster = replace(blueprint.option.cluster, machine_count=blueprint.machine_count * trays)
        blueprint = replace(blueprint, machine=machine, option=replace(blueprint.option, cluster=cluster))
    fabric = read_facts().fabric(blueprint.machine.name)
    domain = trays if trays > 1 else fabric.domain_node_count if fabric else None
    group = domain or _stripe(blueprint)
    count = settings.switches
    if count is None and group and blueprint.shape == "multi-node":
        count = math.ceil(blueprint.machine_count / group)
    return Nodes(blueprint=blueprint, domain_count=domain, switches=count)


def _stripe(blueprint: Blueprint) -> int | None:
    """Servers below one group of leaves, where the fabric was designed; none: nobody knows."""
    if blueprint.fabric is None:
        return None
    return sum(server.stripe == blueprint.fabric.servers[0].stripe for server in blueprint.fabric.servers)
