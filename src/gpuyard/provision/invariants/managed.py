"""Rules of managed platforms: Vertex AI, Cloud Run, Cluster Director, and groups of Compute Engine."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.document import Plain
from gpuyard.errors import InputError, nearest
from gpuyard.provision.invariants.bundle import Bundle, Hit
from gpuyard.provision.part import View
from gpuyard.units import BYTES, parse, show

__all__ = [
    "cloud_run_has_a_large_host",
    "cloud_run_is_bounded",
    "director_cluster_is_whole",
    "endpoint_keeps_a_replica",
    "group_has_one_policy",
    "vertex_flex_pools_are_alike",
    "vertex_primary_is_one",
]

GPU = "nvidia.com/gpu"


def vertex_primary_is_one(bundle: Bundle) -> Iterator[Hit]:
    """The first worker pool of a Vertex AI job is one replica."""
    for job in bundle.of("CustomJob"):
        pools = job.at("jobSpec", "workerPoolSpecs").items
        if pools and pools[0]["replicaCount"].number != 1:
            view = pools[0]["replicaCount"]
            what = f"the primary pool has {view.value if view.is_set else 'no'} replicas"
            yield Hit(view=view, what=what, fix="set replicaCount to 1, and put the others into the second pool")


def vertex_flex_pools_are_alike(bundle: Bundle) -> Iterator[Hit]:
    """Under FLEX_START all pools have the same machine."""
    for job in bundle.of("CustomJob"):
        specs: list[Plain] = [
            {key: view.value for key, view in pool["machineSpec"].pairs}
            for pool in job.at("jobSpec", "workerPoolSpecs").items
        ]
        if job.at("jobSpec", "scheduling", "strategy").text == "FLEX_START" and any(spec != specs[0] for spec in specs):
            view = job.at("jobSpec", "workerPoolSpecs")
            yield Hit(view=view, what="FLEX_START with different machines", fix="give all pools the same machineSpec")


def endpoint_keeps_a_replica(bundle: Bundle) -> Iterator[Hit]:
    """A deployed model has at least one replica, not more than its most, and its traffic adds up."""
    for request in bundle.of("DeployModelRequest"):
        resources = request.at("deployedModel", "dedicatedResources")
        least, most = resources["minReplicaCount"].number, resources["maxReplicaCount"].number
        if resources.is_set and (least is None or least < 1):
            yield Hit(view=resources["minReplicaCount"], what="minReplicaCount is below 1", fix="write 1 or more")
        if least is not None and most is not None and most < least:
            yield Hit(
                view=resources["maxReplicaCount"], what="maxReplicaCount is below minReplicaCount", fix="raise it"
            )
        shares = [view.number or 0 for _, view in request["trafficSplit"].pairs]
        if shares and sum(shares) != 100:
            what = f"the traffic adds up to {sum(shares):g}"
            yield Hit(view=request["trafficSplit"], what=what, fix="make it 100")


def _run_templates(bundle: Bundle) -> Iterator[tuple[View, View, View]]:
    """Pod-like templates of Cloud Run in both forms: the template, the containers and the node selector."""
    for part in bundle.parts:
        root = part.root
        if part.type in ("run.v2 Service", "run.v2 WorkerPool"):
            template = root["template"]
            yield template, template["containers"], template["nodeSelector"]
        elif part.type == "run.v2 Job":
            template = root.at("template", "template")
            yield template, template["containers"], template["nodeSelector"]
        elif part.type == "run.v1 Service":
            spec = root.at("spec", "template", "spec")
            yield spec, spec["containers"], spec["nodeSelector"]
        elif part.type == "run.v1 Job":
            spec = root.at("spec", "template", "spec", "template", "spec")
            yield spec, spec["containers"], spec["nodeSelector"]


def cloud_run_has_a_large_host(bundle: Bundle) -> Iterator[Hit]:
    """Cloud Run: one GPU, on one container, with a host that is large enough, and always billed."""
    for template, containers, selector in _run_templates(bundle):
        holders = [box for box in containers.items if box.at("resources", "limits", GPU).is_set]
        accelerator = (
            selector["accelerator"] if selector["accelerator"].is_set else selector["run.googleapis.com/accelerator"]
        )
        if not holders and not accelerator.text:
            continue
        if not holders:
            what = f"{accelerator.text} is chosen and no container asks for it"
            yield Hit(view=template, what=what, fix='add resources.limits: {"nvidia.com/gpu": "1"}')
            continue
        if len(holders) > 1 or holders[0].at("resources", "limits", GPU).number != 1:
            what = "Cloud Run gives one GPU an instance, to one container"
            yield Hit(view=holders[0], what=what, fix='ask for "1" in one container')
        yield from _floor(bundle, template, holders[0], accelerator)


def _floor(bundle: Bundle, template: View, holder: View, accelerator: View) -> Iterator[Hit]:
    """CPUs, memory and billing of the container with the GPU."""
    floors = {row.name: row for row in bundle.facts.cloud_run}
    row = floors.get(accelerator.text)
    if row is None:
        meant = nearest(accelerator.text, floors)
        fix = f'use "{meant}"' if meant else f"use {' or '.join(floors)}"
        what = f'Cloud Run has no accelerator "{accelerator.text}"' if accelerator.text else "no accelerator is chosen"
        yield Hit(view=accelerator if accelerator.text else template, what=what, fix=fix)
        return
    resources = holder["resources"]
    cpu, memory = resources.at("limits", "cpu"), resources.at("limits", "memory")
    if (_cpus(cpu) or 0) < row.min_cpu_count:
        what = f"{row.name} comes with {row.min_cpu_count} CPUs at least, not {cpu.value or 'the default'}"
        yield Hit(view=cpu, what=what, fix=f'write "{row.min_cpu_count}"')
    if (_memory_bytes(memory) or 0) < row.min_memory_bytes:
        least = show(row.min_memory_bytes, BYTES)
        what = f"{row.name} comes with {least} at least, not {memory.value or 'the default'}"
        yield Hit(view=memory, what=what, fix=f"write {row.min_memory_bytes / 2**30:g}Gi")
    is_service = template.part.type == "run.v2 Service"
    if is_service and resources["cpuIdle"].value is not False:
        what = "an instance with a GPU is billed while it lives, not by request"
        yield Hit(view=resources["cpuIdle"], what=what, fix="set cpuIdle to false")


def _cpus(view: View) -> float | None:
    """CPUs as `4` or `4000m`."""
    found = re.fullmatch(r"(\d+)m", view.text)
    return float(found.group(1)) / 1000 if found else view.number


def _memory_bytes(view: View) -> float | None:
    """Memory as Kubernetes writes it: 16Gi, 16G, or a plain number."""
    if view.number is not None:
        return view.number
    try:
        return parse(re.sub(r"^([\d.]+)([KMGTP]i?)$", r"\1\2B", view.text), BYTES)
    except (InputError, ValueError):
        return None


def cloud_run_is_bounded(bundle: Bundle) -> Iterator[Hit]:
    """A service with GPUs names the most instances, and a job its end."""
    for template, containers, _ in _run_templates(bundle):
        if not any(box.at("resources", "limits", GPU).is_set for box in containers.items):
            continue
        root, kind = template.part.root, template.part.type
        annotations = root.at("spec", "template", "metadata", "annotations")
        bounds = {
            "run.v2 Service": (
                root.at("template", "scaling", "maxInstanceCount"),
                root.at("scaling", "maxInstanceCount"),
            ),
            "run.v1 Service": (annotations["autoscaling.knative.dev/maxScale"],),
            "run.v2 Job": (template["timeout"],),
            "run.v1 Job": (template["timeoutSeconds"],),
        }.get(kind, ())
        if bounds and not any(view.is_set for view in bounds):
            what = "nothing bounds what it can cost"
            yield Hit(view=template, what=what, fix=f"set {bounds[0].path.rsplit('.', 1)[-1]}", severity="warning")


def director_cluster_is_whole(bundle: Bundle) -> Iterator[Hit]:
    """A Cluster Director cluster has one network, a default among several partitions, and ids that exist."""
    for cluster in bundle.of("DirectorCluster"):
        slurm = cluster.at("orchestrator", "slurm")
        if len(cluster["networkResources"].pairs) != 1:
            what = f"{len(cluster['networkResources'].pairs)} network resources; a cluster has exactly one"
            yield Hit(view=cluster["networkResources"], what=what, fix="give one")
        partitions = [row["id"].text for row in slurm["partitions"].items]
        default = slurm["defaultPartition"]
        if len(partitions) > 1 and not default.text:
            yield Hit(view=slurm, what="several partitions and no default", fix="add defaultPartition")
        if default.text and default.text not in partitions:
            yield Hit(view=default, what=f'there is no partition "{default.text}"', fix="name one of the partitions")
        sets = {row["id"].text for row in slurm["nodeSets"].items}
        storage = {key for key, _ in cluster["storageResources"].pairs}
        compute = {key for key, _ in cluster["computeResources"].pairs}
        for row in slurm["partitions"].items:
            yield from _known(row["nodeSetIds"].items, sets, "node set")
        for row in slurm["nodeSets"].items:
            yield from _known((row["computeId"],), compute, "compute resource")
            yield from _known(tuple(mount["id"] for mount in row["storageConfigs"].items), storage, "storage resource")
        login = slurm.at("loginNodes", "storageConfigs").items
        yield from _known(tuple(mount["id"] for mount in login), storage, "storage resource")


def _known(views: tuple[View, ...], names: set[str], kind: str) -> Iterator[Hit]:
    """Ids that lead somewhere."""
    for view in views:
        if view.text not in names:
            meant = nearest(view.text, names)
            fix = f'use "{meant}"' if meant else "add it"
            yield Hit(view=view, what=f'there is no {kind} "{view.text}"', fix=fix)


def group_has_one_policy(bundle: Bundle) -> Iterator[Hit]:
    """A group with a workload policy uses a template without placement; one of A4X names its accelerator topology."""
    templates = {
        part.name: part.root["properties"] for part in bundle.parts if part.type == "compute.v1 InstanceTemplate"
    }
    policies = {view["name"].text: view for view in bundle.of("ResourcePolicy")}
    for group in bundle.of("InstanceGroupManager"):
        named = group.at("resourcePolicies", "workloadPolicy")
        template = templates.get(group["instanceTemplate"].text.rsplit("/", 1)[-1])
        placed = template["resourcePolicies"].texts if template else ()
        if named.text and placed:
            what = f"a workload policy on the group and {', '.join(placed)} on its template"
            yield Hit(view=named, what=what, fix="remove the placement policy from the template")
        machine = template["machineType"].text.rsplit("/", 1)[-1] if template else ""
        policy = policies.get(named.text.rsplit("/", 1)[-1])
        topology = policy.at("workloadPolicy", "acceleratorTopology") if policy else None
        if machine.startswith("a4x-") and (not named.text or (topology is not None and not topology.text)):
            what = f"a group of {machine} needs a workload policy with acceleratorTopology"
            yield Hit(view=topology or group, what=what, fix='set acceleratorTopology, e.g. "1x72"')
