"""Invariants of run durations and TTLs: what is billed must end without gpuyard."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.errors import Finding
from gpuyard.provision.artefact_document import ArtefactDocument, ValueView, duration_s
from gpuyard.provision.invariants.lint_bundle import LintBundle, invariant
from gpuyard.provision.invariants.sources import MACHINES, SAFETY
from gpuyard.units import MINUTE_S, WEEK_S

MIN_RUN_S = 10 * MINUTE_S
MAX_RUN_S = WEEK_S
QUEUED_RUN_DURATION = "provreq.kueue.x-k8s.io/maxRunDurationSeconds"
TTL_FIXES = {
    "instance": 'add scheduling.maxRunDuration and "instanceTerminationAction": "DELETE"',
    "node-pool": "add config.maxRunDuration, or autoscaling with a minimum of 0",
    "worker-pool": "add jobSpec.scheduling.timeout (the default is 7 days)",
    "endpoint": "add maxReplicaCount",
    "tpu": "add queueingPolicy.validUntilDuration",
}


@invariant(
    "run-length",
    applies_to="ResizeRequest, flex-start, queued jobs",
    source="Dynamic Workload Scheduler docs",
)
def run_duration_is_in_range(bundle: LintBundle) -> Iterator[Finding]:
    """Run durations are between ten minutes and seven days."""
    for request in bundle.of_kind("InstanceGroupManagerResizeRequest"):
        view = request["requestedRunDuration"]
        yield from _in_range(view, duration_s(view), "resize request")
        if not request["resizeBy"].is_set and not request["instances"].is_set:
            yield request.error("the resize request requests no machines", "add resizeBy")
    for capacity in bundle.capacities:
        if {"flex-start", "queued"} & set(capacity.consumption):
            yield from _in_range(capacity.view, capacity.max_run_s, "flex-start")
    for pod in bundle.pods:
        view = pod.owner.root.at("metadata", "annotations", QUEUED_RUN_DURATION)
        yield from _in_range(view, view.number, "queued provisioning")


def _in_range(view: ValueView, seconds: float | None, subject: str) -> Iterator[Finding]:
    if seconds is not None and not MIN_RUN_S <= seconds <= MAX_RUN_S:
        yield view.error(
            f"{subject}: run duration is {seconds:g} s, not between 10 minutes and 7 days",
            f"write {MIN_RUN_S} to {MAX_RUN_S} seconds",
        )


@invariant("has-an-end", applies_to=f"{MACHINES}; Reservation; GPU jobs", source=SAFETY)
def billed_resource_has_ttl(bundle: LintBundle) -> Iterator[Finding]:
    """What is billed has a TTL that the provider enforces."""
    for capacity in bundle.capacities:
        if capacity.has_ttl or (capacity.machine and not _is_accelerated(bundle, capacity.machine)):
            continue
        what = "no TTL is set: billed until somebody deletes it"
        yield capacity.view.warning(what, TTL_FIXES[capacity.kind])
    for reservation in bundle.of_kind("Reservation"):
        if not (reservation["deleteAfterDuration"].is_set or reservation["deleteAtTime"].is_set):
            yield reservation.warning(
                "a reservation is billed until it is deleted, used or not",
                "add deleteAfterDuration or deleteAtTime",
            )
    checked: set[int] = set()
    for pod in bundle.pods:
        if pod.is_batch and pod.gpu_count and id(pod.owner) not in checked:
            checked.add(id(pod.owner))
            yield from _job_deadline(pod.owner, pod.spec)


def _job_deadline(owner: ArtefactDocument, pod_spec: ValueView) -> Iterator[Finding]:
    spec = owner.root["spec"]
    replicated = spec["replicatedJobs"].items
    job_spec = replicated[0].at("template", "spec") if replicated else spec
    keys = ("activeDeadlineSeconds", "ttlSecondsAfterFinished")
    is_limited = any(view[key].is_set for view in (spec, job_spec, pod_spec) for key in keys)
    if owner.root["kind"].text != "Pod" and not is_limited:
        yield spec.warning("a GPU job that hangs is never stopped", f"add {' or '.join(keys)}")


@invariant(
    "service-end", applies_to="Deployment, LeaderWorkerSet with their NodePool", source=SAFETY
)
def service_ends_before_its_nodes(bundle: LintBundle) -> Iterator[Finding]:
    """A service whose nodes have a run duration is deleted by a CronJob or Job when it expires."""
    pools = [pool for pool in bundle.of_kind("NodePool") if _has_run_duration(pool)]
    ended = [
        container["args"].texts
        for job in bundle.of_kind("CronJob")
        for container in job.at(
            "spec", "jobTemplate", "spec", "template", "spec", "containers"
        ).items
        if "delete" in container["args"].texts
    ]
    for service in bundle.of_kind("Deployment", "LeaderWorkerSet"):
        name = service.at("metadata", "name").text
        is_ended = any(text.endswith(f"/{name}") for texts in ended for text in texts)
        if pools and not is_ended:
            yield service.warning(
                f"{name} does not end: the autoscaler replaces every node that reaches its "
                "maxRunDuration, so the cost has no maximum",
                "add a CronJob that deletes the service, or remove maxRunDuration",
            )


def _has_run_duration(pool: ValueView) -> bool:
    is_flex = pool.at("config", "flexStart").is_true
    return pool.at("config", "maxRunDuration").is_set and not is_flex


@invariant(
    "host-maintenance",
    applies_to="Instance, InstanceTemplate",
    source="Compute Engine: GPU host maintenance",
)
def accelerator_host_terminates(bundle: LintBundle) -> Iterator[Finding]:
    """Machines with accelerators set onHostMaintenance to TERMINATE."""
    for capacity in bundle.capacities:
        is_accelerated = _is_accelerated(bundle, capacity.machine)
        attached = capacity.view["guestAccelerators"].items
        if capacity.kind != "instance" or not (is_accelerated or attached):
            continue
        view = capacity.view.at("scheduling", "onHostMaintenance")
        if view.text != "TERMINATE":
            what = f"{capacity.machine} cannot live-migrate"
            yield view.error(what, 'set "onHostMaintenance": "TERMINATE"')


def _is_accelerated(bundle: LintBundle, name: str) -> bool:
    machine = bundle.machine(name)
    return machine is not None and machine.is_accelerated
