"""Nodeset module of a blueprint: machine, disks, consumption option, placement, CPU layout."""

from __future__ import annotations

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.invariants.facts import MachineFabric
from gpuyard.provision.platforms.cluster_toolkit.modules import Module, module
from gpuyard.provision.platforms.cluster_toolkit.networks import DATA, HOST, additional_networks
from gpuyard.provision.platforms.google_machine_types import (
    COMPACT_FLEX,
    attaches_gpus,
    boot_disk,
    machine_type,
)

BOOT_GB = 200

# Cores per socket and threads per core, with two sockets
# (Cluster Toolkit at 1047080, examples/machine-learning).
CPU_LAYOUT = {
    "a3-highgpu-8g": (52, 2),
    "a3-edgegpu-8g": (52, 2),
    "a3-megagpu-8g": (52, 2),
    "a3-ultragpu-8g": (56, 2),
    "a4-highgpu-8g": (56, 2),
    "a4x-highgpu-4g": (70, 1),
    "a4x-maxgpu-4g-metal": (72, 1),
}
BLOCK = 2  # placement_max_distance: 1 is a sub-block, 2 a block, 3 a cluster
COMPACT_SERIES = ("A2 Standard", "A2 Ultra", "A3 High", "A3 Edge", "A3 Mega", "A3 Ultra", "A4")


def nodeset_module(
    blueprint: Blueprint, settings: ResolvedSettings, fabric: MachineFabric | None
) -> Module:
    """Return the nodeset: no idle nodes, up to the machines of the job."""
    machine = blueprint.machine
    chips = int(machine.chip_count)
    is_metal = fabric is not None and fabric.needs_claims
    names_gpus = attaches_gpus(machine) or is_metal
    use = (
        (HOST, DATA, "node_startup")
        if fabric and not fabric.network_profile
        else (HOST, "node_startup")
    )
    nodeset = module(
        "gpu_nodes",
        "community/modules/compute/schedmd-slurm-gcp-v6-nodeset",
        use,
        name="gpu",
        machine_type=machine_type(machine),
        guest_accelerator=[{"type": machine.api_name, "count": chips}] if names_gpus else None,
        node_count_static=0,
        node_count_dynamic_max=blueprint.machine_count,
        disk_type=boot_disk(machine),
        disk_size_gb=BOOT_GB,
        instance_image="$(vars.instance_image)",
        instance_image_custom=True,
        bandwidth_tier=None if is_metal else "gvnic_enabled",
        enable_public_ips=False,
        on_host_maintenance="TERMINATE",
        additional_networks=additional_networks(fabric),
        service_account_email=settings.requested.service_account or None,
        **_consumption(blueprint, settings),
        **_placement(blueprint, fabric),
    )
    layout = CPU_LAYOUT.get(machine.name)
    options = nodeset["settings"]
    if layout and isinstance(options, dict):
        cores, threads = layout
        options["advanced_machine_features"] = {"threads_per_core": None}  # keep the default
        options["node_conf"] = {
            "SocketsPerBoard": 2,
            "CoresPerSocket": cores,
            "ThreadsPerCore": threads,
        }
    return nodeset


def _consumption(blueprint: Blueprint, settings: ResolvedSettings) -> dict[str, Plain]:
    if blueprint.consumption == "reservation":
        return {"reservation_name": settings.requested.reservation}
    if blueprint.consumption == "flex-start":
        return {
            "dws_flex": {
                "enabled": True,
                "max_run_duration": settings.ttl_s,
                "use_job_duration": True,
            }
        }
    if blueprint.consumption == "spot":
        return {"enable_spot_vm": True, "spot_instance_config": {"termination_action": "DELETE"}}
    return {}


def _placement(blueprint: Blueprint, fabric: MachineFabric | None) -> dict[str, Plain]:
    # Whole NVLink domains, one block, or no placement; a reservation has its own policy.
    machine = blueprint.machine
    if fabric is not None and fabric.domain_node_count:
        topology = f"1x{int(machine.chip_count * fabric.domain_node_count)}"
        return {"enable_placement": True, "accelerator_topology": topology}
    series = COMPACT_FLEX if blueprint.consumption == "flex-start" else COMPACT_SERIES
    is_compact = machine.series in COMPACT_SERIES and machine.series in series
    if blueprint.shape != "multi-node" or blueprint.consumption == "reservation" or not is_compact:
        return {"enable_placement": False}
    return {"enable_placement": True, "placement_max_distance": BLOCK if fabric else None}
