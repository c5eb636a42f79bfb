"""GKE: a private cluster with the pools, networks, queue and workload of a blueprint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.blueprint import Blueprint
from gpuyard.document import Plain
from gpuyard.errors import Infeasible
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.launch import Launch, job_launch, machines_per_replica, needs_slurm, server_launch
from gpuyard.provision.platform import Artefacts, Step, Unsuitable, desks_cannot, unsuitable
from gpuyard.provision.platforms.bucket import bucket_requests
from gpuyard.provision.platforms.gke.clusters import VERSION, cluster_request, network_objects, pool_request
from gpuyard.provision.platforms.gke.installs import controller_steps, plugin_steps
from gpuyard.provision.platforms.gke.pools import pool_body, slice_pool_body
from gpuyard.provision.platforms.manifests import (
    Nodes,
    job_objects,
    manifest,
    nodes_of,
    queue_objects,
    replica_bounds,
    service_objects,
)
from gpuyard.provision.platforms.requests import Request, request_files, request_steps
from gpuyard.provision.platforms.slices import slices_of
from gpuyard.provision.platforms.vpc import network_requests, vpcs_of
from gpuyard.provision.settings import Place, Settings, place_of

__all__ = ["GKE", "NO_DISPLAY", "against_kubernetes"]

NO_DISPLAY = "pods have no display to sit at"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gke:
    """Google Kubernetes Engine, standard clusters."""

    name: str = "gke"
    label: str = "GKE"

    def render(self, blueprint: Blueprint, settings: Settings) -> Artefacts | Unsuitable:
        """Networks, cluster, pools, queue, and the job or service."""
        machine = blueprint.machine
        if machine.provider != "google":
            return unsuitable(self.name, f"{machine.name} stands in your own hall", blueprint)
        if machine.platforms.gke_standard == "no":
            return unsuitable(self.name, f"GKE has no nodes of {machine.name}", blueprint)
        desks = desks_cannot(self.name, NO_DISPLAY, blueprint)
        if desks is not None:
            return desks
        place = place_of(blueprint, settings)
        is_service = blueprint.shape == "service"
        launch = (server_launch if is_service else job_launch)(blueprint, place, "pod")
        no = against_kubernetes(self.name, blueprint, launch)
        if no is not None:
            return no
        nodes = nodes_of(blueprint, place)
        vpcs = vpcs_of(place, None if nodes.claims else nodes.fabric)
        requests = (
            *(() if is_service else bucket_requests(place)),
            *network_requests(place, vpcs, pods=True),
            cluster_request(place, nodes, vpcs[0]),
            *_pools(blueprint, place, nodes),
        )
        manifests = tuple(_manifests(blueprint, place, launch, nodes))
        queue = _queue(blueprint, place)
        steps = (
            *request_steps(requests),
            *_access(place, launch),
            *controller_steps(blueprint, queue=bool(queue) and not settings.queue),
            *plugin_steps(blueprint, nodes),
            *_applied(manifests),
        )
        return Artefacts(
            platform=self.name,
            files=(*request_files(requests), *manifests),
            steps=steps,
            notes=(*_notes(blueprint, place, nodes), *launch.notes),
        )


def against_kubernetes(name: str, blueprint: Blueprint, launch: Launch) -> Unsuitable | None:
    """What no Kubernetes can do."""
    if needs_slurm(launch):
        why = "TensorRT-LLM over several machines is started by MPI"
        return unsuitable(name, why, blueprint, ("slurm", "srun starts its ranks; or serve with vLLM or SGLang"))
    if 0 < blueprint.machine.chip_count < 1:
        why = f"no source tells how a pod asks for the share of a GPU that {blueprint.machine.name} has"
        return unsuitable(name, why, blueprint, ("compute-engine", "the machine type brings its share of the GPU"))
    slices = slices_of(blueprint) if blueprint.is_tpu else None
    if isinstance(slices, Infeasible):
        return unsuitable(name, slices.what, blueprint, ("", ""))
    return None


def _queue(blueprint: Blueprint, place: Place) -> str:
    """The queue: the one that was named; for machines that start together one that is made."""
    needs = blueprint.shape == "multi-node" and not blueprint.is_tpu
    return place.settings.queue or (place.name if needs else "")


def _topology(blueprint: Blueprint, nodes: Nodes) -> bool:
    """Whether the queue places pods near each other: where the nodes are there before the job, and have a fabric."""
    return nodes.fabric is not None and blueprint.way != "flex-start" and blueprint.shape == "multi-node"


def _pools(blueprint: Blueprint, place: Place, nodes: Nodes) -> Iterator[Request]:
    """The pools of the work."""
    machine = blueprint.machine
    if not blueprint.is_tpu:
        vpcs = vpcs_of(place, None if nodes.claims else nodes.fabric)
        pool = pool_body(blueprint, place, nodes, vpcs)
        yield pool_request(place, pool, f"node pool of {machine.name}")
        return
    slices = slices_of(blueprint)
    assert not isinstance(slices, Infeasible), "the platform asks first"
    policy = ""
    if slices.generation.by_policy and slices.machines_per_slice > 1:
        policy = f"{place.name}-slice"
        workload: dict[str, Plain] = {"type": "HIGH_THROUGHPUT", "acceleratorTopology": slices.topology}
        yield Request(
            file="25-policy.json", what=f"workload policy: slices of {slices.topology}",
            method="compute.resourcePolicies.insert", parameters={"project": place.project, "region": place.region},
            body={"name": policy, "description": place.stamp, "workloadPolicy": workload}, resource=policy,
        )  # fmt: skip
    count = slices.slice_count
    if blueprint.shape == "service":  # a slice of several machines is a pool, and each replica has one
        count = 1 if slices.machines_per_slice == 1 else replica_bounds(blueprint)[1]
    for index in range(count):
        body = slice_pool_body(blueprint, place, slices, index, policy)
        yield pool_request(place, body, f"slice of {slices.generation.label} {slices.topology}")


def _manifests(blueprint: Blueprint, place: Place, launch: Launch, nodes: Nodes) -> Iterator[Artefact]:
    """The files for kubectl."""
    vpcs = vpcs_of(place, None if nodes.claims else nodes.fabric)
    networks = tuple(network_objects(place, nodes, vpcs))
    if networks:
        yield manifest("40-networks.yaml", networks)
    queue, topology = _queue(blueprint, place), _topology(blueprint, nodes)
    if queue and not place.settings.queue:
        yield manifest("45-queue.yaml", queue_objects(blueprint, place, nodes, topology=topology))
    if blueprint.shape == "service":
        yield manifest("50-service.yaml", service_objects(blueprint, place, launch, nodes))
    else:
        yield manifest("50-job.yaml", job_objects(blueprint, place, launch, nodes, queue=queue, topology=topology))


def _access(place: Place, launch: Launch) -> Iterator[Step]:
    """Credentials of kubectl, and what the pods may read and write."""
    yield Step(
        what="point kubectl at the cluster, by its DNS endpoint",
        command=f"gcloud container clusters get-credentials {place.name} --project={place.project} "
        f"--location={place.region} --dns-endpoint",
    )
    member = (
        f"principal://iam.googleapis.com/projects/$(gcloud projects describe {place.project} "
        f"--format='value(projectNumber)')/locations/global/workloadIdentityPools/{place.project}.svc.id.goog/subject/"
        f"ns/{place.settings.namespace}/sa/{place.name}"
    )
    for mount in launch.mounts:
        role = "roles/storage.objectViewer" if mount.is_read_only else "roles/storage.objectUser"
        yield Step(
            what=f"let the pods {'read' if mount.is_read_only else 'write'} gs://{mount.bucket}",
            command=f"gcloud storage buckets add-iam-policy-binding gs://{mount.bucket} --role={role} "
            f'--member="{member}"',
        )


def _applied(manifests: tuple[Artefact, ...]) -> Iterator[Step]:
    """The manifests, in order."""
    for item in manifests:
        yield Step(
            what=item.name.partition("-")[2].removesuffix(".yaml"),
            command=f"kubectl apply -f {item.name}",
            undo=f"kubectl delete --ignore-not-found -f {item.name}",
        )


def _notes(blueprint: Blueprint, place: Place, nodes: Nodes) -> Iterator[str]:
    """What has to be known before it is applied."""
    yield f"The cluster follows the newest patch of GKE {VERSION}; its control plane is reached by IAM, not by address."
    yield "The machines end by themselves; cluster, system node, networks and bucket stay until they are taken back."
    if place.settings.network:
        yield f"The subnet {place.settings.network} has to have secondary ranges called pods and services."
    if nodes.claims:
        yield "RDMA NICs come by managed DRANET (resource claims); the pool makes their networks itself."
    if nodes.fabric is not None and nodes.fabric.name == "a4x-maxgpu-4g-metal":
        yield "A4X Max also needs the asapd-lite DaemonSet of the Cluster Toolkit (examples/gke-a4x-max-bm)."
    if blueprint.shape == "service":
        yield f"The service answers inside the cluster only: kubectl port-forward service/{place.name} 8000."
        if machines_per_replica(blueprint) > 1:
            yield "A replica is a group of pods; the autoscaler counts groups."
    if blueprint.way == "flex-start" and blueprint.shape == "multi-node" and not blueprint.is_tpu:
        yield "The job waits in the queue until all its machines are there, at no cost; then it runs to its end."


GKE = Gke()
