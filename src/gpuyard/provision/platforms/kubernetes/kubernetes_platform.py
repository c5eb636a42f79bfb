"""Kubernetes: manifests for an existing cluster, on-premises or GKE."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.cost_bound import max_machines
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.launch import Launch
from gpuyard.provision.launch.server import launch_of, with_fabric
from gpuyard.provision.platform import (
    Artefacts,
    DeployStep,
    Unsuitable,
    unsuitable,
    workstations_unsupported,
)
from gpuyard.provision.platforms.gke.gke_platform import (
    NO_DISPLAY,
    kubernetes_obstacle,
    pool_notes,
    service_nodes,
    service_without_end,
)
from gpuyard.provision.platforms.gke.installs import controller_steps, token_steps
from gpuyard.provision.platforms.kubernetes.ray import (
    RAY_IMAGE,
    RAY_LLM_IMAGE,
    ray_job_objects,
    ray_service_objects,
)
from gpuyard.provision.platforms.manifests.disaggregated import (
    disaggregated_objects,
    is_disaggregated,
)
from gpuyard.provision.platforms.manifests.inference_gateway import (
    gateway_notes,
    install_commands,
)
from gpuyard.provision.platforms.manifests.jobs import job_objects
from gpuyard.provision.platforms.manifests.nodes import PodNodes, nodes_of
from gpuyard.provision.platforms.manifests.services import service_objects
from gpuyard.provision.platforms.manifests.text import Object, manifest

KUBERAY = "1.7.0"  # newest release before feeaf72, 2026-08-19


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubernetes:
    """An existing Kubernetes cluster."""

    name: str = "kubernetes"
    label: str = "Kubernetes"

    def render(self, blueprint: Blueprint, settings: ResolvedSettings) -> Artefacts | Unsuitable:
        """Render the job or service, with JobSet and LeaderWorkerSet, or with Ray."""
        workstations = workstations_unsupported(self.name, NO_DISPLAY, blueprint)
        if workstations is not None:
            return workstations
        is_service = blueprint.shape == "service"
        launch = launch_of(blueprint, settings, "pod")
        obstacle = kubernetes_obstacle(self.name, blueprint, launch, settings)
        if obstacle is not None:
            return obstacle
        if settings.requested.ray and is_service and launch.framework not in ("vllm", "vllm-tpu"):
            why = f"Ray Serve runs vLLM, and the plan chose {launch.framework}"
            return unsuitable(
                self.name,
                why,
                blueprint,
                (self.name, "without --ray it runs the plan's engine"),
            )
        if settings.requested.ray and is_disaggregated(blueprint):
            return unsuitable(
                self.name,
                "Ray Serve is not set up for prefill and decode pools",
                blueprint,
                (self.name, "without --ray it runs both pools and their router"),
            )
        if settings.requested.ray and settings.requested.gateway:
            return unsuitable(
                self.name,
                "Ray Serve routes the requests itself",
                blueprint,
                (self.name, "use --ray or --gateway"),
            )
        nodes = service_nodes(blueprint, settings)
        if settings.requested.ray:
            nodes = nodes_of(blueprint, settings, joined=max_machines(blueprint) > 1)
        if settings.requested.ray:
            launch = _with_ray(blueprint, launch, nodes, settings)
        file = manifest(
            "50-service.yaml" if is_service else "50-job.yaml",
            _objects(blueprint, settings, launch, nodes),
        )
        return Artefacts(
            platform=self.name,
            files=(file,),
            steps=tuple(_steps(blueprint, settings, nodes, file)),
            unbounded=service_without_end(blueprint, settings),
            notes=(
                *_notes(nodes, settings),
                *pool_notes(blueprint, nodes),
                *gateway_notes(blueprint, settings, nodes),
                *launch.notes,
            ),
        )


def _with_ray(
    blueprint: Blueprint, launch: Launch, nodes: PodNodes, settings: ResolvedSettings
) -> Launch:
    # Ray's image, and the fabric environment, because Ray may spread a replica over machines.
    image = settings.requested.image or (
        RAY_LLM_IMAGE if blueprint.shape == "service" else RAY_IMAGE
    )
    launch = replace(launch, image=image)
    return launch if nodes.fabric is None else with_fabric(launch, blueprint, "pod")


def _objects(
    blueprint: Blueprint, settings: ResolvedSettings, launch: Launch, nodes: PodNodes
) -> tuple[Object, ...]:
    queue = settings.requested.queue
    if settings.requested.ray:
        if blueprint.shape == "service":
            return ray_service_objects(blueprint, settings, launch, nodes)
        return ray_job_objects(blueprint, settings, launch, nodes, queue)
    if is_disaggregated(blueprint):
        return disaggregated_objects(blueprint, settings, nodes)
    if blueprint.shape == "service":
        return service_objects(blueprint, settings, launch, nodes)
    return job_objects(blueprint, settings, launch, nodes, queue=queue)


def _steps(
    blueprint: Blueprint, settings: ResolvedSettings, nodes: PodNodes, file: Artefact
) -> Iterator[DeployStep]:
    if settings.requested.ray:
        yield DeployStep(
            what=f"Install KubeRay {KUBERAY}",
            command="helm repo add kuberay https://ray-project.github.io/kuberay-helm/ && "
            f"helm install kuberay-operator kuberay/kuberay-operator --version {KUBERAY}",
        )
    else:
        yield from controller_steps(blueprint, queue=False)
    if settings.requested.gateway:
        for what, command in install_commands(nodes):
            yield DeployStep(what=what, command=command)
    yield from token_steps(blueprint, settings)
    yield DeployStep(
        what="Apply the workload",
        command=f"kubectl apply -f {file.name}",
        undo=f"kubectl delete --ignore-not-found -f {file.name}",
    )


def _notes(nodes: PodNodes, settings: ResolvedSettings) -> Iterator[str]:
    if settings.requested.gateway and not nodes.is_onprem:
        yield (
            "The cluster needs the Gateway API: "
            "gcloud container clusters update CLUSTER --gateway-api=standard."
        )
    if nodes.is_onprem:
        yield "The cluster needs a GPU device plugin (the GPU operator also labels the nodes)."
    else:
        yield ("Pods select nodes by GKE labels: the cluster needs a node pool of these machines.")
    if nodes.with_rdma:
        yield (
            "Pods are privileged and use the host's network and RDMA devices; set the NICs with "
            "NCCL_IB_HCA, or use the resources of your network operator instead."
        )
    if not settings.requested.queue:
        yield "The job has no queue: on a shared cluster, set a Kueue queue with --queue."


KUBERNETES = Kubernetes()
