"""Rules of how long machines run, and that something ends them."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.provision.invariants.bundle import Bundle, Hit
from gpuyard.provision.part import View, duration_s

__all__ = ["ends_by_itself", "gpu_host_terminates", "run_is_short_enough"]

MINUTE_S, DAY_S = 60, 86_400
SHORTEST_S, LONGEST_S = 10 * MINUTE_S, 7 * DAY_S


def run_is_short_enough(bundle: Bundle) -> Iterator[Hit]:
    """Flex-start runs for ten minutes to seven days."""
    for request in bundle.of("InstanceGroupManagerResizeRequest"):
        view = request["requestedRunDuration"]
        yield from _within(view, duration_s(view), "a resize request")
        if not request["resizeBy"].is_set and not request["instances"].is_set:
            yield Hit(view=request, what="the resize request asks for no machines", fix="add resizeBy")
    for capacity in bundle.capacities:
        if {"flex-start", "queued"} & set(capacity.offers):
            yield from _within(capacity.view, capacity.max_run_s, "flex-start")
    for pod in bundle.pods:
        view = pod.owner.root.at("metadata", "annotations", "provreq.kueue.x-k8s.io/maxRunDurationSeconds")
        yield from _within(view, view.number, "queued provisioning")


def _within(view: View, seconds: float | None, what: str) -> Iterator[Hit]:
    """Ten minutes to seven days."""
    if seconds is not None and not SHORTEST_S <= seconds <= LONGEST_S:
        text = f"{what} runs for 10 minutes to 7 days, not for {seconds:g} s"
        yield Hit(view=view, what=text, fix=f"write {SHORTEST_S} to {LONGEST_S} seconds")


def ends_by_itself(bundle: Bundle) -> Iterator[Hit]:
    """Everything that is billed has an end that the server keeps, also when our process dies."""
    for capacity in bundle.capacities:
        if capacity.has_end or (capacity.machine and not _is_accelerated(bundle, capacity.machine)):
            continue
        yield Hit(view=capacity.view, what="billed until somebody ends it", fix=END[capacity.kind], severity="warning")
    for reservation in bundle.of("Reservation"):
        if not (reservation["deleteAfterDuration"].is_set or reservation["deleteAtTime"].is_set):
            what = "a reservation is billed until it is deleted, used or not"
            yield Hit(view=reservation, what=what, fix="add deleteAfterDuration or deleteAtTime", severity="warning")
    seen: set[int] = set()
    for pod in bundle.pods:
        if pod.is_batch and pod.gpu_count and id(pod.owner) not in seen:
            seen.add(id(pod.owner))
            yield from _job_end(pod.owner.root, pod.spec)


END = {
    "instance": 'add scheduling.maxRunDuration and "instanceTerminationAction": "DELETE"',
    "node-pool": "add config.maxRunDuration, or autoscaling with a least size of 0",
    "worker-pool": "add jobSpec.scheduling.timeout (the default is 7 days)",
    "endpoint": "add maxReplicaCount",
    "tpu": "add queueingPolicy.validUntilDuration",
}


def _job_end(root: View, pod: View) -> Iterator[Hit]:
    """A job has a deadline, or is cleaned up when it ends."""
    spec = root["spec"]
    job = spec.at("replicatedJobs").items[0].at("template", "spec") if spec["replicatedJobs"].items else spec
    places = (spec, job, pod)
    if root["kind"].text == "Pod" or any(place["activeDeadlineSeconds"].is_set for place in places):
        return
    if not any(place["ttlSecondsAfterFinished"].is_set for place in places):
        fix = "add activeDeadlineSeconds or ttlSecondsAfterFinished"
        yield Hit(view=spec, what="a GPU job that hangs is never ended", fix=fix, severity="warning")


def gpu_host_terminates(bundle: Bundle) -> Iterator[Hit]:
    """Instances with accelerators cannot be moved while they run."""
    for capacity in bundle.capacities:
        if capacity.kind != "instance" or not _is_accelerated(bundle, capacity.machine):
            continue
        view = capacity.view.at("scheduling", "onHostMaintenance")
        if view.text != "TERMINATE":
            what = f"{capacity.machine} cannot migrate live"
            yield Hit(view=view, what=what, fix='set "onHostMaintenance": "TERMINATE"')


def _is_accelerated(bundle: Bundle, name: str) -> bool:
    """A machine type with accelerators."""
    machine = bundle.machine(name)
    return machine is not None and machine.is_accelerated
