"""Cluster Director: a Slurm cluster in one request, and the batch script for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.blueprint import Blueprint
from gpuyard.provision.launch import job_launch, server_launch
from gpuyard.provision.platform import Artefacts, Unsuitable, unsuitable
from gpuyard.provision.platforms.bucket import bucket_requests
from gpuyard.provision.platforms.cluster_director.cluster import PARTITION, cluster_body, cluster_id
from gpuyard.provision.platforms.requests import Request, request_files, request_steps
from gpuyard.provision.platforms.slurm.render import batch_artefacts, google_slurm_cannot, login_steps
from gpuyard.provision.settings import Place, Settings, place_of

__all__ = ["CLUSTER_DIRECTOR"]

TOOLKIT = ("cluster-toolkit", "a blueprint takes any machine type of Compute Engine")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDirector:
    """Slurm that Google manages."""

    name: str = "cluster-director"
    label: str = "Cluster Director"

    def render(self, blueprint: Blueprint, settings: Settings) -> Artefacts | Unsuitable:
        """The bucket, the cluster, and the batch script."""
        why = self._against(blueprint, settings)
        if why is not None:
            return why
        place = place_of(blueprint, settings)
        launch = (server_launch if blueprint.shape == "service" else job_launch)(blueprint, place, "host")
        cluster = Request(
            file="50-cluster.json",
            what=f"Slurm cluster {cluster_id(place)}: login node, homes, up to {blueprint.machine_count} GPU nodes",
            method="hypercomputecluster.projects.locations.clusters.create",
            parameters={
                "projectsId": place.project,
                "locationsId": place.region,
                "clusterId": cluster_id(place),
            },
            body=cluster_body(blueprint, place, launch, blueprint.machine_count),
            resource=cluster_id(place),
        )
        requests = (*bucket_requests(place), cluster)
        batch = batch_artefacts(blueprint, settings, partition=PARTITION, is_mounted=True, whole_buckets=True)
        return Artefacts(
            platform=self.name,
            files=(*request_files(requests), batch.file),
            steps=(*request_steps(requests), *login_steps(place, batch.file.name), *batch.steps),
            notes=(*_notes(blueprint, place), *batch.notes),
            unended="the cluster",
        )

    def _against(self, blueprint: Blueprint, settings: Settings) -> Unsuitable | None:
        """What speaks against it."""
        machine = blueprint.machine
        cannot = google_slurm_cannot(self.name, blueprint, settings)
        if cannot is not None:
            return cannot
        if machine.platforms.cluster_director != "yes":
            return unsuitable(self.name, f"Cluster Director has no template for {machine.name}", blueprint, TOOLKIT)
        return None


def _notes(blueprint: Blueprint, place: Place) -> Iterator[str]:
    """What has to be known before it is applied."""
    yield (
        "GPU nodes come when a job asks for them and go when it ends. The login node, the controller and the homes "
        f"have no end of their own: they are billed until the cluster is deleted (label expires-at={place.expires})."
    )
    if blueprint.way == "reservation" and "/" in place.settings.reservation:
        yield "Version 1 of the API names a whole reservation: the block that was asked for is not in the request."


CLUSTER_DIRECTOR = ClusterDirector()
