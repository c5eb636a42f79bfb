"""What has to be installed in a cluster before the manifests: controllers and plugin installers, by their release."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.blueprint import Blueprint
from gpuyard.provision.launch import machines_per_replica
from gpuyard.provision.platform import Step
from gpuyard.provision.platforms.manifests import Nodes

__all__ = ["JOBSET", "KUEUE", "LWS", "controller_steps", "plugin_steps"]

JOBSET = "v0.12.0"  # its README at 08dfbdfd, 2026-08-18
KUEUE = "v0.17.1"  # the Cluster Toolkit's own at 1047080, 2026-06-25
LWS = "v0.10.0"  # its installation page at 060ab4d, 2026-08-21
ACCELERATORS = "https://raw.githubusercontent.com/GoogleCloudPlatform/container-engine-accelerators/992db812"
ADAPTER = (
    "https://raw.githubusercontent.com/GoogleCloudPlatform/k8s-stackdriver/master/custom-metrics-stackdriver-adapter/"
    "deploy/production/adapter_new_resource_model.yaml"
)
RELEASES = "https://github.com/kubernetes-sigs"


def _apply(address: str) -> str:
    """The command that installs a manifest."""
    return f"kubectl apply --server-side -f {address}"


def controller_steps(blueprint: Blueprint, *, queue: bool) -> Iterator[Step]:
    """The controllers that the manifests need."""
    if blueprint.shape == "multi-node" or (blueprint.is_tpu and blueprint.shape != "service"):
        yield Step(
            what=f"JobSet {JOBSET}", command=_apply(f"{RELEASES}/jobset/releases/download/{JOBSET}/manifests.yaml")
        )
    if queue:
        yield Step(what=f"Kueue {KUEUE}", command=_apply(f"{RELEASES}/kueue/releases/download/{KUEUE}/manifests.yaml"))
    if blueprint.shape == "service" and machines_per_replica(blueprint) > 1:
        yield Step(
            what=f"LeaderWorkerSet {LWS}", command=_apply(f"{RELEASES}/lws/releases/download/{LWS}/manifests.yaml")
        )


def plugin_steps(blueprint: Blueprint, nodes: Nodes) -> Iterator[Step]:
    """On GKE: the fabric's plugin on every node, the driver of NVLink domains, and the adapter of metrics."""
    fabric = nodes.fabric
    if fabric is not None and fabric.technology in ("tcpx", "tcpxo"):
        kind = fabric.technology
        yield Step(
            what=f"{fabric.label} plugin", command=_apply(f"{ACCELERATORS}/gpudirect-{kind}/nccl-{kind}-installer.yaml")
        )
        yield Step(
            what="device injector", command=_apply(f"{ACCELERATORS}/nri_device_injector/nri-device-injector.yaml")
        )
    elif fabric is not None:
        name = "nccl-rdma-installer-a4x.yaml" if fabric.architecture == "arm64" else "nccl-rdma-installer.yaml"
        yield Step(what="gIB plugin", command=_apply(f"{ACCELERATORS}/gpudirect-rdma/{name}"))
    if nodes.domain_machines:
        yield Step(
            what="NVIDIA's driver of compute domains",
            command="helm install nvidia-dra-driver-gpu nvidia/nvidia-dra-driver-gpu --namespace nvidia-dra-driver-gpu "
            "--create-namespace --set resources.gpus.enabled=false",
        )
    if blueprint.shape == "service":
        yield Step(what="adapter of Cloud Monitoring, for the autoscaler", command=_apply(ADAPTER))
