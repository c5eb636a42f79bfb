"""The blueprint and its deployment file: an image with Slurm, networks, storage, nodes and their controller."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpuyard.blueprint import Blueprint
from gpuyard.document import Plain
from gpuyard.provision.invariants.facts import Fabric, read_facts
from gpuyard.provision.launch import Launch
from gpuyard.provision.platforms.cluster_toolkit.modules import Module, module, own_script, runner
from gpuyard.provision.platforms.cluster_toolkit.networks import HOST, network_modules, network_ranges
from gpuyard.provision.platforms.cluster_toolkit.nodeset import nodeset_module
from gpuyard.provision.settings import Place

__all__ = ["PARTITION", "blueprint_tree", "deployment_tree"]

PARTITION = "gpu"
IMAGES, IMAGE = "ubuntu-os-accelerator-images", "ubuntu-accelerator-2404-{architecture}-with-nvidia-580"
HOME_GB = 1024  # the least of a zonal Filestore
FABRIC_SCRIPTS = Path(__file__).parent.parent / "compute_engine" / "data"
SLURM_MODULES = "community/modules/scheduler/schedmd-slurm-gcp-v6"


def deployment_tree(place: Place) -> dict[str, Plain]:
    """What differs from one deployment to the next."""
    return {
        "vars": {
            "project_id": place.project,
            "deployment_name": place.name,
            "region": place.region,
            "zone": place.zone,
            "labels": place.labels,
        }
    }


def blueprint_tree(blueprint: Blueprint, place: Place, launch: Launch, fabric: Fabric | None) -> dict[str, Plain]:
    """The whole blueprint; `fabric` only where machines work together."""
    whole = read_facts().fabric(blueprint.machine.name)
    arm = whole is not None and whole.architecture == "arm64"
    family: dict[str, Plain] = {"project": "$(vars.project_id)", "family": "$(vars.deployment_name)-slurm"}
    groups = (
        ("image-env", _image_env()),
        ("image", (_image(arm),)),
        ("cluster-env", (*network_modules(place, fabric), *_storage(launch))),
        ("cluster", (*_nodes(blueprint, place, launch, fabric), *_head(arm, fabric))),
    )
    return {
        "blueprint_name": place.name,
        "vars": {
            "enable_slurm_auth": True,
            "slurm_cluster_name": f"g{place.hash[:8]}",
            "instance_image": family,
            **network_ranges(fabric),
        },
        "deployment_groups": [{"group": name, "modules": [*modules]} for name, modules in groups],
    }


def _image_env() -> Iterator[Module]:
    """What the image is built in and with."""
    yield module("image_net", "modules/network/vpc", network_name="$(vars.deployment_name)-image")
    docker = (FABRIC_SCRIPTS / "docker.sh").read_text(encoding="utf-8")
    yield module(
        "image_script",
        "modules/scripts/startup-script",
        install_ansible=True,
        enable_gpu_network_wait_online=True,
        runners=[
            runner("docker.sh", f"#!/bin/bash\nset -e\n{docker}"),
            runner("slurm.sh", own_script("slurm.sh")),
            runner("enroot.sh", own_script("enroot.sh")),
        ],
    )


def _image(arm: bool) -> Module:
    """The image of every node: Google's accelerator image with Slurm in it."""
    made = module(
        "image",
        "modules/packer/custom-image",
        ("image_net", "image_script"),
        source_image_family=IMAGE.format(architecture="arm64" if arm else "amd64"),
        source_image_project_id=[IMAGES],
        image_family="$(vars.instance_image.family)",
        machine_type="c4a-highcpu-16" if arm else "n2-standard-16",
        disk_type="hyperdisk-balanced" if arm else "pd-ssd",
        disk_size=100,
        omit_external_ip=True,
    )
    return {"id": made["id"], "source": made["source"], "kind": "packer", **made}


def _storage(launch: Launch) -> Iterator[Module]:
    """Homes on Filestore, and the buckets of the job."""
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


def _nodes(blueprint: Blueprint, place: Place, launch: Launch, fabric: Fabric | None) -> Iterator[Module]:
    """The GPU nodes and their partition."""
    runners: list[Plain] = [runner("enroot.sh", own_script("enroot.sh"))]
    if fabric is not None:
        release = next((row for row in read_facts().releases if row.technology == fabric.technology), None)
        versions = f"PLUGIN_VERSION={release.plugin} DAEMON_VERSION={release.daemon}\n" if release else ""
        text = (FABRIC_SCRIPTS / f"{fabric.technology}.sh").read_text(encoding="utf-8")
        runners.append(runner(f"{fabric.technology}.sh", f"#!/bin/bash\nset -e\n{versions}{text}"))
    for mount in launch.mounts:
        runners += [f"$({mount.name}_bucket.client_install_runner)", f"$({mount.name}_bucket.mount_runner)"]
    yield module("node_startup", "modules/scripts/startup-script", runners=runners)
    yield nodeset_module(blueprint, place, fabric)
    yield module(
        "partition",
        "community/modules/compute/schedmd-slurm-gcp-v6-partition",
        ("gpu_nodes",),
        partition_name=PARTITION,
        is_default=True,
        exclusive=True,  # a node is deleted when its job ends
        resume_timeout=3600 if fabric and fabric.domain_node_count else 1200,
        suspend_timeout=600,
    )


def _head(arm: bool, fabric: Fabric | None) -> Iterator[Module]:
    """The login node and the controller, of the same architecture as the image."""
    machine, disk = ("c4a-standard-8", "hyperdisk-balanced") if arm else ("n2-standard-8", "pd-balanced")
    shared: dict[str, Plain] = {
        "machine_type": machine,
        "disk_type": disk,
        "disk_size_gb": 100,
        "instance_image": "$(vars.instance_image)",
        "instance_image_custom": True,
    }
    yield module("login", f"{SLURM_MODULES}-login", (HOST,), **shared, enable_login_public_ips=False)
    domains = fabric is not None and fabric.domain_node_count is not None
    if domains:
        script = runner("imex.sh", own_script("imex.sh"))
        yield module("controller_startup", "modules/scripts/startup-script", runners=[script])
    yield module(
        "controller",
        f"{SLURM_MODULES}-controller",
        (HOST, "partition", "login", "homes"),
        **shared,
        enable_controller_public_ips=False,
        enable_cleanup_compute=True,
        enable_external_prolog_epilog=True if domains else None,
        controller_startup_script="$(controller_startup.startup_script)" if domains else None,
    )
