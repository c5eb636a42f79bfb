"""Invariants of Kubernetes workloads: strings, parallelism, Kueue, storage, shared memory."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from gpuyard.errors import Finding, closest_match
from gpuyard.provision.artefact_document import ValueView
from gpuyard.provision.invariants.lint_bundle import LintBundle, invariant
from gpuyard.provision.invariants.pods import PodTemplate
from gpuyard.provision.invariants.sources import ACCELERATORS, KUEUE, PODS
from gpuyard.provision.resource_quantity import quantity

KUEUE_GROUP = "kueue.x-k8s.io"
STRING_MAPS = ("labels", "annotations", "nodeSelector", "matchLabels", "nodeLabels")
QUEUE = "kueue.x-k8s.io/queue-name"
TENSOR_FLAG = r"(?:--tensor-parallel-size|--tensor_parallel_size|--tp-size|--tp|-tp)"
PIPELINE_FLAG = r"(?:--pipeline-parallel-size|--pipeline_parallel_size|--pp-size|--pp|-pp)"
RANKS = re.compile(r"torchrun|MASTER_ADDR|JOB_COMPLETION_INDEX|jax\.distributed|mpirun")
LEVELS = (
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
    "cloud.google.com/gce-topology-host",
    "kubernetes.io/hostname",
)


@invariant("text-values", applies_to="Kubernetes objects", source="Kubernetes API v1.37")
def values_are_strings(bundle: LintBundle) -> Iterator[Finding]:
    """Labels, annotations, selectors and environment variables are strings."""
    for document in bundle.documents:
        if document.kind == "kubernetes":
            yield from _unquoted(document.root)


def _unquoted(view: ValueView) -> Iterator[Finding]:
    # Values that YAML reads as a number or a boolean.
    for key, child in view.pairs:
        if key in STRING_MAPS:
            for name, value in child.pairs:
                yield from _string(value, f"{key}.{name}")
        elif key == "env":
            for row in child.items:
                yield from _string(row["value"], f"the value of {row['name'].text}")
        yield from _unquoted(child)
    for item in view.items:
        yield from _unquoted(item)


def _string(view: ValueView, name: str) -> Iterator[Finding]:
    value = view.value
    if isinstance(value, int | float | bool):
        text = str(value).lower() if isinstance(value, bool) else str(value)
        yield view.error(f"{name} is {text}, not a string", f'quote it: "{text}"')


@invariant(
    "model-fits-group",
    applies_to="LeaderWorkerSet, Deployment",
    source="vLLM: distributed serving",
)
def group_has_enough_gpus(bundle: LintBundle) -> Iterator[Finding]:
    """A group has at least tensor-parallel × pipeline-parallel GPUs."""
    for pod in bundle.pods:
        kind = pod.owner.kind_name
        if not pod.workers or kind in ("RayCluster", "RayJob", "RayService", "JobSet"):
            continue  # Ray and JobSet form their groups elsewhere
        tensor = _flag(pod.script, TENSOR_FLAG)
        pipeline = _flag(pod.script, PIPELINE_FLAG)
        group_size = pod.replica_count if kind == "LeaderWorkerSet" else 1
        gpus = group_size * pod.gpu_count
        needed = tensor * pipeline
        if needed > 1 and gpus < needed:
            yield pod.template.error(
                f"TP {tensor} × PP {pipeline} needs {needed} GPUs, a group has {gpus:g}",
                "raise the size of the group, or lower the parallelism",
            )


def _flag(script: str, pattern: str) -> int:
    match = re.search(rf"(?:^|\s){pattern}[=\s]+(\d+)", script)
    return int(match.group(1)) if match else 1


@invariant("kueue-topology", applies_to="Topology, ResourceFlavor, jobs", source=KUEUE)
def kueue_topology_is_ordered(bundle: LintBundle) -> Iterator[Finding]:
    """Levels go from block to host, flavors with a topology have nodeLabels, jobs name a level."""
    topologies = bundle.kubernetes_by_name(KUEUE_GROUP, "Topology")
    for topology in topologies.values():
        levels = topology.at("spec", "levels")
        labels = [level["nodeLabel"].text for level in levels.items]
        ranks = [LEVELS.index(label) for label in labels if label in LEVELS]
        if ranks != sorted(ranks):
            order = ", ".join(LEVELS[rank] for rank in sorted(ranks))
            yield levels.error("levels are not ordered from block to host", f"order them {order}")
    for flavor in bundle.kubernetes(KUEUE_GROUP, "ResourceFlavor"):
        name = flavor.at("spec", "topologyName")
        if name.text and not flavor.at("spec", "nodeLabels").pairs:
            yield flavor["spec"].error(
                "a flavor with a topology must select its nodes", "add nodeLabels"
            )
        if name.text:
            yield from _exists(name, "Topology", topologies)
    known = {
        level["nodeLabel"].text
        for topology in topologies.values()
        for level in topology.at("spec", "levels").items
    }
    for pod in bundle.pods:
        for word in ("required-topology", "preferred-topology", "slice-required-topology"):
            level = pod.annotations[f"kueue.x-k8s.io/podset-{word}"]
            if not level.text or level.text in (known or LEVELS):
                continue
            match = closest_match(level.text, known or LEVELS)
            if known or match:
                yield level.error(
                    f"{level.text} is no level of a topology: the job is never admitted",
                    f"use {match or ', '.join(sorted(known))}",
                )


@invariant("kueue-names", applies_to="LocalQueue, ClusterQueue, jobs", source=KUEUE)
def kueue_names_exist(bundle: LintBundle) -> Iterator[Finding]:
    """Queues, flavors and admission checks that are named exist."""
    kinds = ("LocalQueue", "ClusterQueue", "ResourceFlavor", "AdmissionCheck")
    names = {kind: bundle.kubernetes_by_name(KUEUE_GROUP, kind) for kind in kinds}
    for document in bundle.documents:
        queue = document.root.at("metadata", "labels", QUEUE)
        if document.kind == "kubernetes" and queue.text:
            yield from _exists(queue, "LocalQueue", names["LocalQueue"])
    for local in bundle.kubernetes(KUEUE_GROUP, "LocalQueue"):
        yield from _exists(local.at("spec", "clusterQueue"), "ClusterQueue", names["ClusterQueue"])
    for cluster in names["ClusterQueue"].values():
        for group in cluster.at("spec", "resourceGroups").items:
            for flavor in group["flavors"].items:
                yield from _exists(flavor["name"], "ResourceFlavor", names["ResourceFlavor"])
        for check in cluster.at("spec", "admissionChecksStrategy", "admissionChecks").items:
            yield from _exists(check["name"], "AdmissionCheck", names["AdmissionCheck"])


def _exists(view: ValueView, kind: str, names: Collection[str]) -> Iterator[Finding]:
    # Without any object of the kind in the files, the name may exist in the cluster.
    if names and view.text not in names:
        known = sorted(names)
        match = closest_match(view.text, known)
        fix = f'use "{match}"' if match else f"add it, or use {', '.join(known)}"
        yield view.error(f'unknown {kind} "{view.text}"', fix)


@invariant("kueue-covers", applies_to="ClusterQueue, jobs", source=KUEUE)
def queue_covers_requests(bundle: LintBundle) -> Iterator[Finding]:
    """A queue covers every resource that the pods of its jobs request."""
    locals_ = bundle.kubernetes_by_name(KUEUE_GROUP, "LocalQueue")
    clusters = bundle.kubernetes_by_name(KUEUE_GROUP, "ClusterQueue")
    for pod in bundle.pods:
        local = locals_.get(pod.owner.root.at("metadata", "labels", QUEUE).text)
        cluster = clusters.get(local.at("spec", "clusterQueue").text) if local else None
        if cluster is None:
            continue
        covered = {
            text
            for group in cluster.at("spec", "resourceGroups").items
            for text in group["coveredResources"].texts
        }
        for name in ("initContainers", "containers"):
            for box in pod.spec[name].items:
                for resource, view in box.at("resources", "requests").pairs:
                    if resource not in covered:
                        yield view.error(
                            f"the queue {cluster.at('metadata', 'name').text} does not cover "
                            f"{resource}: the job is never admitted",
                            f"add {resource} to coveredResources, with a quota",
                        )


@invariant("indexed-together", applies_to="Job, JobSet", source="JobSet at 08dfbdf (2026-08-18)")
def indexed_job_pods_run_together(bundle: LintBundle) -> Iterator[Finding]:
    """A job of several GPU pods is Indexed, with parallelism = completions."""
    for pod in bundle.pods:
        kind = pod.owner.kind_name
        if pod.replica_count < 2 or kind not in ("JobSet", "Job"):
            continue
        is_together = pod.fabric is not None and pod.workers
        if not is_together and not RANKS.search(pod.script) and not _has_ranks(pod):
            continue  # independent tasks
        job = _job_spec(pod)
        parallelism = job["parallelism"].number
        completions = job["completions"].number
        if completions is not None and parallelism != completions:
            yield job.warning(
                f"parallelism {parallelism or 1:g}, completions {completions:g}: "
                "not all ranks run at once",
                "set both to the same value",
            )
        if kind == "Job" and (parallelism or 1) > 1 and job["completionMode"].text != "Indexed":
            yield job.warning(
                "pods of a job that is not Indexed have no rank",
                "add completionMode: Indexed and completions",
            )


def _has_ranks(pod: PodTemplate) -> bool:
    """Whether a container reads its rank from the completion index."""
    return any(
        "job-completion-index" in row.at("valueFrom", "fieldRef", "fieldPath").text
        for box in pod.containers
        for row in box["env"].items
    )


def _job_spec(pod: PodTemplate) -> ValueView:
    spec = pod.owner.root["spec"]
    if pod.owner.kind_name == "Job":
        return spec
    return next(
        job.at("template", "spec")
        for job in spec["replicatedJobs"].items
        if pod.template.path.startswith(f"{job.path}.")
    )


@invariant("bucket-sidecar", applies_to=PODS, source="GKE: Cloud Storage FUSE CSI driver")
def bucket_mount_has_sidecar(bundle: LintBundle) -> Iterator[Finding]:
    """Pods that mount a bucket have the annotation gke-gcsfuse/volumes."""
    for pod in bundle.pods:
        for volume in pod.spec["volumes"].items:
            is_bucket = volume.at("csi", "driver").text == "gcsfuse.csi.storage.gke.io"
            if is_bucket and pod.annotations["gke-gcsfuse/volumes"].text != "true":
                yield volume.error(
                    "the bucket is not mounted: the pod has no Cloud Storage FUSE sidecar",
                    'add the annotation gke-gcsfuse/volumes: "true" to the pod template',
                )


@invariant("shared-memory", applies_to=PODS, source=ACCELERATORS)
def shared_memory_is_mounted(bundle: LintBundle) -> Iterator[Finding]:
    """Pods with several GPUs mount /dev/shm in memory, no larger than the machine's."""
    for pod in bundle.pods:
        is_shared = "/dev/shm" in pod.mounts or pod.spec["hostIPC"].is_true
        if pod.gpu_count > 1 and not is_shared:
            yield pod.template.warning(
                "several GPUs and 64 MiB of shared memory: NCCL and data loaders fail",
                "mount an emptyDir with medium: Memory at /dev/shm",
            )
        machine = pod.machine or (bundle.machine(pod.fabric.name) if pod.fabric else None)
        machine = machine or max(bundle.machines, key=lambda row: row.memory_bytes)
        for volume in pod.spec["volumes"].items:
            size = volume.at("emptyDir", "sizeLimit")
            is_memory = volume.at("emptyDir", "medium").text == "Memory"
            if is_memory and quantity(size.value) > machine.memory_bytes > 0.0:
                yield size.warning(
                    f"{size.text} of shared memory, and {machine.name} has "
                    f"{machine.memory_bytes / 2.0**30:.0f}Gi",
                    "a pod that fills it is evicted: write less than the memory limit",
                )
