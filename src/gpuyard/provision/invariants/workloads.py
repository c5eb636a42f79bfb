"""Rules of Kubernetes workloads: text values, parallelism, Kueue, storage, shared memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.errors import nearest
from gpuyard.provision.invariants.bundle import Bundle, Hit
from gpuyard.provision.invariants.pods import Pod
from gpuyard.provision.part import View

__all__ = [
    "group_holds_the_model",
    "indexed_jobs_run_together",
    "labels_are_text",
    "mounted_buckets_are_announced",
    "queue_names_lead_somewhere",
    "shared_memory_is_mounted",
    "topology_goes_from_far_to_near",
]

TEXT_MAPS = ("labels", "annotations", "nodeSelector", "matchLabels", "nodeLabels")
QUEUE = "kueue.x-k8s.io/queue-name"
PARALLEL = {
    "tensor": r"(?:--tensor-parallel-size|--tensor_parallel_size|--tp-size|--tp|-tp)",
    "pipeline": r"(?:--pipeline-parallel-size|--pipeline_parallel_size|--pp-size|--pp|-pp)",
}
RANKS = re.compile(r"torchrun|MASTER_ADDR|JOB_COMPLETION_INDEX|jax\.distributed|mpirun")
LEVELS = (
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
    "cloud.google.com/gce-topology-host",
    "kubernetes.io/hostname",
)


def labels_are_text(bundle: Bundle) -> Iterator[Hit]:
    """Values of labels, annotations, node selectors and environment variables are texts."""
    for part in bundle.parts:
        if part.kind == "kubernetes":
            yield from _untexted(part.root)


def _untexted(view: View) -> Iterator[Hit]:
    """Values that YAML reads as a number or as true."""
    for key, child in view.pairs:
        if key in TEXT_MAPS:
            for name, value in child.pairs:
                if isinstance(value.value, int | float | bool):
                    yield _quote(value, f"{key}.{name}")
        elif key == "env":
            for row in child.items:
                if isinstance(row["value"].value, int | float | bool):
                    yield _quote(row["value"], f"the value of {row['name'].text}")
        yield from _untexted(child)
    for item in view.items:
        yield from _untexted(item)


def _quote(view: View, name: str) -> Hit:
    """A value that has to be quoted."""
    spelled = str(view.value).lower() if isinstance(view.value, bool) else str(view.value)
    return Hit(view=view, what=f"{name} is {spelled}, not a text", fix=f'quote it: "{spelled}"')


def group_holds_the_model(bundle: Bundle) -> Iterator[Hit]:
    """The GPUs of a group are enough for tensor times pipeline parallelism."""
    for pod in bundle.pods:
        tensor, pipeline = (_flag(pod.script, PARALLEL[name]) for name in ("tensor", "pipeline"))
        if not pod.workers or (tensor, pipeline) == (1, 1):
            continue
        size = pod.replica_count if pod.owner.type.endswith(" LeaderWorkerSet") else 1
        if pod.owner.type.rsplit(" ", 1)[1] in ("RayCluster", "RayJob", "RayService", "JobSet"):
            continue  # their groups are put together elsewhere
        gpus, needed = size * pod.gpu_count, tensor * pipeline
        if gpus < needed:
            what = f"tensor {tensor} × pipeline {pipeline} needs {needed} GPUs, a group has {gpus:g}"
            yield Hit(view=pod.template, what=what, fix="raise the size of the group, or lower the parallelism")


def _flag(script: str, pattern: str) -> int:
    """The number after a command-line flag."""
    found = re.search(rf"(?:^|\s){pattern}[=\s]+(\d+)", script)
    return int(found.group(1)) if found else 1


def topology_goes_from_far_to_near(bundle: Bundle) -> Iterator[Hit]:
    """Levels of a topology go from block to host, the host name last; a flavor with a topology selects nodes."""
    topologies = {view.at("metadata", "name").text: view for view in bundle.kubernetes("kueue.x-k8s.io", "Topology")}
    for topology in topologies.values():
        labels = [level["nodeLabel"].text for level in topology.at("spec", "levels").items]
        ranks = [LEVELS.index(label) for label in labels if label in LEVELS]
        if ranks != sorted(ranks):
            fix = f"order them {', '.join(LEVELS[rank] for rank in sorted(ranks))}"
            yield Hit(view=topology.at("spec", "levels"), what="levels are not ordered from far to near", fix=fix)
    for flavor in bundle.kubernetes("kueue.x-k8s.io", "ResourceFlavor"):
        name = flavor.at("spec", "topologyName")
        if name.text and not flavor.at("spec", "nodeLabels").pairs:
            what = "a flavor with a topology must select its nodes"
            yield Hit(view=flavor["spec"], what=what, fix="add nodeLabels")
        if name.text and topologies and name.text not in topologies:
            yield _nowhere(name, "Topology", topologies)


def queue_names_lead_somewhere(bundle: Bundle) -> Iterator[Hit]:
    """Queue, cluster queue, flavor and admission check exist where the files hold any of their kind."""
    kinds = ("LocalQueue", "ClusterQueue", "ResourceFlavor", "AdmissionCheck")
    names = {
        kind: {view.at("metadata", "name").text for view in bundle.kubernetes("kueue.x-k8s.io", kind)} for kind in kinds
    }
    for part in bundle.parts:
        queue = part.root.at("metadata", "labels", QUEUE)
        if part.kind == "kubernetes" and queue.text and names["LocalQueue"] and queue.text not in names["LocalQueue"]:
            yield _nowhere(queue, "LocalQueue", names["LocalQueue"])
    for local in bundle.kubernetes("kueue.x-k8s.io", "LocalQueue"):
        target = local.at("spec", "clusterQueue")
        if names["ClusterQueue"] and target.text not in names["ClusterQueue"]:
            yield _nowhere(target, "ClusterQueue", names["ClusterQueue"])
    for cluster in bundle.kubernetes("kueue.x-k8s.io", "ClusterQueue"):
        for group in cluster.at("spec", "resourceGroups").items:
            for flavor in group["flavors"].items:
                if names["ResourceFlavor"] and flavor["name"].text not in names["ResourceFlavor"]:
                    yield _nowhere(flavor["name"], "ResourceFlavor", names["ResourceFlavor"])
        for check in cluster.at("spec", "admissionChecksStrategy", "admissionChecks").items:
            if names["AdmissionCheck"] and check["name"].text not in names["AdmissionCheck"]:
                yield _nowhere(check["name"], "AdmissionCheck", names["AdmissionCheck"])


def _nowhere(view: View, kind: str, names: object) -> Hit:
    """A name that nothing has."""
    known = sorted(str(name) for name in names) if isinstance(names, set | dict) else []
    meant = nearest(view.text, known)
    fix = f'use "{meant}"' if meant else f"add it, or use {', '.join(known)}"
    return Hit(view=view, what=f'there is no {kind} "{view.text}"', fix=fix)


def indexed_jobs_run_together(bundle: Bundle) -> Iterator[Hit]:
    """A job of several GPU pods is indexed, and all its pods run at once."""
    for pod in bundle.pods:
        if pod.replica_count < 2 or not pod.workers or not pod.owner.type.endswith((" JobSet", " Job")):
            continue
        if pod.owner.type.endswith(" Job") and pod.fabric is None and not RANKS.search(pod.script):
            continue  # tasks that do not speak to each other
        job = _job(pod)
        parallel, complete = job["parallelism"].number, job["completions"].number
        if complete is not None and parallel != complete:
            what = f"parallelism {parallel or 1:g}, completions {complete:g}: the ranks never meet"
            yield Hit(view=job, what=what, fix="make them equal", severity="warning")
        mode = job["completionMode"].text
        if pod.owner.type.endswith(" Job") and (parallel or 1) > 1 and mode != "Indexed":
            what = "pods of a job that is not Indexed have no rank"
            yield Hit(view=job, what=what, fix="add completionMode: Indexed and completions", severity="warning")


def _job(pod: Pod) -> View:
    """The spec of the job that makes the pod."""
    spec = pod.owner.root["spec"]
    if pod.owner.type.endswith(" Job"):
        return spec
    return next(
        job.at("template", "spec")
        for job in spec["replicatedJobs"].items
        if pod.template.path.startswith(f"{job.path}.")
    )


def mounted_buckets_are_announced(bundle: Bundle) -> Iterator[Hit]:
    """A pod with a bucket mounted by Cloud Storage FUSE has the annotation that starts its sidecar."""
    for pod in bundle.pods:
        for volume in pod.spec["volumes"].items:
            if volume.at("csi", "driver").text != "gcsfuse.csi.storage.gke.io":
                continue
            if pod.annotations["gke-gcsfuse/volumes"].text != "true":
                fix = 'add the annotation gke-gcsfuse/volumes: "true" to the pod template'
                yield Hit(view=volume, what="the bucket is never mounted: no sidecar", fix=fix)


def shared_memory_is_mounted(bundle: Bundle) -> Iterator[Hit]:
    """A pod with several GPUs has more shared memory than the 64 MiB of a container."""
    for pod in bundle.pods:
        shared = any(mount == "/dev/shm" for mount in pod.mounts) or pod.spec["hostIPC"].is_true
        if pod.gpu_count > 1 and not shared:
            fix = "mount an emptyDir with medium: Memory at /dev/shm"
            what = "several GPUs and 64 MiB of shared memory: NCCL and data loaders fail"
            yield Hit(view=pod.template, what=what, fix=fix, severity="warning")
