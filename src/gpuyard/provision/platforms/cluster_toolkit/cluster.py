"""Cluster Toolkit blueprint: Slurm image, networks, storage, nodes, login and controller."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.invariants.facts import MachineFabric, read_facts
from gpuyard.provision.launch.launch import Launch
from gpuyard.provision.platforms.cluster_toolkit.modules import Module, module, own_script, runner
from gpuyard.provision.platforms.cluster_toolkit.networks import (
    HOST,
    network_modules,
    network_ranges,
)
from gpuyard.provision.platforms.cluster_toolkit.nodeset import nodeset_module
from gpuyard.provision.platforms.host import (
    docker_fragment,
    fabric_fragment,
    host_fragment,
    local_ssd_fragment,
)

PARTITION = "gpu"
IMAGE_PROJECT = "ubuntu-os-accelerator-images"
IMAGE_FAMILY = "ubuntu-accelerator-2404-{architecture}-with-nvidia-580"
HOME_GB = 1024  # minimum of a zonal Filestore
SLURM_MODULES = "community/modules/scheduler/schedmd-slurm-gcp-v6"


def deployment_tree(settings: ResolvedSettings) -> dict[str, Plain]:
    """Return the deployment file: what differs between deployments of a blueprint."""
    return {
        "vars": {
            "project_id": settings.project,
            "deployment_name": settings.name,
            "region": settings.region,
            "zone": settings.zone,
            "labels": settings.labels,
        }
    }


def blueprint_tree(
    blueprint: Blueprint, settings: ResolvedSettings, launch: Launch, fabric: MachineFabric | None
) -> dict[str, Plain]:
    """Return the blueprint file; `fabric` is set for multi-node jobs only."""
    machine_fabric = read_facts().fabric(blueprint.machine.name)
    arm = machine_fabric is not None and machine_fabric.architecture == "arm64"
    family: dict[str, Plain] = {
        "project": "$(vars.project_id)",
        "family": "$(vars.deployment_name)-slurm",
    }
    groups = (
        ("image-env", _image_env()),
        ("image", (_image(arm, machine_fabric),)),
        ("cluster-env", (*network_modules(settings, fabric), *_storage(launch))),
        ("cluster", (*_nodes(blueprint, settings, launch, fabric), *_head(arm, fabric))),
    )
    return {
        "blueprint_name": settings.name,
        "vars": {
            "enable_slurm_auth": True,
            "slurm_cluster_name": f"g{settings.hash[:8]}",
            "instance_image": family,
            **network_ranges(fabric),
        },
        "deployment_groups": [{"group": name, "modules": [*modules]} for name, modules in groups],
    }


def _image_env() -> Iterator[Module]:
    yield module("image_net", "modules/network/vpc", network_name="$(vars.deployment_name)-image")
    yield module(
        "image_script",
        "modules/scripts/startup-script",
        install_ansible=True,
        enable_gpu_network_wait_online=True,
        runners=[
            runner("host.sh", f"#!/bin/bash\nset -e\n{host_fragment()}\n"),
            runner("docker.sh", f"#!/bin/bash\nset -e\n{docker_fragment()}\n"),
            runner("slurm.sh", own_script("slurm.sh")),
            runner("enroot.sh", own_script("enroot.sh")),
        ],
    )


def _image(arm: bool, fabric: MachineFabric | None) -> Module:
    # Google's accelerator image with Slurm, for every node. The open GPU drivers do not install on
    # a builder of the N series (Cluster Toolkit at 1047080, a3mega-slurm-blueprint.yaml).
    family = IMAGE_FAMILY.format(architecture="arm64" if arm else "amd64")
    pinned = fabric.image if fabric else ""
    image = module(
        "image",
        "modules/packer/custom-image",
        ("image_net", "image_script"),
        source_image=pinned or None,
        source_image_family=None if pinned else family,
        source_image_project_id=[IMAGE_PROJECT],
        image_family="$(vars.instance_image.family)",
        machine_type="c4a-highcpu-16" if arm else "c2-standard-8",
        disk_type="hyperdisk-balanced" if arm else "pd-ssd",
        disk_size=100,
        omit_external_ip=True,
    )
    return {"id": image["id"], "source": image["source"], "kind": "packer", **image}


def _storage(launch: Launch) -> Iterator[Module]:
    yield module(
        "homes",
        "modules/file-system/filestore",
        (HOST,),
        filestore_tier="ZONAL",
        size_gb=HOME_GB,
        local_mount="/home",
    )
    for mount in launch.mounts:
        options = ["implicit_dirs", "dir_mode=777", "file_mode=777", "allow_other", "_netdev"]
        options += [f"only_dir={mount.folder}"] if mount.folder else []
        options += ["ro"] if mount.is_read_only else []
        yield module(
            f"{mount.name}_bucket",
            "modules/file-system/pre-existing-network-storage",
            remote_mount=mount.bucket,
            local_mount=mount.path,
            fs_type="gcsfuse",
            mount_options=",".join(options),
        )


def _nodes(
    blueprint: Blueprint, settings: ResolvedSettings, launch: Launch, fabric: MachineFabric | None
) -> Iterator[Module]:
    runners: list[Plain] = [
        runner("local-ssd.sh", f"#!/bin/bash\nset -e\n{local_ssd_fragment()}\n"),
        runner("enroot.sh", own_script("enroot.sh")),
    ]
    if fabric is not None:
        script = f"#!/bin/bash\nset -e\n{fabric_fragment(fabric)}\n"
        runners.append(runner(f"{fabric.technology}.sh", script))
    for mount in launch.mounts:
        runners += [
            f"$({mount.name}_bucket.client_install_runner)",
            f"$({mount.name}_bucket.mount_runner)",
        ]
    yield module("node_startup", "modules/scripts/startup-script", runners=runners)
    yield nodeset_module(blueprint, settings, fabric)
    yield module(
        "partition",
        "community/modules/compute/schedmd-slurm-gcp-v6-partition",
        ("gpu_nodes",),
        partition_name=PARTITION,
        is_default=True,
        exclusive=True,  # Slurm deletes a node when its job ends
        resume_timeout=3600 if fabric and fabric.domain_node_count else 1200,
        suspend_timeout=600,
    )


def _head(arm: bool, fabric: MachineFabric | None) -> Iterator[Module]:
    # Login node and controller have the same CPU architecture as the image.
    machine, disk = (
        ("c4a-standard-8", "hyperdisk-balanced") if arm else ("n2-standard-8", "pd-balanced")
    )
    shared: dict[str, Plain] = {
        "machine_type": machine,
        "disk_type": disk,
        "disk_size_gb": 100,
        "instance_image": "$(vars.instance_image)",
        "instance_image_custom": True,
    }
    yield module(
        "login", f"{SLURM_MODULES}-login", (HOST,), **shared, enable_login_public_ips=False
    )
    has_domains = fabric is not None and fabric.domain_node_count is not None
    if has_domains:
        script = runner("imex.sh", own_script("imex.sh"))
        yield module("controller_startup", "modules/scripts/startup-script", runners=[script])
    yield module(
        "controller",
        f"{SLURM_MODULES}-controller",
        (HOST, "partition", "login", "homes"),
        **shared,
        enable_controller_public_ips=False,
        enable_cleanup_compute=True,
        enable_external_prolog_epilog=True if has_domains else None,
        controller_startup_script="$(controller_startup.startup_script)" if has_domains else None,
    )
