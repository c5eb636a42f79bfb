"""What a pod needs to reach a GPU fabric: annotations, a receive daemon, volumes, claims."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from gpuyard.blueprint import Blueprint
from gpuyard.document import Plain
from gpuyard.provision.invariants.facts import Fabric, read_facts
from gpuyard.provision.launch import Variable
from gpuyard.provision.platforms.manifests.nodes import Nodes
from gpuyard.provision.platforms.manifests.text import Object
from gpuyard.provision.settings import Place

__all__ = ["PodPlumbing", "claim_objects", "network_names", "pod_plumbing"]

GPU_DEVICES = (*(f"/dev/nvidia{index}" for index in range(8)), "/dev/nvidiactl", "/dev/nvidia-uvm")
LIBRARIES = "/home/kubernetes/bin/nvidia/lib64"
REGISTRY = "us-docker.pkg.dev/gce-ai-infra"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlumbing:
    """The parts of a pod that the fabric brings."""

    annotations: Object = field(default_factory=dict)
    sidecars: tuple[Object, ...] = ()
    volumes: tuple[Object, ...] = ()
    mounts: tuple[Object, ...] = ()
    claims: tuple[Object, ...] = ()
    capabilities: tuple[str, ...] = ()
    variables: tuple[Variable, ...] = ()
    is_privileged: bool = False
    on_host_network: bool = False


def pod_plumbing(blueprint: Blueprint, nodes: Nodes, place: Place) -> PodPlumbing:
    """The plumbing of a pod on these nodes; nothing where it works alone."""
    if nodes.with_rdma:
        return _own(blueprint)
    if nodes.fabric is None:
        return PodPlumbing()
    if nodes.fabric.technology == "roce":
        return _roce(nodes.fabric, nodes, place)
    return _tcp(nodes.fabric)


def network_names(fabric: Fabric) -> tuple[str, ...]:
    """Names of the Network objects of the data NICs."""
    if fabric.network_profile:
        return tuple(f"rdma-{index}" for index in range(fabric.data_nic_count))
    return tuple(f"vpc{index}" for index in range(1, fabric.data_nic_count + 1))


def _interfaces(fabric: Fabric) -> Object:
    """The annotations that pass every data NIC to the pod."""
    first = 2 if fabric.network_profile else 1  # beside RDMA NICs the node has a second host NIC, eth1
    rows = [{"interfaceName": "eth0", "network": "default"}]
    rows += [
        {"interfaceName": f"eth{first + index}", "network": name} for index, name in enumerate(network_names(fabric))
    ]
    text = "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n]\n"
    return {"networking.gke.io/default-interface": "eth0", "networking.gke.io/interfaces": text}


def _host(name: str, path: str) -> Object:
    """A folder of the node as a volume."""
    return {"name": name, "hostPath": {"path": path}}


def _roce(fabric: Fabric, nodes: Nodes, place: Place) -> PodPlumbing:
    """gIB: the plugin's folder of the node, and the RDMA NICs by claims or by interfaces."""
    claims: list[Object] = []
    if nodes.claims:
        claims.append({"name": "rdma", "resourceClaimTemplateName": f"{place.name}-rdma"})
    if nodes.domain_machines:
        claims.append({"name": "nvlink", "resourceClaimTemplateName": f"{place.name}-nvlink"})
    return PodPlumbing(
        annotations={} if nodes.claims else _interfaces(fabric),
        volumes=(_host("gib", "/home/kubernetes/bin/gib"), _host("nvidia", "/home/kubernetes/bin/nvidia")),
        mounts=(
            {"name": "gib", "mountPath": "/usr/local/gib"},
            {"name": "nvidia", "mountPath": "/usr/local/nvidia"},
        ),
        claims=tuple(claims),
        capabilities=("IPC_LOCK",),
    )


def _tcp(fabric: Fabric) -> PodPlumbing:
    """TCPX and TCPXO: interfaces, the receive daemon as a native sidecar, and the devices that it sees."""
    over = fabric.technology == "tcpxo"
    name = f"{fabric.technology}-daemon"
    devices = (*GPU_DEVICES, "/dev/dmabuf_import_helper") if over else GPU_DEVICES
    annotations = {
        f"devices.gke.io/container.{name}": "".join(f"- path: {device}\n" for device in devices),
        **_interfaces(fabric),
    }
    own: Object = (
        {"name": "aperture-devices", "mountPath": "/dev/aperture_devices"}
        if over
        else {"name": "tcpx-socket", "mountPath": "/run/tcpx"}
    )
    volume: Object = (
        _host("aperture-devices", "/dev/aperture_devices") if over else {"name": "tcpx-socket", "emptyDir": {}}
    )
    return PodPlumbing(
        annotations=annotations,
        sidecars=(_daemon(fabric, name, () if over else (own,)),),
        volumes=(
            _host("libraries", LIBRARIES), _host("sys", "/sys"), _host("proc-sys", "/proc/sys"), volume,
        ),
        mounts=({"name": "libraries", "mountPath": "/usr/local/nvidia/lib64"}, own),
        capabilities=() if over else ("IPC_LOCK",),
    )  # fmt: skip


def _daemon(fabric: Fabric, name: str, more: tuple[Object, ...]) -> Object:
    """The receive daemon (RxDM) of the newest release."""
    over = fabric.technology == "tcpxo"
    release = next(row for row in read_facts().releases if row.technology == fabric.technology)
    command: list[Plain] = (
        ["/bin/sh", "-c", "chmod 755 /fts/entrypoint_rxdm_container.sh; /fts/entrypoint_rxdm_container.sh --num_hops=2"]
        if over
        else [
            "/tcpgpudmarxd/build/app/tcpgpudmarxd", "--gpu_nic_preset", "a3vm", "--gpu_shmem_type", "fd",
            "--uds_path", "/run/tcpx", "--setup_param", "--verbose 128 2 0 ",
        ]
    )  # fmt: skip
    capabilities: list[Plain] = ["NET_ADMIN", "NET_BIND_SERVICE"] if over else ["NET_ADMIN"]
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


def _own(blueprint: Blueprint) -> PodPlumbing:
    """Machines of your own: the host's network and its RDMA devices; marks of the designed lossless class."""
    variables = [Variable(name="NCCL_SOCKET_IFNAME", value="eth0"), Variable(name="NCCL_IB_HCA", value="mlx5")]
    fabric = blueprint.fabric
    if fabric is not None and fabric.lossless is not None:
        marks = [mark for row in fabric.lossless.qos.classes if row.lossless for mark in row.dscp]
        if marks:
            variables.append(Variable(name="NCCL_IB_TC", value=str(4 * marks[0])))  # DSCP stands above two ECN bits
        variables.append(Variable(name="NCCL_IB_GID_INDEX", value="3"))
    return PodPlumbing(
        volumes=(_host("infiniband", "/dev/infiniband"),),
        mounts=({"name": "infiniband", "mountPath": "/dev/infiniband"},),
        capabilities=("IPC_LOCK",),
        variables=tuple(variables),
        is_privileged=True,
        on_host_network=True,
    )


def claim_objects(nodes: Nodes, place: Place, labels: Object, machine_count: int) -> tuple[Object, ...]:
    """The claim templates that the pods name: all RDMA NICs of a node, and a channel of the NVLink domain."""
    made: list[Object] = []
    meta: Object = {"namespace": place.settings.namespace, "labels": labels}
    if nodes.domain_machines:
        made.append(
            {
                "apiVersion": "resource.nvidia.com/v1beta1",
                "kind": "ComputeDomain",
                "metadata": {"name": place.name, **meta},
                "spec": {
                    "numNodes": machine_count,
                    "channel": {"resourceClaimTemplate": {"name": f"{place.name}-nvlink"}},
                },
            }
        )
    if nodes.claims and nodes.fabric is not None:
        exactly: Object = {
            "deviceClassName": "mrdma.google.com",
            "allocationMode": "ExactCount",
            "count": nodes.fabric.data_nic_count,
        }
        made.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": {"name": f"{place.name}-rdma", **meta},
                "spec": {"spec": {"devices": {"requests": [{"name": "rdma", "exactly": exactly}]}}},
            }
        )
    return tuple(made)
