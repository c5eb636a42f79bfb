"""The GPU nodes of a blueprint: machine, disks, offer, placement, geometry."""

from __future__ import annotations

from gpuyard.blueprint import Blueprint
from gpuyard.document import Plain
from gpuyard.provision.invariants.facts import Fabric, read_facts
from gpuyard.provision.platforms.cluster_toolkit.modules import Module, module
from gpuyard.provision.platforms.cluster_toolkit.networks import DATA, HOST, additional_networks
from gpuyard.provision.platforms.machines import COMPACT_FLEX, attaches_gpus, boot_disk, machine_type
from gpuyard.provision.settings import Place

__all__ = ["nodeset_module"]

BOOT_GB = 200

# Cores a socket and threads a core, two sockets each (Cluster Toolkit at 1047080, examples/machine-learning)
GEOMETRY = {
    "a3-highgpu-8g": (52, 2), "a3-edgegpu-8g": (52, 2), "a3-megagpu-8g": (52, 2), "a3-ultragpu-8g": (56, 2),
    "a4-highgpu-8g": (56, 2), "a4x-highgpu-4g": (70, 1), "a4x-maxgpu-4g-metal": (72, 1),
}  # fmt: skip
BLOCK = 2  # of placement_max_distance: 1 a sub-block, 2 a block, 3 a cluster
COMPACT_SERIES = ("A2 Standard", "A2 Ultra", "A3 High", "A3 Edge", "A3 Mega", "A3 Ultra", "A4")


def nodeset_module(blueprint: Blueprint, place: Place, fabric: Fabric | None) -> Module:
    """The nodes: none at rest, as many as the job asks for."""
    machine = blueprint.machine
    attached, chips = attaches_gpus(machine), int(machine.chip_count)
    metal = fabric is not None and fabric.needs_claims
    use = (HOST, DATA, "node_startup") if fabric and not fabric.network_profile else (HOST, "node_startup")
    made = module(
        "gpu_nodes",
        "community/modules/compute/schedmd-slurm-gcp-v6-nodeset",
        use,
        name="gpu",
        machine_type=machine_type(machine),
        guest_accelerator=[{"type": machine.api_name, "count": chips}] if attached or metal else None,
        node_count_static=0,
        node_count_dynamic_max=blueprint.machine_count,
        disk_type=boot_disk(machine),
        disk_size_gb=BOOT_GB,
        instance_image="$(vars.instance_image)",
        instance_image_custom=True,
        bandwidth_tier=None if metal else "gvnic_enabled",
        enable_public_ips=False,
        on_host_maintenance="TERMINATE",
        additional_networks=additional_networks(fabric),
        service_account_email=place.settings.service_account or None,
        **_offer(blueprint, place),
        **_placement(blueprint, fabric),
    )
    geometry = GEOMETRY.get(machine.name)
    settings = made["settings"]
    if geometry and isinstance(settings, dict):
        cores, threads = geometry
        settings["advanced_machine_features"] = {"threads_per_core": None}  # the machine's own
        settings["node_conf"] = {"SocketsPerBoard": 2, "CoresPerSocket": cores, "ThreadsPerCore": threads}
    return made


def _offer(blueprint: Blueprint, place: Place) -> dict[str, Plain]:
    """How the machines are had: one of the four ways."""
    if blueprint.way == "reservation":
        return {"reservation_name": place.settings.reservation}
    if blueprint.way == "flex-start":
        return {"dws_flex": {"enabled": True, "max_run_duration": place.ttl_s, "use_job_duration": True}}
    if blueprint.way == "spot":
        return {"enable_spot_vm": True, "spot_instance_config": {"termination_action": "DELETE"}}
    return {}


def _placement(blueprint: Blueprint, fabric: Fabric | None) -> dict[str, Plain]:
    """How close the nodes are: whole NVLink domains, one block, or as they come; a reservation has its own policy."""
    machine = blueprint.machine
    full = read_facts().fabric(machine.name)
    if full is not None and full.domain_node_count and blueprint.shape == "multi-node":
        topology = f"1x{int(machine.chip_count * full.domain_node_count)}"
        return {"enable_placement": True, "accelerator_topology": topology}
    alone = blueprint.shape != "multi-node" or blueprint.way == "reservation" or machine.series not in COMPACT_SERIES
    if alone or (blueprint.way == "flex-start" and machine.series not in COMPACT_FLEX):
        return {"enable_placement": False}
    return {"enable_placement": True, "placement_max_distance": BLOCK if fabric else None}
