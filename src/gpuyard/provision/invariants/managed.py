"""Invariants of managed platforms: Vertex AI, Cloud Run, Cluster Director, instance groups."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from gpuyard.errors import Finding, InputError, closest_match
from gpuyard.provision.artefact_document import ValueView
from gpuyard.provision.invariants.lint_bundle import LintBundle, invariant
from gpuyard.provision.invariants.pods import GPU
from gpuyard.provision.invariants.sources import API, SAFETY
from gpuyard.units import BYTES, parse, show


@invariant("vertex-primary", applies_to="CustomJob", source=API)
def vertex_primary_pool_has_one_replica(bundle: LintBundle) -> Iterator[Finding]:
    """The first worker pool has one replica."""
    for job in bundle.of_kind("CustomJob"):
        pools = job.at("jobSpec", "workerPoolSpecs").items
        if pools and pools[0]["replicaCount"].number != 1:
            replicas = pools[0]["replicaCount"]
            yield replicas.error(
                f"the primary pool has {replicas.value if replicas.is_set else 'no'} replicas",
                "set replicaCount to 1, and put the others into the second pool",
            )


@invariant("vertex-flex", applies_to="CustomJob", source="Vertex AI: Flex-start")
def vertex_flex_start_pools_match(bundle: LintBundle) -> Iterator[Finding]:
    """FLEX_START: all worker pools have the same machine."""
    for job in bundle.of_kind("CustomJob"):
        pools = job.at("jobSpec", "workerPoolSpecs")
        specs = [pool["machineSpec"].value or {} for pool in pools.items]
        is_flex_start = job.at("jobSpec", "scheduling", "strategy").text == "FLEX_START"
        if is_flex_start and any(spec != specs[0] for spec in specs):
            yield pools.error(
                "FLEX_START with different machines", "use the same machineSpec in all pools"
            )


@invariant("endpoint-replicas", applies_to="DeployModelRequest", source=API)
def endpoint_has_replicas(bundle: LintBundle) -> Iterator[Finding]:
    """A deployed model has at least one replica, and its traffic adds up to 100."""
    for request in bundle.of_kind("DeployModelRequest"):
        resources = request.at("deployedModel", "dedicatedResources")
        minimum = resources["minReplicaCount"]
        maximum = resources["maxReplicaCount"]
        if resources.is_set and (minimum.number is None or minimum.number < 1):
            yield minimum.error("minReplicaCount is below 1", "write 1 or more")
        is_ordered = (
            minimum.number is None or maximum.number is None or minimum.number <= maximum.number
        )
        if not is_ordered:
            yield maximum.error("maxReplicaCount is below minReplicaCount", "raise it")
        shares = [view.number or 0 for _, view in request["trafficSplit"].pairs]
        if shares and sum(shares) != 100:
            what = f"the traffic split adds up to {sum(shares):g}"
            yield request["trafficSplit"].error(what, "change it to add up to 100")


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunTemplate:
    # A Cloud Run template, and the fields that bound its cost (one of them is enough).
    view: ValueView
    bounds: tuple[ValueView, ...]

    @property
    def gpu_containers(self) -> list[ValueView]:
        boxes = self.view["containers"].items
        return [box for box in boxes if box.at("resources", "limits", GPU).is_set]


def _run_templates(bundle: LintBundle) -> Iterator[_RunTemplate]:
    for document in bundle.documents:
        root = document.root
        if document.type in ("run.v2 Service", "run.v2 WorkerPool"):
            view = root["template"]
            bounds = (
                view.at("scaling", "maxInstanceCount"),
                root.at("scaling", "maxInstanceCount"),
            )
            yield _RunTemplate(view=view, bounds=bounds if document.kind_name == "Service" else ())
        elif document.type == "run.v2 Job":
            view = root.at("template", "template")
            yield _RunTemplate(view=view, bounds=(view["timeout"],))
        elif document.type == "run.v1 Service":
            template = root.at("spec", "template")
            max_scale = template.at("metadata", "annotations", "autoscaling.knative.dev/maxScale")
            yield _RunTemplate(view=template["spec"], bounds=(max_scale,))
        elif document.type == "run.v1 Job":
            view = root.at("spec", "template", "spec", "template", "spec")
            yield _RunTemplate(view=view, bounds=(view["timeoutSeconds"],))


@invariant(
    "cloud-run-host",
    applies_to="Cloud Run service, job, worker pool",
    source="Cloud Run: GPU support (2026-04-08)",
)
def cloud_run_host_is_large_enough(bundle: LintBundle) -> Iterator[Finding]:
    """One GPU; L4: 4 CPUs, 16 GiB; RTX PRO 6000: 20 CPUs, 80 GiB; billed by instance."""
    for template in _run_templates(bundle):
        selector = template.view["nodeSelector"]
        accelerator = selector["accelerator"]
        if not accelerator.is_set:
            accelerator = selector["run.googleapis.com/accelerator"]
        containers = template.gpu_containers
        if not containers:
            if accelerator.text:
                yield template.view.error(
                    f"{accelerator.text} is selected and no container requests it",
                    'add resources.limits: {"nvidia.com/gpu": "1"}',
                )
            continue
        if len(containers) > 1 or containers[0].at("resources", "limits", GPU).number != 1:
            yield containers[0].error(
                "a Cloud Run instance has one GPU, for one container",
                'request "1" in one container',
            )
        yield from _cloud_run_host(bundle, template.view, containers[0], accelerator)


def _cloud_run_host(
    bundle: LintBundle, template: ValueView, container: ValueView, accelerator: ValueView
) -> Iterator[Finding]:
    minimums = {row.name: row for row in bundle.facts.cloud_run}
    minimum = minimums.get(accelerator.text)
    if minimum is None:
        match = closest_match(accelerator.text, minimums)
        fix = f'use "{match}"' if match else f"use {' or '.join(minimums)}"
        if accelerator.text:
            yield accelerator.error(f'Cloud Run has no accelerator "{accelerator.text}"', fix)
        else:
            yield template.error("no accelerator is selected", fix)
        return
    resources = container["resources"]
    cpu = resources.at("limits", "cpu")
    memory = resources.at("limits", "memory")
    if (_cpu_count(cpu) or 0) < minimum.min_cpu_count:
        yield cpu.error(
            f"{minimum.name} needs at least {minimum.min_cpu_count} CPUs, "
            f"not {cpu.value or 'the default'}",
            f'write "{minimum.min_cpu_count}"',
        )
    if (_memory_bytes(memory) or 0) < minimum.min_memory_bytes:
        yield memory.error(
            f"{minimum.name} needs at least {show(minimum.min_memory_bytes, BYTES)}, "
            f"not {memory.value or 'the default'}",
            f"write {minimum.min_memory_bytes / 2**30:g}Gi",
        )
    is_service = template.document.type == "run.v2 Service"
    if is_service and resources["cpuIdle"].value is not False:
        yield resources["cpuIdle"].error(
            "an instance with a GPU is billed by instance, not by request", "set cpuIdle to false"
        )


def _cpu_count(view: ValueView) -> float | None:
    match = re.fullmatch(r"(\d+)m", view.text)
    return float(match.group(1)) / 1000 if match else view.number


def _memory_bytes(view: ValueView) -> float | None:
    # Kubernetes writes 16Gi or 16G, without the B.
    if view.number is not None:
        return view.number
    try:
        return parse(re.sub(r"^([\d.]+)([KMGTP]i?)$", r"\1\2B", view.text), BYTES)
    except (InputError, ValueError):
        return None


@invariant("cloud-run-bound", applies_to="Cloud Run service, job", source=SAFETY)
def cloud_run_cost_is_bounded(bundle: LintBundle) -> Iterator[Finding]:
    """A service with GPUs sets the maximum number of instances, a job its timeout."""
    for template in _run_templates(bundle):
        bounds = template.bounds
        if template.gpu_containers and bounds and not any(view.is_set for view in bounds):
            key = bounds[0].path.rsplit(".", 1)[-1]
            yield template.view.warning("nothing bounds its cost", f"set {key}")


@invariant("director-cluster", applies_to="Cluster Director cluster", source=API)
def director_cluster_is_complete(bundle: LintBundle) -> Iterator[Finding]:
    """One network, a default partition if there are several, and ids that exist."""
    for cluster in bundle.of_kind("DirectorCluster"):
        networks = cluster["networkResources"]
        if len(networks.pairs) != 1:
            what = f"{len(networks.pairs)} network resources; a cluster has exactly one"
            yield networks.error(what, "define one")
        slurm = cluster.at("orchestrator", "slurm")
        yield from _default_partition(slurm)
        node_sets = {row["id"].text for row in slurm["nodeSets"].items}
        storage = {key for key, _ in cluster["storageResources"].pairs}
        compute = {key for key, _ in cluster["computeResources"].pairs}
        for row in slurm["partitions"].items:
            yield from _exist(row["nodeSetIds"].items, node_sets, "node set")
        for row in slurm["nodeSets"].items:
            yield from _exist((row["computeId"],), compute, "compute resource")
        for row in (*slurm["nodeSets"].items, slurm["loginNodes"]):
            ids = tuple(mount["id"] for mount in row["storageConfigs"].items)
            yield from _exist(ids, storage, "storage resource")


def _default_partition(slurm: ValueView) -> Iterator[Finding]:
    partitions = [row["id"].text for row in slurm["partitions"].items]
    default = slurm["defaultPartition"]
    if len(partitions) > 1 and not default.text:
        yield slurm.error("several partitions and no default", "add defaultPartition")
    if default.text and default.text not in partitions:
        yield default.error(f'unknown partition "{default.text}"', "name one of the partitions")


def _exist(views: tuple[ValueView, ...], names: Collection[str], kind: str) -> Iterator[Finding]:
    for view in views:
        if view.text not in names:
            match = closest_match(view.text, names)
            fix = f'use "{match}"' if match else "add it"
            yield view.error(f'unknown {kind} "{view.text}"', fix)


@invariant(
    "one-policy",
    applies_to="InstanceGroupManager with its template",
    source="Compute Engine: workload policies",
)
def group_has_one_policy(bundle: LintBundle) -> Iterator[Finding]:
    """A group has a workload policy or a placement policy; A4X sets acceleratorTopology."""
    templates = {
        document.name: document.root["properties"]
        for document in bundle.documents
        if document.type == "compute.v1 InstanceTemplate"
    }
    policies = {view["name"].text: view for view in bundle.of_kind("ResourcePolicy")}
    for group in bundle.of_kind("InstanceGroupManager"):
        template = templates.get(group["instanceTemplate"].last_segment)
        policy_name = group.at("resourcePolicies", "workloadPolicy")
        placement = template["resourcePolicies"].texts if template else ()
        if policy_name.text and placement:
            yield policy_name.error(
                f"a workload policy on the group and {', '.join(placement)} on its template",
                "remove the placement policy from the template",
            )
        machine = template["machineType"].last_segment if template else ""
        policy = policies.get(policy_name.last_segment)
        topology = policy.at("workloadPolicy", "acceleratorTopology") if policy else None
        lacks_topology = topology is not None and not topology.text
        if machine.startswith("a4x-") and (not policy_name.text or lacks_topology):
            yield (topology or group).error(
                f"a group of {machine} needs a workload policy with acceleratorTopology",
                'set acceleratorTopology, e.g. "1x72"',
            )
