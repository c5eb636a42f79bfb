"""Pod templates: container with accelerators, fabric network setup, storage and secrets."""

from __future__ import annotations

import math

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.launch import MODEL_CACHE, BucketMount, EnvVar, Launch
from gpuyard.provision.platforms.manifests.fabric_setup import PodFabricSetup, pod_fabric_setup
from gpuyard.provision.platforms.manifests.nodes import CPU, TPU, PodNodes
from gpuyard.provision.platforms.manifests.pod_requests import pod_requests
from gpuyard.provision.platforms.manifests.text import Object
from gpuyard.provision.platforms.service_account import is_gated

FUSE = "gcsfuse.csi.storage.gke.io"
FUSE_OPTIONS = "implicit-dirs"
SHARED_MEMORY_GIB = 64
# A memory volume counts against the memory of the pod: no more than half of the machine's.
SHARED_MEMORY_SHARE = 0.5
GIB = 2**30
MIN_CLAIM_GIB = 100
CACHE = "model-cache"
SIDECAR_REQUESTS: Object = {"cpu": "1", "memory": "1Gi"}
CPU_SHARE = 0.9  # of the vCPUs of a machine; the rest is for the node


def metadata(settings: ResolvedSettings, name: str = "") -> Object:
    """Return the name, namespace and labels of an object."""
    return {
        "name": name or settings.name,
        "namespace": settings.requested.namespace,
        "labels": settings.labels,
    }


def pod_template(
    blueprint: Blueprint,
    settings: ResolvedSettings,
    launch: Launch,
    nodes: PodNodes,
    *,
    environment: tuple[Object, ...] = (),
    prelude: tuple[str, ...] = (),
    annotations: Object | None = None,
    restart: str | None = None,
) -> Object:
    """Return a pod template; `environment` and `prelude` set its rank and master address."""
    fabric = pod_fabric_setup(blueprint, nodes, settings)
    volumes: list[Plain] = [
        {
            "name": "shared-memory",
            "emptyDir": {"medium": "Memory", "sizeLimit": _shared_memory(blueprint)},
        },
        *_cache(launch, {"name": CACHE, "emptyDir": {}}),
        *fabric.volumes,
        *(_volume(mount, settings, nodes) for mount in launch.mounts),
    ]
    spec: Object = {
        "serviceAccountName": settings.name,
        "nodeSelector": nodes.selector,
        "tolerations": list(nodes.tolerations),
        "containers": [
            _container(blueprint, settings, launch, nodes, fabric, environment, prelude)
        ],
        "volumes": volumes,
    }
    if nodes.priority:
        spec["priorityClassName"] = nodes.priority
    if restart:
        spec["restartPolicy"] = restart
    if fabric.sidecars:
        requests: Object = {"resources": {"requests": SIDECAR_REQUESTS}}
        own = requests if not settings.requested.queue else {}
        spec["initContainers"] = [{**sidecar, **own} for sidecar in fabric.sidecars]
    if fabric.claims:
        spec["resourceClaims"] = list(fabric.claims)
    if fabric.on_host_network:
        spec["hostNetwork"] = True
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    all_annotations: Object = {**(annotations or {}), **fabric.annotations}
    if launch.mounts and not nodes.is_onprem:
        all_annotations["gke-gcsfuse/volumes"] = "true"
        # 0: no limit. The small defaults of the sidecar slow down checkpoints (gpu-recipes charts).
        for resource in ("cpu", "memory", "ephemeral-storage"):
            all_annotations[f"gke-gcsfuse/{resource}-limit"] = "0"
    meta: Object = {"labels": {**settings.labels, "app": settings.name}}
    if all_annotations:
        meta["annotations"] = all_annotations
    return {"metadata": meta, "spec": spec}


def _cache(launch: Launch, part: Object) -> tuple[Object, ...]:
    # A volume of the pod: on the local SSDs where the node has them (GKE's pools declare them as
    # ephemeral storage), and a container that restarts finds the weights again.
    is_cached = EnvVar(name="HF_HOME", value=MODEL_CACHE) in launch.variables
    return (part,) if is_cached else ()


def _shared_memory(blueprint: Blueprint) -> str:
    memory_bytes = blueprint.machine.memory_bytes
    gib = SHARED_MEMORY_GIB
    if memory_bytes:
        gib = max(1, min(gib, int(SHARED_MEMORY_SHARE * memory_bytes / GIB)))
    return f"{gib}Gi"


def _container(
    blueprint: Blueprint,
    settings: ResolvedSettings,
    launch: Launch,
    nodes: PodNodes,
    fabric: PodFabricSetup,
    environment: tuple[Object, ...],
    prelude: tuple[str, ...],
) -> Object:
    variables = {item.name: item.value for item in (*launch.variables, *fabric.variables)}
    env: list[Plain] = [{"name": name, "value": value} for name, value in variables.items()]
    reference: Object = {"name": settings.requested.secret, "key": "token"}
    if not is_gated(blueprint, settings):
        reference["optional"] = True
    env += [*environment, {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}}]
    resources = _resources(blueprint, settings, launch, nodes)
    if fabric.claims:
        resources["claims"] = [{"name": claim["name"]} for claim in fabric.claims]
    mounts: list[Plain] = [
        {"name": "shared-memory", "mountPath": "/dev/shm"},
        *_cache(launch, {"name": CACHE, "mountPath": MODEL_CACHE}),
        *fabric.mounts,
        *(_mounted(mount) for mount in launch.mounts),
    ]
    container: Object = {
        "name": "work",
        "image": launch.image,
        "command": ["bash", "-c", launch.script(*prelude)],
        "env": env,
        "resources": resources,
        "volumeMounts": mounts,
    }
    security: Object = {}
    if fabric.is_privileged or nodes.resource == TPU:
        security["privileged"] = True
    elif fabric.capabilities:
        security["capabilities"] = {"add": list(fabric.capabilities)}
    if security:
        container["securityContext"] = security
    if launch.port is not None:
        container["ports"] = [{"name": "http", "containerPort": launch.port}]
    return container


def _resources(
    blueprint: Blueprint, settings: ResolvedSettings, launch: Launch, nodes: PodNodes
) -> Object:
    machine = blueprint.machine
    if nodes.resource == CPU:
        memory = pod_requests(machine, 1.0).get("memory")
        cpus: Object = {CPU: str(int(CPU_SHARE * (machine.vcpu_count or 1)))}
        return {"requests": {**cpus, **({"memory": memory} if memory else {})}}
    if not launch.chips_per_machine:
        return {}
    count: Object = {nodes.resource: str(math.ceil(launch.chips_per_machine))}
    # A queue of the user may cover accelerators only, as those of the Cluster Toolkit and xpk do:
    # it would never admit a job that requests more.
    share = min(1.0, launch.chips_per_machine / machine.chip_count)
    others = {} if settings.requested.queue else pod_requests(machine, share)
    return {"limits": count, "requests": {**count, **others}}


def _mounted(mount: BucketMount) -> Object:
    return {"name": mount.name, "mountPath": mount.path, "readOnly": mount.is_read_only}


def _volume(mount: BucketMount, settings: ResolvedSettings, nodes: PodNodes) -> Object:
    # Cloud Storage FUSE on GKE; a persistent volume claim on-premises.
    if nodes.is_onprem:
        return {
            "name": mount.name,
            "persistentVolumeClaim": {"claimName": f"{settings.name}-{mount.name}"},
        }
    attributes: Object = {"bucketName": mount.bucket}
    attributes["mountOptions"] = (
        f"{FUSE_OPTIONS},only-dir={mount.folder}" if mount.folder else FUSE_OPTIONS
    )
    return {
        "name": mount.name,
        "csi": {"driver": FUSE, "readOnly": mount.is_read_only, "volumeAttributes": attributes},
    }


def storage_objects(
    blueprint: Blueprint, settings: ResolvedSettings, launch: Launch, nodes: PodNodes
) -> tuple[Object, ...]:
    """Return the service account of the pods and, on-premises, their volume claims."""
    account: Object = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(settings)}
    if not nodes.is_onprem:
        return (account,)
    need = blueprint.option.storage_need
    sizes = {}
    if need is not None:
        # Twice the checkpoint: the last one stays until the next one is complete.
        sizes = {"checkpoints": 2 * need.checkpoint_bytes, "data": need.dataset_bytes or 0.0}
    return (
        account,
        *(_claim(settings, mount, sizes.get(mount.name, 0.0)) for mount in launch.mounts),
    )


def _claim(settings: ResolvedSettings, mount: BucketMount, size_bytes: float) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(settings, f"{settings.name}-{mount.name}"),
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {
                "requests": {"storage": f"{max(MIN_CLAIM_GIB, math.ceil(size_bytes / GIB))}Gi"}
            },
        },
    }
