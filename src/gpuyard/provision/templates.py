"""Where the pods of a Kubernetes object are described, whatever its kind."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.provision.part import Part, View

__all__ = ["pod_templates"]


def pod_templates(part: Part) -> Iterator[tuple[View, float, bool]]:
    """Pod templates with the pods that run at once and whether they end."""
    kind, root = part.type.rsplit(" ", 1)[1], part.root
    spec = root["spec"]
    if kind == "Pod":
        yield root, 1, spec["restartPolicy"].text in ("Never", "OnFailure")
    elif kind == "Job":
        yield spec["template"], spec["parallelism"].number or 1, True
    elif kind == "CronJob":
        job = spec.at("jobTemplate", "spec")
        yield job["template"], job["parallelism"].number or 1, True
    elif kind in ("Deployment", "StatefulSet", "ReplicaSet"):
        yield spec["template"], 1, False  # replicas of a server do not speak to each other
    elif kind == "DaemonSet":
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
        cluster = {"RayJob": spec["rayClusterSpec"], "RayService": spec["rayClusterConfig"]}.get(kind, spec)
        yield cluster.at("headGroupSpec", "template"), 1, kind == "RayJob"
        for group in cluster["workerGroupSpecs"].items:
            most = group["maxReplicas"].number or group["replicas"].number or 1
            yield group["template"], most * (group["numOfHosts"].number or 1), kind == "RayJob"
