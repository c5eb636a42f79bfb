"""Cluster Toolkit: a blueprint with its deployment file, and the batch script for the cluster that it makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.blueprint import Blueprint
from gpuyard.provision.launch import job_launch, server_launch
from gpuyard.provision.platform import Artefacts, Step, Unsuitable, unsuitable
from gpuyard.provision.platforms.bucket import bucket_requests
from gpuyard.provision.platforms.cluster_toolkit.cluster import PARTITION, blueprint_tree, deployment_tree
from gpuyard.provision.platforms.compute_engine.machines import multi_node_fabric
from gpuyard.provision.platforms.manifests.text import manifest
from gpuyard.provision.platforms.requests import request_files, request_steps
from gpuyard.provision.platforms.slurm.render import batch_artefacts, google_slurm_cannot, login_steps
from gpuyard.provision.settings import Place, Settings, place_of

__all__ = ["CLUSTER_TOOLKIT"]

BLUEPRINT, DEPLOYMENT = "50-blueprint.yaml", "40-deployment.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterToolkit:
    """Slurm on Compute Engine, by Terraform under your own eyes."""

    name: str = "cluster-toolkit"
    label: str = "Cluster Toolkit"

    def render(self, blueprint: Blueprint, settings: Settings) -> Artefacts | Unsuitable:
        """The bucket, the blueprint, its deployment file, and the batch script."""
        machine = blueprint.machine
        cannot = google_slurm_cannot(self.name, blueprint, settings)
        if cannot is not None:
            return cannot
        if machine.platforms.cluster_toolkit == "no":
            return unsuitable(self.name, f"the Toolkit has no nodes of {machine.name}", blueprint)
        place = place_of(blueprint, settings)
        launch = (server_launch if blueprint.shape == "service" else job_launch)(blueprint, place, "host")
        buckets = bucket_requests(place)
        tree = blueprint_tree(blueprint, place, launch, multi_node_fabric(blueprint))
        batch = batch_artefacts(blueprint, settings, partition=PARTITION, is_mounted=True)
        return Artefacts(
            platform=self.name,
            files=(
                *(request_files(buckets) if buckets else ()),
                manifest(DEPLOYMENT, (deployment_tree(place),)),
                manifest(BLUEPRINT, (tree,)),
                batch.file,
            ),
            steps=(*request_steps(buckets), *_steps(place, batch.file.name), *batch.steps),
            notes=(*_notes(blueprint, place), *batch.notes),
            unended="the cluster",
        )


def _steps(place: Place, file: str) -> Iterator[Step]:
    """How the blueprint becomes a cluster, and the way in."""
    yield Step(
        what="make the image, the networks and the cluster",
        command=f"gcluster deploy -d {DEPLOYMENT} {BLUEPRINT} --auto-approve",
        undo=f"gcluster destroy {place.name} --auto-approve",
    )
    yield from login_steps(place, file)


def _notes(blueprint: Blueprint, place: Place) -> Iterator[str]:
    """What has to be known before it is applied."""
    machine = blueprint.machine
    yield "Needs gcluster (the Toolkit of 2026-06-25 or later), Terraform and Packer; its state stays in its folder."
    yield (
        "GPU nodes come when a job asks for them and are deleted when it ends. The login node, the controller and the "
        f"homes have no end of their own: they are billed until `gcluster destroy` (label expires-at={place.expires})."
    )
    if machine.platforms.cluster_toolkit is None:
        yield f"No blueprint of the Toolkit is published for {machine.name}: this one follows those of its neighbours."
    if machine.network.technology == "tcpx" and blueprint.shape == "multi-node":
        yield (
            "GPUDirect-TCPX needs a kernel with Google's patches on Ubuntu: ask Google for access and add its package "
            "to image_script, otherwise NCCL falls back to sockets."
        )
    if place.settings.network:
        yield f"The network {place.settings.network} and its subnet of that name are used: allow the traffic inside."


CLUSTER_TOOLKIT = ClusterToolkit()
