"""Cluster Toolkit: a blueprint that creates a Slurm cluster, and the sbatch script for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.server import launch_of
from gpuyard.provision.platform import Artefacts, DeployStep, Unsuitable, unsuitable
from gpuyard.provision.platforms.bucket import bucket_requests
from gpuyard.provision.platforms.cluster_toolkit.cluster import (
    PARTITION,
    blueprint_tree,
    deployment_tree,
)
from gpuyard.provision.platforms.compute_engine.instance_properties import multi_node_fabric
from gpuyard.provision.platforms.manifests.text import manifest
from gpuyard.provision.platforms.requests import request_files
from gpuyard.provision.platforms.slurm.slurm_platform import (
    batch_file,
    google_slurm_obstacle,
    login_steps,
)
from gpuyard.provision.platforms.uploads import steps_with_uploads

BLUEPRINT, DEPLOYMENT = "50-blueprint.yaml", "40-deployment.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterToolkit:
    """Slurm on Compute Engine, created with Terraform."""

    name: str = "cluster-toolkit"
    label: str = "Cluster Toolkit"

    def render(self, blueprint: Blueprint, settings: ResolvedSettings) -> Artefacts | Unsuitable:
        """Render the bucket, the blueprint, its deployment file, and the sbatch script."""
        machine = blueprint.machine
        obstacle = google_slurm_obstacle(self.name, blueprint, settings)
        if obstacle is not None:
            return obstacle
        if machine.platforms.cluster_toolkit == "no":
            why = f"the Cluster Toolkit does not support {machine.name}"
            return unsuitable(self.name, why, blueprint)
        launch = launch_of(blueprint, settings, "host")
        buckets = bucket_requests(settings)
        tree = blueprint_tree(blueprint, settings, launch, multi_node_fabric(blueprint))
        batch = batch_file(blueprint, settings, partition=PARTITION, is_mounted=True)
        return Artefacts(
            platform=self.name,
            files=(
                *(request_files(buckets) if buckets else ()),
                manifest(DEPLOYMENT, (deployment_tree(settings),)),
                manifest(BLUEPRINT, (tree,)),
                batch.file,
            ),
            steps=(
                *steps_with_uploads(blueprint, settings, buckets),
                *_steps(settings, batch.file.name),
                *batch.steps,
            ),
            notes=(*_notes(blueprint, settings), *batch.notes),
            without_ttl="the cluster",
        )


def _steps(settings: ResolvedSettings, file: str) -> Iterator[DeployStep]:
    yield DeployStep(
        what="Create the image, the networks and the cluster",
        command=f"gcluster deploy -d {DEPLOYMENT} {BLUEPRINT} --auto-approve",
        undo=f"gcluster destroy {settings.name} --auto-approve",
    )
    yield from login_steps(settings, file)


def _notes(blueprint: Blueprint, settings: ResolvedSettings) -> Iterator[str]:
    machine = blueprint.machine
    yield (
        "Needs gcluster (Cluster Toolkit of 2026-06-25 or later), Terraform and Packer; "
        "the Terraform state stays in its folder."
    )
    yield (
        "GPU nodes are created for a job and deleted when it ends. The login node, the controller "
        "and the home file system have no TTL: they are billed until `gcluster destroy` "
        f"(label expires-at={settings.expires})."
    )
    if machine.platforms.cluster_toolkit is None:
        yield (
            f"The Toolkit publishes no blueprint for {machine.name}: "
            "this one follows those of similar machines."
        )
    if machine.network.technology == "tcpx" and blueprint.shape == "multi-node":
        yield (
            "GPUDirect-TCPX on Ubuntu needs a kernel with Google's patches: ask Google for access "
            "and add the package to image_script, otherwise NCCL falls back to sockets."
        )
    if settings.requested.network:
        yield (
            f"The cluster uses the network {settings.requested.network} and its subnet of the same "
            "name: they must allow internal traffic."
        )


CLUSTER_TOOLKIT = ClusterToolkit()
