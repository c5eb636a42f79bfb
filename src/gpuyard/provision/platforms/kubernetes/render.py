"""Plain Kubernetes: the manifests of a workload for a cluster that exists, your own or a GKE one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpuyard.blueprint import Blueprint
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.exposure import most_machines
from gpuyard.provision.launch import Launch, fabric_variables, job_launch, server_launch
from gpuyard.provision.platform import Artefacts, Step, Unsuitable, desks_cannot, unsuitable
from gpuyard.provision.platforms.gke.installs import controller_steps
from gpuyard.provision.platforms.gke.render import NO_DISPLAY, against_kubernetes
from gpuyard.provision.platforms.kubernetes.ray import (
    RAY_IMAGE,
    RAY_LLM_IMAGE,
    ray_job_objects,
    ray_service_objects,
)
from gpuyard.provision.platforms.manifests import Nodes, Object, job_objects, manifest, nodes_of, service_objects
from gpuyard.provision.settings import Place, Settings, place_of

__all__ = ["KUBERNETES"]

KUBERAY = "1.7.0"  # the newest release before feeaf72, 2026-08-19


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubernetes:
    """A cluster that exists."""

    name: str = "kubernetes"
    label: str = "Kubernetes"

    def render(self, blueprint: Blueprint, settings: Settings) -> Artefacts | Unsuitable:
        """The job or service, by JobSet and LeaderWorkerSet, or by Ray."""
        desks = desks_cannot(self.name, NO_DISPLAY, blueprint)
        if desks is not None:
            return desks
        place = place_of(blueprint, settings)
        is_service = blueprint.shape == "service"
        launch = (server_launch if is_service else job_launch)(blueprint, place, "pod")
        no = against_kubernetes(self.name, blueprint, launch)
        if no is not None:
            return no
        if settings.ray and is_service and launch.framework not in ("vllm", "vllm-tpu"):
            why = f"Ray Serve runs vLLM, and the plan chose {launch.framework}"
            return unsuitable(self.name, why, blueprint, (self.name, "without --ray it runs the plan's own engine"))
        nodes = nodes_of(blueprint, place, joined=settings.ray and most_machines(blueprint) > 1)
        if settings.ray:
            launch = _with_ray(blueprint, launch, nodes, settings)
        file = manifest("50-service.yaml" if is_service else "50-job.yaml", _objects(blueprint, place, launch, nodes))
        return Artefacts(
            platform=self.name,
            files=(file,),
            steps=tuple(_steps(blueprint, settings, file)),
            notes=(*_notes(nodes, settings), *launch.notes),
        )


def _with_ray(blueprint: Blueprint, launch: Launch, nodes: Nodes, settings: Settings) -> Launch:
    """The launch inside a Ray cluster: Ray's image, and the fabric's settings, as Ray may spread a replica."""
    image = settings.image or (RAY_LLM_IMAGE if blueprint.shape == "service" else RAY_IMAGE)
    launch = replace(launch, image=image, image_source="")
    if nodes.fabric is None or launch.sourced:
        return launch
    variables, sourced = fabric_variables(blueprint, "pod")
    known = {item.name for item in launch.variables}
    added = tuple(item for item in variables if item.name not in known)
    return replace(launch, variables=(*added, *launch.variables), sourced=sourced)


def _objects(blueprint: Blueprint, place: Place, launch: Launch, nodes: Nodes) -> tuple[Object, ...]:
    """The objects, by the shape of the work and the controller that was chosen."""
    queue = place.settings.queue
    if place.settings.ray:
        if blueprint.shape == "service":
            return ray_service_objects(blueprint, place, launch, nodes)
        return ray_job_objects(blueprint, place, launch, nodes, queue)
    if blueprint.shape == "service":
        return service_objects(blueprint, place, launch, nodes)
    return job_objects(blueprint, place, launch, nodes, queue=queue)


def _steps(blueprint: Blueprint, settings: Settings, file: Artefact) -> Iterator[Step]:
    """Controllers, then the manifests."""
    if settings.ray:
        yield Step(
            what=f"KubeRay {KUBERAY}",
            command="helm repo add kuberay https://ray-project.github.io/kuberay-helm/ && "
            f"helm install kuberay-operator kuberay/kuberay-operator --version {KUBERAY}",
        )
    else:
        yield from controller_steps(blueprint, queue=False)
    yield Step(
        what="the workload",
        command=f"kubectl apply -f {file.name}",
        undo=f"kubectl delete --ignore-not-found -f {file.name}",
    )


def _notes(nodes: Nodes, settings: Settings) -> Iterator[str]:
    """What the cluster has to have."""
    if nodes.is_own:
        yield "The cluster needs the device plugin of its GPUs (the GPU operator labels the nodes)."
    else:
        yield "The pods ask for nodes by the labels of GKE: the cluster needs a pool of these machines."
    if nodes.with_rdma:
        yield (
            "Pods use the host's network and its RDMA devices, and are privileged for it; name the NICs with "
            "NCCL_IB_HCA, or use your network operator's resources instead."
        )
    if not settings.queue:
        yield "No queue admits the job: name one of Kueue with --queue where the cluster is shared."


KUBERNETES = Kubernetes()
