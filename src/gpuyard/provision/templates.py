"""Pod templates inside Kubernetes objects of any kind."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.provision.artefact_document import ArtefactDocument, ValueView


def pod_templates(document: ArtefactDocument) -> Iterator[tuple[ValueView, float, bool]]:
    """Yield each pod template, the number of pods that run at once, and whether it is a batch job.

    Replicas of a server do not communicate, so a Deployment counts as one pod.
    """
    kind = document.kind_name
    root = document.root
    spec = root["spec"]
    if kind == "Pod":
        yield root, 1, spec["restartPolicy"].text in ("Never", "OnFailure")
    elif kind == "Job":
        yield spec["template"], spec["parallelism"].number or 1, True
    elif kind == "CronJob":
        job = spec.at("jobTemplate", "spec")
        yield job["template"], job["parallelism"].number or 1, True
    elif kind in ("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet"):
        yield spec["template"], 1, False
    elif kind == "JobSet":
        for job in spec["replicatedJobs"].items:
            inner = job.at("template", "spec")
            count = (job["replicas"].number or 1) * (inner["parallelism"].number or 1)
            yield inner["template"], count, True
    elif kind == "LeaderWorkerSet":
        size = spec.at("leaderWorkerTemplate", "size").number or 1
        for name in ("leaderTemplate", "workerTemplate"):
            if (template := spec.at("leaderWorkerTemplate", name)).is_set:
                yield template, size, False
    elif kind in ("RayCluster", "RayJob", "RayService"):
        key = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}.get(kind)
        cluster = spec[key] if key else spec
        yield cluster.at("headGroupSpec", "template"), 1, kind == "RayJob"
        for group in cluster["workerGroupSpecs"].items:
            replicas = group["maxReplicas"].number or group["replicas"].number or 1
            yield group["template"], replicas * (group["numOfHosts"].number or 1), kind == "RayJob"
