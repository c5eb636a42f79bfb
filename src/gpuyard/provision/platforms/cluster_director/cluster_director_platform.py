"""Cluster Director: a managed Slurm cluster in one request, and the sbatch script for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.server import launch_of
from gpuyard.provision.platform import Artefacts, Unsuitable, unsuitable
from gpuyard.provision.platforms.bucket import bucket_requests
from gpuyard.provision.platforms.cluster_director.cluster import PARTITION, cluster_body, cluster_id
from gpuyard.provision.platforms.requests import Request, request_files
from gpuyard.provision.platforms.slurm.slurm_platform import (
    batch_file,
    google_slurm_obstacle,
    login_steps,
)
from gpuyard.provision.platforms.uploads import steps_with_uploads

TOOLKIT = ("cluster-toolkit", "a blueprint accepts any machine type of Compute Engine")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDirector:
    """Slurm managed by Google."""

    name: str = "cluster-director"
    label: str = "Cluster Director"

    def render(self, blueprint: Blueprint, settings: ResolvedSettings) -> Artefacts | Unsuitable:
        """Render the bucket, the cluster, and the sbatch script."""
        obstacle = self._obstacle(blueprint, settings)
        if obstacle is not None:
            return obstacle
        launch = launch_of(blueprint, settings, "host")
        cluster = Request(
            file="50-cluster.json",
            what=f"Create the Slurm cluster {cluster_id(settings)}: login node, home file system, "
            f"up to {blueprint.machine_count} GPU nodes",
            method="hypercomputecluster.projects.locations.clusters.create",
            parameters={
                "projectsId": settings.project,
                "locationsId": settings.region,
                "clusterId": cluster_id(settings),
            },
            body=cluster_body(blueprint, settings, launch, blueprint.machine_count),
            resource=cluster_id(settings),
        )
        requests = (*bucket_requests(settings), cluster)
        batch = batch_file(
            blueprint, settings, partition=PARTITION, is_mounted=True, whole_buckets=True
        )
        return Artefacts(
            platform=self.name,
            files=(*request_files(requests), batch.file),
            steps=(
                *steps_with_uploads(blueprint, settings, requests),
                *login_steps(settings, batch.file.name),
                *batch.steps,
            ),
            notes=(*_notes(blueprint, settings), *batch.notes),
            without_ttl="the cluster",
        )

    def _obstacle(self, blueprint: Blueprint, settings: ResolvedSettings) -> Unsuitable | None:
        machine = blueprint.machine
        obstacle = google_slurm_obstacle(self.name, blueprint, settings)
        if obstacle is None and machine.platforms.cluster_director != "yes":
            why = f"Cluster Director has no template for {machine.name}"
            return unsuitable(self.name, why, blueprint, TOOLKIT)
        return obstacle


def _notes(blueprint: Blueprint, settings: ResolvedSettings) -> Iterator[str]:
    yield (
        "GPU nodes are created for a job and deleted when it ends. The login node, the controller "
        "and the home file system have no TTL: they are billed until you delete the cluster "
        f"(label expires-at={settings.expires})."
    )
    if blueprint.consumption == "reservation" and "/" in settings.requested.reservation:
        yield (
            "Version 1 of the API selects a whole reservation: "
            "the requested block is not part of the request."
        )


CLUSTER_DIRECTOR = ClusterDirector()
