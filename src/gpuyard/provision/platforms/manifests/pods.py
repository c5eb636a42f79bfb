"""The pod that runs a launch: one container with the accelerators, its plumbing, storage and secrets."""

from __future__ import annotations

import math

from gpuyard.blueprint import Blueprint
from gpuyard.document import Plain
from gpuyard.provision.launch import Launch, Mount
from gpuyard.provision.platforms.manifests.nodes import CPU, TPU, Nodes
from gpuyard.provision.platforms.manifests.plumbing import PodPlumbing, pod_plumbing
from gpuyard.provision.platforms.manifests.text import Object
from gpuyard.provision.settings import Place

__all__ = ["metadata", "pod_template", "storage_objects"]

FUSE = "gcsfuse.csi.storage.gke.io"
SHARED_MEMORY = "64Gi"
GIB = 2**30
LEAST_GIB = 100
WHOLE = 0.9  # of the processors of a machine: the rest is the node's own


def metadata(place: Place, name: str = "") -> Object:
    """Name, namespace and labels of an object."""
    return {"name": name or place.name, "namespace": place.settings.namespace, "labels": place.labels}


def pod_template(
    blueprint: Blueprint,
    place: Place,
    launch: Launch,
    nodes: Nodes,
    *,
    environment: tuple[Object, ...] = (),
    prelude: tuple[str, ...] = (),
    annotations: Object | None = None,
    restart: str | None = None,
) -> Object:
    """The template of a pod; `environment` and `prelude` tell it its rank and who is first."""
    pipes = pod_plumbing(blueprint, nodes, place)
    volumes: list[Plain] = [
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": SHARED_MEMORY}},
        *pipes.volumes,
        *(_volume(mount, place, nodes) for mount in launch.mounts),
    ]
    spec: Object = {
        "serviceAccountName": place.name,
        "nodeSelector": nodes.selector,
        "tolerations": list(nodes.tolerations),
        "containers": [_container(blueprint, place, launch, nodes, pipes, environment, prelude)],
        "volumes": volumes,
    }
    if restart:
        spec["restartPolicy"] = restart
    if pipes.sidecars:
        spec["initContainers"] = list(pipes.sidecars)
    if pipes.claims:
        spec["resourceClaims"] = list(pipes.claims)
    if pipes.on_host_network:
        spec["hostNetwork"] = True
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    notes: Object = {**(annotations or {}), **pipes.annotations}
    if launch.mounts and not nodes.is_own:
        notes["gke-gcsfuse/volumes"] = "true"
    meta: Object = {"labels": {**place.labels, "app": place.name}}
    if notes:
        meta["annotations"] = notes
    return {"metadata": meta, "spec": spec}


def _container(
    blueprint: Blueprint,
    place: Place,
    launch: Launch,
    nodes: Nodes,
    pipes: PodPlumbing,
    environment: tuple[Object, ...],
    prelude: tuple[str, ...],
) -> Object:
    """The container with the accelerators."""
    fixed = {item.name: item.value for item in (*launch.variables, *pipes.variables)}
    env: list[Plain] = [{"name": name, "value": value} for name, value in fixed.items()]
    token: Object = {"secretKeyRef": {"name": place.settings.secret, "key": "token", "optional": True}}
    env += [*environment, {"name": "HF_TOKEN", "valueFrom": token}]
    resources: Object = {}
    if nodes.resource == CPU:
        resources = {"requests": {CPU: str(int(WHOLE * (blueprint.machine.vcpu_count or 1)))}}
    elif launch.chips_per_machine:
        count: Plain = str(math.ceil(launch.chips_per_machine))
        resources = {"limits": {nodes.resource: count}, "requests": {nodes.resource: count}}
    if pipes.claims:
        resources["claims"] = [{"name": claim["name"]} for claim in pipes.claims]
    mounts: list[Plain] = [
        {"name": "shared-memory", "mountPath": "/dev/shm"},
        *pipes.mounts,
        *(_mounted(mount) for mount in launch.mounts),
    ]
    box: Object = {
        "name": "work",
        "image": launch.image,
        "command": ["bash", "-c", launch.script(*prelude)],
        "env": env,
        "resources": resources,
        "volumeMounts": mounts,
    }
    security: Object = {}
    if pipes.is_privileged or nodes.resource == TPU:
        security["privileged"] = True
    elif pipes.capabilities:
        security["capabilities"] = {"add": list(pipes.capabilities)}
    if security:
        box["securityContext"] = security
    if launch.port is not None:
        box["ports"] = [{"name": "http", "containerPort": launch.port}]
    return box


def _mounted(mount: Mount) -> Object:
    """Where a volume stands in the container."""
    return {"name": mount.name, "mountPath": mount.path, "readOnly": mount.is_read_only}


def _volume(mount: Mount, place: Place, nodes: Nodes) -> Object:
    """A bucket by Cloud Storage FUSE on GKE; a claim of your own cluster elsewhere."""
    if nodes.is_own:
        return {"name": mount.name, "persistentVolumeClaim": {"claimName": f"{place.name}-{mount.name}"}}
    attributes: Object = {"bucketName": mount.bucket}
    attributes["mountOptions"] = f"implicit-dirs,only-dir={mount.folder}" if mount.folder else "implicit-dirs"
    return {"name": mount.name, "csi": {"driver": FUSE, "readOnly": mount.is_read_only, "volumeAttributes": attributes}}


def storage_objects(blueprint: Blueprint, place: Place, launch: Launch, nodes: Nodes) -> tuple[Object, ...]:
    """The identity of the pods, and on your own cluster the claims of their volumes."""
    account: Object = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(place)}
    if not nodes.is_own:
        return (account,)
    need = blueprint.option.storage_need
    sizes = {
        "checkpoints": 2 * need.checkpoint_bytes if need else 0.0,  # the last stays until the next is whole
        "data": (need.dataset_bytes or 0.0) if need else 0.0,
    }
    return (account, *(_claim(place, mount, sizes.get(mount.name, 0.0)) for mount in launch.mounts))


def _claim(place: Place, mount: Mount, size_bytes: float) -> Object:
    """A volume that all pods write to; one of unknown size is small."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(place, f"{place.name}-{mount.name}"),
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": f"{max(LEAST_GIB, math.ceil(size_bytes / GIB))}Gi"}},
        },
    }
