"""GPUDirect/RDMA network setup of a pod: annotations, receive daemon, volumes, claims."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.invariants.facts import MachineFabric, read_facts
from gpuyard.provision.launch.launch import EnvVar
from gpuyard.provision.platforms.manifests.nodes import PodNodes
from gpuyard.provision.platforms.manifests.text import Object

GPU_DEVICES = (*(f"/dev/nvidia{index}" for index in range(8)), "/dev/nvidiactl", "/dev/nvidia-uvm")
LIBRARIES = "/home/kubernetes/bin/nvidia/lib64"
REGISTRY = "us-docker.pkg.dev/gce-ai-infra"
TCPXO_COMMAND = (
    "/bin/sh",
    "-c",
    "chmod 755 /fts/entrypoint_rxdm_container.sh; /fts/entrypoint_rxdm_container.sh --num_hops=2",
)
TCPX_COMMAND = (
    "/tcpgpudmarxd/build/app/tcpgpudmarxd",
    "--gpu_nic_preset",
    "a3vm",
    "--gpu_shmem_type",
    "fd",
    "--uds_path",
    "/run/tcpx",
    "--setup_param",
    "--verbose 128 2 0 ",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFabricSetup:
    """The parts of a pod that a fabric needs."""

    annotations: Object = field(default_factory=dict)
    sidecars: tuple[Object, ...] = ()
    volumes: tuple[Object, ...] = ()
    mounts: tuple[Object, ...] = ()
    claims: tuple[Object, ...] = ()
    capabilities: tuple[str, ...] = ()
    variables: tuple[EnvVar, ...] = ()
    is_privileged: bool = False
    on_host_network: bool = False


def pod_fabric_setup(
    blueprint: Blueprint, nodes: PodNodes, settings: ResolvedSettings
) -> PodFabricSetup:
    """Return the setup of a pod; empty if it does not communicate."""
    if nodes.with_rdma:
        return _onprem(blueprint)
    if nodes.fabric is None:
        return PodFabricSetup()
    if nodes.fabric.technology == "roce":
        return _roce(nodes.fabric, nodes, settings)
    return _tcp(nodes.fabric)


def network_names(fabric: MachineFabric) -> tuple[str, ...]:
    """Return the names of the Network objects of the data NICs."""
    if fabric.network_profile:
        return tuple(f"rdma-{index}" for index in range(fabric.data_nic_count))
    return tuple(f"vpc{index}" for index in range(1, fabric.data_nic_count + 1))


def _interfaces(fabric: MachineFabric) -> Object:
    # A node with RDMA NICs has a second host NIC, eth1.
    first = 2 if fabric.network_profile else 1
    rows = [{"interfaceName": "eth0", "network": "default"}]
    rows += [
        {"interfaceName": f"eth{first + index}", "network": name}
        for index, name in enumerate(network_names(fabric))
    ]
    text = "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n]\n"
    return {"networking.gke.io/default-interface": "eth0", "networking.gke.io/interfaces": text}


def _host_volume(name: str, path: str) -> Object:
    return {"name": name, "hostPath": {"path": path}}


def _roce(fabric: MachineFabric, nodes: PodNodes, settings: ResolvedSettings) -> PodFabricSetup:
    # gIB: the plugin's folder on the node, and RDMA NICs from claims or interfaces.
    claims: list[Object] = []
    if nodes.claims:
        claims.append({"name": "rdma", "resourceClaimTemplateName": f"{settings.name}-rdma"})
    if nodes.domain_machines:
        claims.append({"name": "nvlink", "resourceClaimTemplateName": f"{settings.name}-nvlink"})
    return PodFabricSetup(
        annotations={} if nodes.claims else _interfaces(fabric),
        volumes=(
            _host_volume("gib", "/home/kubernetes/bin/gib"),
            _host_volume("nvidia", "/home/kubernetes/bin/nvidia"),
        ),
        mounts=(
            {"name": "gib", "mountPath": "/usr/local/gib"},
            {"name": "nvidia", "mountPath": "/usr/local/nvidia"},
        ),
        claims=tuple(claims),
        capabilities=("IPC_LOCK",),
    )


def _tcp(fabric: MachineFabric) -> PodFabricSetup:
    # TCPX and TCPXO: interfaces, and the receive daemon as a native sidecar with its devices.
    is_tcpxo = fabric.technology == "tcpxo"
    name = f"{fabric.technology}-daemon"
    devices = (*GPU_DEVICES, "/dev/dmabuf_import_helper") if is_tcpxo else GPU_DEVICES
    annotations = {
        f"devices.gke.io/container.{name}": "".join(f"- path: {device}\n" for device in devices),
        **_interfaces(fabric),
    }
    if is_tcpxo:
        mount: Object = {"name": "aperture-devices", "mountPath": "/dev/aperture_devices"}
        volume: Object = _host_volume("aperture-devices", "/dev/aperture_devices")
    else:
        mount = {"name": "tcpx-socket", "mountPath": "/run/tcpx"}
        volume = {"name": "tcpx-socket", "emptyDir": {}}
    return PodFabricSetup(
        annotations=annotations,
        sidecars=(_daemon(fabric, name, () if is_tcpxo else (mount,)),),
        volumes=(
            _host_volume("libraries", LIBRARIES),
            _host_volume("sys", "/sys"),
            _host_volume("proc-sys", "/proc/sys"),
            volume,
        ),
        mounts=({"name": "libraries", "mountPath": "/usr/local/nvidia/lib64"}, mount),
        capabilities=() if is_tcpxo else ("IPC_LOCK",),
    )


def _daemon(fabric: MachineFabric, name: str, more: tuple[Object, ...]) -> Object:
    # Receive daemon (RxDM) of the plugin that the pinned installer puts on the nodes.
    is_tcpxo = fabric.technology == "tcpxo"
    release = next(
        row
        for row in read_facts().releases
        if row.technology == fabric.technology and not row.hosts_only
    )
    command: list[Plain] = [*(TCPXO_COMMAND if is_tcpxo else TCPX_COMMAND)]
    capabilities: list[Plain] = ["NET_ADMIN", "NET_BIND_SERVICE"] if is_tcpxo else ["NET_ADMIN"]
    mounts: list[Plain] = [
        {"name": "libraries", "mountPath": "/usr/local/nvidia/lib64"},
        {"name": "sys", "mountPath": "/hostsysfs"},
        {"name": "proc-sys", "mountPath": "/hostprocsysfs"},
        *more,
    ]
    return {
        "name": name,
        "image": f"{REGISTRY}/gpudirect-{fabric.technology}/tcpgpudmarxd-dev:{release.daemon}",
        "restartPolicy": "Always",
        "command": command,
        "securityContext": {"capabilities": {"add": capabilities}},
        "env": [{"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}],
        "volumeMounts": mounts,
    }


def _onprem(blueprint: Blueprint) -> PodFabricSetup:
    # The host's network and RDMA devices, with the DSCP of the designed lossless class.
    variables = [
        EnvVar(name="NCCL_SOCKET_IFNAME", value="eth0"),
        EnvVar(name="NCCL_IB_HCA", value="mlx5"),
    ]
    fabric = blueprint.fabric
    if fabric is not None and fabric.lossless is not None:
        dscp = [mark for row in fabric.lossless.qos.classes if row.lossless for mark in row.dscp]
        if dscp:
            # The traffic class is the DSCP above two ECN bits.
            variables.append(EnvVar(name="NCCL_IB_TC", value=str(4 * dscp[0])))
        variables.append(EnvVar(name="NCCL_IB_GID_INDEX", value="3"))
    return PodFabricSetup(
        volumes=(_host_volume("infiniband", "/dev/infiniband"),),
        mounts=({"name": "infiniband", "mountPath": "/dev/infiniband"},),
        capabilities=("IPC_LOCK",),
        variables=tuple(variables),
        is_privileged=True,
        on_host_network=True,
    )


def claim_objects(
    nodes: PodNodes, settings: ResolvedSettings, labels: Object, machine_count: int
) -> tuple[Object, ...]:
    """Return the claim templates of the pods: RDMA NICs, and a channel of the NVLink domain."""
    objects: list[Object] = []
    meta: Object = {"namespace": settings.requested.namespace, "labels": labels}
    if nodes.domain_machines:
        objects.append(
            {
                "apiVersion": "resource.nvidia.com/v1beta1",
                "kind": "ComputeDomain",
                "metadata": {"name": settings.name, **meta},
                "spec": {
                    "numNodes": machine_count,
                    "channel": {"resourceClaimTemplate": {"name": f"{settings.name}-nvlink"}},
                },
            }
        )
    if nodes.claims and nodes.fabric is not None:
        exactly: Object = {
            "deviceClassName": "mrdma.google.com",
            "allocationMode": "ExactCount",
            "count": nodes.fabric.data_nic_count,
        }
        objects.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": {"name": f"{settings.name}-rdma", **meta},
                "spec": {"spec": {"devices": {"requests": [{"name": "rdma", "exactly": exactly}]}}},
            }
        )
    return tuple(objects)
