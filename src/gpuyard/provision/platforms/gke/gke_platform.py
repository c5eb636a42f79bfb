"""GKE: a private cluster with node pools, networks, queue and workload."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.frozen_json import Plain
from gpuyard.errors import Infeasible
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.launch import Launch
from gpuyard.provision.launch.replicas import machines_per_replica
from gpuyard.provision.launch.server import calls_srun, launch_of
from gpuyard.provision.launch.tpu_slices import slices_of
from gpuyard.provision.platform import (
    Artefacts,
    DeployStep,
    Unsuitable,
    not_google,
    unsuitable,
    workstations_unsupported,
)
from gpuyard.provision.platforms.bucket import bucket_requests
from gpuyard.provision.platforms.gke.clusters import (
    VERSION,
    cluster_request,
    network_objects,
)
from gpuyard.provision.platforms.gke.installs import (
    controller_steps,
    plugin_steps,
    token_steps,
    workload_member,
)
from gpuyard.provision.platforms.gke.pools import pool_body, pool_request, slice_pool_body
from gpuyard.provision.platforms.gke.xpk import xpk_files
from gpuyard.provision.platforms.manifests.disaggregated import (
    HOST_NIC_NOTE,
    POOL_NOTE,
    disaggregated_objects,
    is_disaggregated,
    pools_obstacle,
)
from gpuyard.provision.platforms.manifests.expiry import has_end
from gpuyard.provision.platforms.manifests.inference_gateway import (
    gateway_notes,
    gateway_obstacle,
)
from gpuyard.provision.platforms.manifests.jobs import job_objects
from gpuyard.provision.platforms.manifests.nodes import PodNodes, nodes_of
from gpuyard.provision.platforms.manifests.queues import queue_objects
from gpuyard.provision.platforms.manifests.services import replica_bounds, service_objects
from gpuyard.provision.platforms.manifests.text import manifest
from gpuyard.provision.platforms.requests import Request, request_files
from gpuyard.provision.platforms.uploads import steps_with_uploads
from gpuyard.provision.platforms.vpc import Vpc, network_requests, proxy_subnet, vpcs_of
from gpuyard.provision.shell_text import shell

NO_DISPLAY = "pods have no display"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gke:
    """Google Kubernetes Engine, Standard mode."""

    name: str = "gke"
    label: str = "GKE"

    def render(self, blueprint: Blueprint, settings: ResolvedSettings) -> Artefacts | Unsuitable:
        """Render networks, cluster, node pools, queue, and the job or service."""
        machine = blueprint.machine
        elsewhere = not_google(self.name, blueprint)
        if elsewhere is not None:
            return elsewhere
        if machine.platforms.gke_standard == "no":
            return unsuitable(self.name, f"GKE does not offer {machine.name}", blueprint)
        workstations = workstations_unsupported(self.name, NO_DISPLAY, blueprint)
        if workstations is not None:
            return workstations
        launch = launch_of(blueprint, settings, "pod")
        obstacle = kubernetes_obstacle(self.name, blueprint, launch, settings)
        if obstacle is not None:
            return obstacle
        nodes = service_nodes(blueprint, settings)
        vpcs = vpcs_of(settings, None if nodes.claims else nodes.fabric)
        requests = (
            *(bucket_requests(settings, _content(blueprint)) if launch.mounts else ()),
            *network_requests(settings, vpcs, pods=True),
            *_proxies(settings, vpcs[0]),
            cluster_request(settings, nodes, vpcs[0]),
            *_pools(blueprint, settings, nodes),
        )
        manifests = tuple(_manifests(blueprint, settings, launch, nodes))
        creates_queue = bool(_queue(blueprint, settings)) and not settings.requested.queue
        steps = (
            *steps_with_uploads(blueprint, settings, requests),
            *_access_steps(settings, launch),
            *controller_steps(blueprint, queue=creates_queue),
            *plugin_steps(blueprint, settings, nodes),
            *token_steps(blueprint, settings),
            *_manifest_steps(manifests),
        )
        return Artefacts(
            platform=self.name,
            files=(*request_files(requests), *manifests),
            steps=steps,
            extra_files=xpk_files(blueprint, settings, launch),
            unbounded=service_without_end(blueprint, settings),
            notes=(
                *_notes(blueprint, settings, nodes),
                *pool_notes(blueprint, nodes),
                *gateway_notes(
                    blueprint, settings, nodes, with_proxies=not settings.requested.network
                ),
                *launch.notes,
            ),
        )


def _proxies(settings: ResolvedSettings, host: Vpc) -> Iterator[Request]:
    if settings.requested.gateway and not host.already_exists:
        yield proxy_subnet(settings, host)


def _content(blueprint: Blueprint) -> str:
    return "model" if blueprint.shape == "service" else "checkpoint"


def service_nodes(blueprint: Blueprint, settings: ResolvedSettings) -> PodNodes:
    """Return the nodes; replicas of pools exchange KV caches over RDMA where there is any."""
    nodes = nodes_of(blueprint, settings, joined=is_disaggregated(blueprint))
    if not is_disaggregated(blueprint) or nodes.fabric is None or nodes.fabric.technology == "roce":
        return nodes
    return nodes_of(blueprint, settings)


def pool_notes(blueprint: Blueprint, nodes: PodNodes) -> Iterator[str]:
    """Yield what to know about prefill and decode pools."""
    if is_disaggregated(blueprint):
        yield POOL_NOTE
        if not nodes.is_onprem and nodes.fabric is None:
            yield HOST_NIC_NOTE


def service_without_end(blueprint: Blueprint, settings: ResolvedSettings) -> str:
    """Return the service that nothing terminates; empty if it ends with its TTL."""
    is_rented = blueprint.machine.provider == "google" and blueprint.shape == "service"
    return "the service" if is_rented and not has_end(settings) else ""


def kubernetes_obstacle(
    name: str, blueprint: Blueprint, launch: Launch, settings: ResolvedSettings
) -> Unsuitable | None:
    """Return why Kubernetes cannot run it."""
    useless = gateway_obstacle(blueprint) if settings.requested.gateway else ""
    if useless:
        return unsuitable(name, useless, blueprint, (name, "render it without --gateway"))
    if calls_srun(launch):
        why = "multi-node TensorRT-LLM is started by MPI"
        slurm = ("slurm", "srun starts its ranks; or serve with vLLM or SGLang")
        return unsuitable(name, why, blueprint, slurm)
    pools = pools_obstacle(blueprint) if is_disaggregated(blueprint) else ""
    if pools:
        return unsuitable(name, pools, blueprint, ("", ""))
    if 0 < blueprint.machine.chip_count < 1:
        why = (
            "how a pod requests the fraction of a GPU of "
            f"{blueprint.machine.name} is not documented"
        )
        compute_engine = ("compute-engine", "the machine type includes its fraction of the GPU")
        return unsuitable(name, why, blueprint, compute_engine)
    slices = slices_of(blueprint) if blueprint.is_tpu else None
    if isinstance(slices, Infeasible):
        return unsuitable(name, slices.what, blueprint, ("", ""))
    return None


def _queue(blueprint: Blueprint, settings: ResolvedSettings) -> str:
    # A multi-node job without a requested queue gets its own, so that its machines start together.
    needs_queue = blueprint.shape == "multi-node" and not blueprint.is_tpu
    return settings.requested.queue or (settings.name if needs_queue else "")


def _is_topology_aware(blueprint: Blueprint, nodes: PodNodes) -> bool:
    # Kueue can place pods by topology only if the nodes exist before the job.
    return (
        nodes.fabric is not None
        and blueprint.consumption != "flex-start"
        and blueprint.shape == "multi-node"
    )


def _pools(blueprint: Blueprint, settings: ResolvedSettings, nodes: PodNodes) -> Iterator[Request]:
    if not blueprint.is_tpu:
        vpcs = vpcs_of(settings, None if nodes.claims else nodes.fabric)
        pool = pool_body(blueprint, settings, nodes, vpcs)
        yield pool_request(settings, pool, f"Create the node pool of {blueprint.machine.name}")
        return
    slices = slices_of(blueprint)
    assert not isinstance(slices, Infeasible), "kubernetes_obstacle comes first"
    policy = ""
    if slices.generation.by_policy and slices.machines_per_slice > 1:
        policy = f"{settings.name}-slice"
        workload: dict[str, Plain] = {
            "type": "HIGH_THROUGHPUT",
            "acceleratorTopology": slices.topology,
        }
        yield Request(
            file="25-policy.json",
            what=f"Create the workload policy for slices of {slices.topology}",
            method="compute.resourcePolicies.insert",
            parameters={"project": settings.project, "region": settings.region},
            body={"name": policy, "description": settings.labels_text, "workloadPolicy": workload},
            resource=policy,
        )
    count = slices.slice_count
    if blueprint.shape == "service":  # a multi-host slice is a pool, and each replica has one
        count = 1 if slices.machines_per_slice == 1 else replica_bounds(blueprint)[1]
    for index in range(count):
        body = slice_pool_body(blueprint, settings, slices, index, policy)
        yield pool_request(
            settings, body, f"Create a slice of {slices.generation.label} {slices.topology}"
        )


def _manifests(
    blueprint: Blueprint, settings: ResolvedSettings, launch: Launch, nodes: PodNodes
) -> Iterator[Artefact]:
    vpcs = vpcs_of(settings, None if nodes.claims else nodes.fabric)
    networks = tuple(network_objects(settings, nodes, vpcs))
    if networks:
        yield manifest("40-networks.yaml", networks)
    queue = _queue(blueprint, settings)
    topology = _is_topology_aware(blueprint, nodes)
    if queue and not settings.requested.queue:
        yield manifest(
            "45-queue.yaml", queue_objects(blueprint, settings, nodes, topology=topology)
        )
    if is_disaggregated(blueprint):
        yield manifest("50-service.yaml", disaggregated_objects(blueprint, settings, nodes))
    elif blueprint.shape == "service":
        yield manifest("50-service.yaml", service_objects(blueprint, settings, launch, nodes))
    else:
        yield manifest(
            "50-job.yaml",
            job_objects(blueprint, settings, launch, nodes, queue=queue, topology=topology),
        )


def _access_steps(settings: ResolvedSettings, launch: Launch) -> Iterator[DeployStep]:
    yield DeployStep(
        what="Point kubectl at the cluster, through its DNS endpoint",
        command=shell(
            "gcloud container clusters get-credentials {s.name} "
            "--project={s.project} --location={s.region} --dns-endpoint",
            s=settings,
        ),
    )
    member = workload_member(settings, settings.requested.namespace, settings.name)
    for mount in launch.mounts:
        role = "roles/storage.objectViewer" if mount.is_read_only else "roles/storage.objectUser"
        yield DeployStep(
            what=f"Allow the pods to {'read' if mount.is_read_only else 'write'} gs://{mount.bucket}",
            command=shell(
                "gcloud storage buckets add-iam-policy-binding gs://{mount.bucket} "
                "--role={role} --member={member}",
                mount=mount,
                role=role,
                member=member,
            ),
        )


def _manifest_steps(manifests: tuple[Artefact, ...]) -> Iterator[DeployStep]:
    for item in manifests:
        yield DeployStep(
            what=f"Apply the {item.name.partition('-')[2].removesuffix('.yaml')}",
            command=f"kubectl apply -f {item.name}",
            undo=f"kubectl delete --ignore-not-found -f {item.name}",
        )


def _notes(blueprint: Blueprint, settings: ResolvedSettings, nodes: PodNodes) -> Iterator[str]:
    yield (
        f"The cluster uses the newest patch of GKE {VERSION}; "
        "IAM controls access to its control plane, not an address list."
    )
    end = "The provider deletes the machines at the end of their TTL; "
    if blueprint.shape == "service" and has_end(settings):
        end = (
            f"A CronJob deletes the service at {settings.expires}, and the pool scales to zero; "
            f"suspend cronjob/{settings.name}-end to keep it. "
        )
    yield f"{end}cluster, system node, networks and bucket remain until you delete them."
    if settings.requested.network:
        yield (
            f"The subnet {settings.requested.network} must have secondary ranges "
            "named pods and services."
        )
    if nodes.claims:
        yield (
            "RDMA NICs come from managed DRANET (resource claims); "
            "the node pool creates their networks."
        )
        if settings.requested.queue:
            yield (
                "The job has resource claims: Kueue 0.18 or newer admits it only with a mapping of "
                "the device class mrdma.google.com (deviceClassMappings) that the queue covers, or "
                "render with --no-dra."
            )
    if settings.requested.queue:
        yield (
            f"Pods request {nodes.resource} only, because the queue {settings.requested.queue} may "
            "cover no CPU and memory."
        )
    if nodes.fabric is not None and nodes.fabric.name == "a4x-maxgpu-4g-metal":
        yield (
            "A4X Max also needs the asapd-lite DaemonSet of the Cluster Toolkit "
            "(examples/gke-a4x-max-bm)."
        )
    if blueprint.shape == "service":
        if not settings.requested.gateway:
            yield (
                "The service is reachable inside the cluster only: "
                f"kubectl port-forward service/{settings.name} 8000."
            )
        if machines_per_replica(blueprint) > 1:
            yield "A replica is a group of pods; the autoscaler counts groups."
    is_flex = blueprint.consumption == "flex-start"
    if is_flex and blueprint.shape == "multi-node" and not blueprint.is_tpu:
        yield "The job waits in the queue, at no cost, until all its machines are available."


GKE = Gke()
