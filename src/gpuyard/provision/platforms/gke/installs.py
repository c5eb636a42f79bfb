"""Steps that install controllers and NCCL plugins before the manifests are applied."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.replicas import machines_per_replica
from gpuyard.provision.platform import DeployStep
from gpuyard.provision.platforms.manifests.disaggregated import is_disaggregated, pools_of
from gpuyard.provision.platforms.manifests.nodes import PodNodes
from gpuyard.provision.platforms.service_account import is_gated
from gpuyard.provision.shell_text import ShellText, shell

JOBSET = "v0.12.0"  # its README at 08dfbdfd, 2026-08-18
KUEUE = "v0.17.8"  # its changelog at ff69552, 2026-08-22; 0.17 as in the Cluster Toolkit
LWS = "v0.10.0"  # its installation page at 060ab4d, 2026-08-21
ACCELERATORS = (
    "https://raw.githubusercontent.com/GoogleCloudPlatform/container-engine-accelerators/992db812"
)
ADAPTER = (
    "https://raw.githubusercontent.com/GoogleCloudPlatform/k8s-stackdriver/673c7dd8/custom-metrics-stackdriver-adapter/"
    "deploy/production/adapter_new_resource_model.yaml"
)
ADAPTER_NAMESPACE, ADAPTER_ACCOUNT = "custom-metrics", "custom-metrics-stackdriver-adapter"
RELEASES = "https://github.com/kubernetes-sigs"


def workload_member(settings: ResolvedSettings, namespace: str, account: str) -> ShellText:
    """Return the IAM principal of a Kubernetes service account (Workload Identity)."""
    return shell(
        "principal://iam.googleapis.com/projects/"
        "\"$(gcloud projects describe {s.project} --format='value(projectNumber)')\""
        "/locations/global/workloadIdentityPools/"
        "{s.project}.svc.id.goog/subject/ns/{namespace}/sa/{account}",
        s=settings,
        namespace=namespace,
        account=account,
    )


def _apply(address: str) -> str:
    return f"kubectl apply --server-side -f {address}"


def controller_steps(blueprint: Blueprint, *, queue: bool) -> Iterator[DeployStep]:
    """Yield the steps that install the controllers of the manifests."""
    if blueprint.shape == "multi-node" or (blueprint.is_tpu and blueprint.shape != "service"):
        yield DeployStep(
            what=f"Install JobSet {JOBSET}",
            command=_apply(f"{RELEASES}/jobset/releases/download/{JOBSET}/manifests.yaml"),
        )
    if queue:
        yield DeployStep(
            what=f"Install Kueue {KUEUE}",
            command=_apply(f"{RELEASES}/kueue/releases/download/{KUEUE}/manifests.yaml"),
        )
    is_service = blueprint.shape == "service"
    if is_service and any(machines_per_replica(pool) > 1 for pool in pools_of(blueprint)):
        yield DeployStep(
            what=f"Install LeaderWorkerSet {LWS}",
            command=_apply(f"{RELEASES}/lws/releases/download/{LWS}/manifests.yaml"),
        )


def token_steps(blueprint: Blueprint, settings: ResolvedSettings) -> Iterator[DeployStep]:
    """Yield the step that stores the access token, if the weights need one."""
    if is_gated(blueprint, settings):
        name = shell("{r.secret} --namespace={r.namespace}", r=settings.requested)
        # By standard input: arguments are visible in the list of processes.
        token = 'printf %s "${HF_TOKEN:?set it to a token that may read the model}"'
        yield DeployStep(
            what="Store the access token of the model, from the variable HF_TOKEN",
            command=f"{token} | kubectl create secret generic {name} --from-file=token=/dev/stdin",
            undo=f"kubectl delete secret {name} --ignore-not-found",
        )


def plugin_steps(
    blueprint: Blueprint, settings: ResolvedSettings, nodes: PodNodes
) -> Iterator[DeployStep]:
    """Yield the steps that install NCCL plugin, NVLink domain driver and metrics adapter."""
    fabric = nodes.fabric
    if fabric is not None and fabric.technology in ("tcpx", "tcpxo"):
        kind = fabric.technology
        yield DeployStep(
            what=f"Install the {fabric.label} plugin",
            command=_apply(f"{ACCELERATORS}/gpudirect-{kind}/nccl-{kind}-installer.yaml"),
        )
        yield DeployStep(
            what="Install the device injector",
            command=_apply(f"{ACCELERATORS}/nri_device_injector/nri-device-injector.yaml"),
        )
    elif fabric is not None:
        name = (
            "nccl-rdma-installer-a4x.yaml"
            if fabric.architecture == "arm64"
            else "nccl-rdma-installer.yaml"
        )
        address = f"{ACCELERATORS}/gpudirect-rdma/{name}"
        yield DeployStep(what="Install the gIB plugin", command=_apply(address))
    if nodes.domain_machines:
        yield DeployStep(
            what="Install NVIDIA's DRA driver for compute domains",
            command="helm install nvidia-dra-driver-gpu nvidia/nvidia-dra-driver-gpu "
            "--namespace nvidia-dra-driver-gpu --create-namespace "
            "--set resources.gpus.enabled=false",
        )
    if blueprint.shape == "service" and not is_disaggregated(blueprint):
        yield DeployStep(
            what="Install the Cloud Monitoring metrics adapter for the autoscaler",
            command=_apply(ADAPTER),
        )
        member = workload_member(settings, ADAPTER_NAMESPACE, ADAPTER_ACCOUNT)
        yield DeployStep(
            what="Allow the adapter to read the metrics",
            command=shell(
                "gcloud projects add-iam-policy-binding {s.project} --condition=None "
                "--role=roles/monitoring.viewer --member={member}",
                s=settings,
                member=member,
            ),
        )
