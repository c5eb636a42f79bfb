"""Invariants of machine types: accelerators, GKE versions, boot disks, node images, A4X racks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.catalog.machines import Machine
from gpuyard.errors import Finding, choices_text, closest_match
from gpuyard.provision.artefact_document import ValueView
from gpuyard.provision.invariants.facts import gke_version
from gpuyard.provision.invariants.lint_bundle import LintBundle, invariant
from gpuyard.provision.invariants.pods import ACCELERATOR, MACHINE_TYPE, PodTemplate
from gpuyard.provision.invariants.sources import CATALOG, GKE, MACHINES, PODS, TOOLKIT
from gpuyard.provision.invariants.workstations import is_workstation_type
from gpuyard.provision.validate.blueprint import blueprint_modules, resolved_setting
from gpuyard.provision.validate.schema import is_placeholder_name

ACCELERATED = re.compile(r"(a[234]x?|g[24])-")
# Series without Persistent Disk (docs.cloud.google.com/compute/docs/disks/hyperdisks, 2026-11).
HYPERDISK_ONLY = re.compile(r"(a4x?|c4[ad]?|g4|h4d|n4)-")


@invariant(
    "gpus-agree",
    applies_to="NodePool, Instance, CustomJob, DeployModelRequest",
    source=CATALOG,
)
def accelerators_match_machine(bundle: LintBundle) -> Iterator[Finding]:
    """Accelerator type and count are those of the machine type."""
    for pool in bundle.of_kind("NodePool"):
        config = pool["config"]
        if machine := bundle.machine(config["machineType"].text):
            yield from _pool_accelerators(config, machine)
    for properties in bundle.of_kind("InstanceProperties"):
        machine = bundle.machine(properties["machineType"].last_segment)
        for row in properties["guestAccelerators"].items if machine else ():
            assert machine is not None
            kind = row["acceleratorType"]
            # Workstation accelerators have their own invariant.
            expected = kind.last_segment if is_workstation_type(kind) else machine.api_name
            yield from _accelerator_type(machine, kind, expected)
            yield from _accelerator_count(machine, row["acceleratorCount"])
    yield from _unknown_accelerators(bundle)
    for spec in _vertex_machine_specs(bundle):
        machine = bundle.machine(spec["machineType"].text)
        if machine and _has_gpus(machine):
            yield from _vertex_accelerators(spec, machine)


def _unknown_accelerators(bundle: LintBundle) -> Iterator[Finding]:
    # Of N1 machines, whose accelerators are not part of the machine type.
    known = {row.api_name for row in bundle.machines if row.api_name.startswith("nvidia")}
    known |= {row.vws_api_name for row in bundle.machines if row.vws_api_name}
    rows = [
        *(
            row
            for view in bundle.of_kind("NodePool")
            for row in view.at("config", "accelerators").items
        ),
        *(
            row
            for view in bundle.of_kind("InstanceProperties")
            for row in view["guestAccelerators"].items
        ),
    ]
    for row in rows:
        kind = row["acceleratorType"]
        match = closest_match(kind.last_segment, known) if kind.text else None
        if kind.last_segment not in known and match:
            yield kind.error(f'no accelerator named "{kind.last_segment}"', f"write {match}")


def _pool_accelerators(config: ValueView, machine: Machine) -> Iterator[Finding]:
    for row in config["accelerators"].items:
        if row["gpuPartitionSize"].is_set or row["gpuSharingConfig"].is_set:
            continue
        yield from _accelerator_type(machine, row["acceleratorType"], machine.api_name)
        yield from _accelerator_count(machine, row["acceleratorCount"])
    if _has_gpus(machine) and not config["accelerators"].items:
        yield config.warning(
            f"{machine.name} without accelerators: GKE installs no driver",
            f"add {machine.api_name} × {machine.chip_count:g}",
        )


def _vertex_machine_specs(bundle: LintBundle) -> Iterator[ValueView]:
    for job in bundle.of_kind("CustomJob"):
        yield from (pool["machineSpec"] for pool in job.at("jobSpec", "workerPoolSpecs").items)
    for request in bundle.of_kind("DeployModelRequest"):
        yield request.at("deployedModel", "dedicatedResources", "machineSpec")


def _vertex_accelerators(spec: ValueView, machine: Machine) -> Iterator[Finding]:
    name = machine.platforms.vertex_ai
    if name is None:
        yield spec["machineType"].error(
            f"Vertex AI has no accelerator type for {machine.name}",
            "use a machine type that Vertex AI offers",
        )
        return
    if not spec["acceleratorType"].is_set:
        yield spec.error(
            f"{machine.name} needs acceleratorType", f"add {name} × {machine.chip_count:g}"
        )
        return
    yield from _accelerator_type(machine, spec["acceleratorType"], name)
    # Vertex AI places several replicas of an endpoint on one machine, each with some of its GPUs.
    count = spec["acceleratorCount"].number
    is_endpoint = spec.path.startswith("deployedModel")
    if not (is_endpoint and count is not None and 1 <= count <= machine.chip_count):
        yield from _accelerator_count(machine, spec["acceleratorCount"])


def _has_gpus(machine: Machine) -> bool:
    return machine.chip_count >= 1 and machine.api_name.startswith("nvidia")


def _accelerator_type(machine: Machine, kind: ValueView, expected: str) -> Iterator[Finding]:
    if _has_gpus(machine):
        if kind.last_segment != expected:
            what = f"{machine.name} has {expected}, not {kind.last_segment}"
            yield kind.error(what, f"write {expected}")
    elif not machine.name.startswith("n1-") and not machine.is_accelerated:
        yield kind.error(
            f"{machine.name} takes no accelerator", "use an accelerator-optimized machine type"
        )


def _accelerator_count(machine: Machine, count: ValueView) -> Iterator[Finding]:
    if _has_gpus(machine) and count.number != machine.chip_count:
        yield count.error(
            f"{machine.name} has {machine.chip_count:g} GPUs, not {count.value}",
            f"write {machine.chip_count:g}",
        )


@invariant("machine-exists", applies_to=MACHINES, source=CATALOG)
def machine_type_exists(bundle: LintBundle) -> Iterator[Finding]:
    """The machine type of an accelerator series is in the catalog."""
    known = [machine.name for machine in bundle.machines]
    for capacity in bundle.capacities:
        is_accelerated = ACCELERATED.match(capacity.machine)
        is_expression = re.search(r"\$|\(", capacity.machine)
        if is_accelerated and capacity.machine not in known and not is_expression:
            match = closest_match(capacity.machine, known)
            yield capacity.view.error(
                f'unknown machine type "{capacity.machine}"',
                f'use "{match}"' if match else "see `gpuyard catalog machines`",
            )


@invariant("pod-gpus", applies_to=f"{PODS}; ResourceFlavor", source=CATALOG)
def pod_gpus_match_node(bundle: LintBundle) -> Iterator[Finding]:
    """Accelerator label, machine type and GPU count of a pod match one node type."""
    for flavor in bundle.kubernetes("kueue.x-k8s.io", "ResourceFlavor"):
        selected = flavor.at("spec", "nodeLabels")
        if not is_placeholder_name(selected[ACCELERATOR].text):  # of a template
            yield from _node_labels(selected, bundle)
    for pod in bundle.pods:
        selector = pod.spec["nodeSelector"]
        label = selector[ACCELERATOR]
        name = selector[MACHINE_TYPE]
        unknown = tuple(_node_labels(selector, bundle))
        yield from unknown
        if (
            not unknown
            and label.text
            and pod.machine
            and name.text
            and pod.machine.api_name != label.text
        ):
            yield label.error(
                f"no node matches: {name.text} has {pod.machine.api_name}, not {label.text}",
                f'use "{pod.machine.api_name}"',
            )
        yield from _pod_gpu_count(pod, bundle, label)


def _node_labels(selector: ValueView, bundle: LintBundle) -> Iterator[Finding]:
    labels = {machine.api_name for machine in bundle.machines if machine.api_name}
    label, name = selector[ACCELERATOR], selector[MACHINE_TYPE]
    if is_placeholder_name(label.text):
        yield label.error(f"placeholder {label.text} is not filled in", "fill it in")
    elif label.text and label.text not in labels and not label.text.startswith("tpu"):
        match = closest_match(label.text, labels)
        yield label.error(
            f'no GKE node has the accelerator label "{label.text}"',
            f'use "{match}"' if match else f"use {choices_text(sorted(labels))}",
        )
    if ACCELERATED.match(name.text) and bundle.machine(name.text) is None:
        match = closest_match(name.text, [machine.name for machine in bundle.machines])
        fix = f'use "{match}"' if match else "see `gpuyard catalog machines`"
        yield name.error(f'unknown machine type "{name.text}"', fix)


def _pod_gpu_count(pod: PodTemplate, bundle: LintBundle, label: ValueView) -> Iterator[Finding]:
    machine = pod.machine or (bundle.machine(pod.fabric.name) if pod.fabric else None)
    if machine:
        gpus_per_node = machine.chip_count
    else:
        same = [row for row in bundle.machines if label.text and row.api_name == label.text]
        gpus_per_node = max((machine.chip_count for machine in same), default=0)
    if gpus_per_node and pod.gpu_count > gpus_per_node:
        yield pod.spec.error(
            f"{pod.gpu_count:g} GPUs in one pod; a node has at most {gpus_per_node:g}",
            "spread the work over several pods",
        )


@invariant("gke-version", applies_to="Cluster, NodePool", source=f"{TOOLKIT}; {GKE}")
def gke_version_is_supported(bundle: LintBundle) -> Iterator[Finding]:
    """Nodes have the minimum GKE version of their fabric and of DRANET."""
    clusters = tuple(bundle.of_kind("Cluster"))
    dranet = bundle.facts.feature("dranet").gke_version
    for pool in bundle.of_kind("NodePool"):
        version = pool["version"]
        if not version.text and clusters:
            version = clusters[0]["initialClusterVersion"]
        actual = gke_version(version.text)
        if actual is None or len(actual) < 2:
            continue
        fabric = bundle.facts.fabric(pool.at("config", "machineType").text)
        if fabric and (minimum := _missed_minimum(actual, fabric.gke_versions)):
            yield version.error(
                f"{fabric.label} on {fabric.name} needs GKE {minimum} or later, not {version.text}",
                f"use {minimum} or later",
            )
        uses_dranet = pool.at("networkConfig", "acceleratorNetworkProfile").text
        if uses_dranet and _missed_minimum(actual, (dranet,)):
            yield version.error(
                f"managed DRANET needs GKE {dranet} or later", f"use {dranet} or later"
            )


def _missed_minimum(actual: tuple[int, ...], versions: tuple[str, ...]) -> str:
    # A version without its patch (1.32) is only compared by minor.
    minimums = sorted((minimum, text) for text in versions if (minimum := gke_version(text)))
    for minimum, text in minimums:
        if minimum[:2] == actual[:2] and len(actual) == 4 and actual < minimum:
            return text
    return minimums[0][1] if minimums and actual[:2] < minimums[0][0][:2] else ""


@invariant("boot-disk", applies_to="NodePool, Instance, blueprint", source=GKE)
def boot_disk_is_supported(bundle: LintBundle) -> Iterator[Finding]:
    """A3 Ultra, A4 and A4X boot from Hyperdisk."""
    for pool in bundle.of_kind("NodePool"):
        config = pool["config"]
        fabric = bundle.fabric_of(config["machineType"])
        disk = config["diskType"]
        if not disk.is_set:
            disk = config.at("bootDisk", "diskType")
        if fabric and fabric.hyperdisk_only and not disk.text.startswith("hyperdisk"):
            yield disk.error(
                f"{fabric.name} does not boot from {disk.text or 'the default disk'}",
                "set diskType to hyperdisk-balanced",
            )
    for properties in bundle.of_kind("InstanceProperties"):
        fabric = bundle.fabric_of(properties["machineType"])
        for disk in properties["disks"].items if fabric and fabric.hyperdisk_only else ():
            kind = disk.at("initializeParams", "diskType")
            if disk["boot"].is_true and kind.text and "hyperdisk" not in kind.text:
                machine = properties["machineType"].last_segment
                what = f"{machine} does not boot from {kind.last_segment}"
                yield kind.error(what, "use hyperdisk-balanced")
    for document in bundle.documents:
        for module in blueprint_modules(document) if document.kind == "blueprint" else ():
            name = str(resolved_setting(module, "machine_type"))
            fabric = bundle.facts.fabric(name)
            kind = module.view.at("settings", "disk_type")
            is_hyperdisk_only = HYPERDISK_ONLY.match(name) or (fabric and fabric.hyperdisk_only)
            if is_hyperdisk_only and kind.text.startswith("pd-"):
                what = f"{name} does not boot from {kind.text}"
                yield kind.error(what, "use hyperdisk-balanced")


@invariant("node-image", applies_to="NodePool", source=GKE)
def rdma_nodes_run_cos(bundle: LintBundle) -> Iterator[Finding]:
    """GPUDirect RDMA nodes run Container-Optimized OS."""
    for pool in bundle.of_kind("NodePool"):
        fabric = bundle.fabric_of(pool.at("config", "machineType"))
        image = pool.at("config", "imageType")
        is_other = bool(image.text) and not image.text.upper().startswith("COS")
        if fabric and fabric.technology == "roce" and is_other:
            what = f"{fabric.label} does not work on {image.text} nodes"
            yield image.error(what, "use COS_CONTAINERD")


@invariant("a4x-rack", applies_to=f"{PODS}; NodePool", source=f"{GKE}; AICR docs")
def a4x_fills_racks(bundle: LintBundle) -> Iterator[Finding]:
    """A4X: multiples of 18 nodes, Arm images, and a ComputeDomain for several nodes."""
    channels = {
        view.at("spec", "channel", "resourceClaimTemplate", "name").text
        for view in bundle.of_kind("ComputeDomain")
    }
    for pod in bundle.pods:
        if pod.fabric is None or pod.fabric.domain_node_count is None or not pod.workers:
            continue
        yield from _arm_only(pod, pod.fabric.name)
        if pod.replica_count > 1 and not channels & set(pod.claims):
            yield pod.template.error(
                "several A4X nodes without a ComputeDomain: NVLink does not span the nodes",
                "add a ComputeDomain and claim its channel (resourceClaims)",
            )
        yield from _whole_domains(pod.template, pod.replica_count, pod.fabric.domain_node_count)
    for pool in bundle.of_kind("NodePool"):
        fabric = bundle.fabric_of(pool.at("config", "machineType"))
        if fabric and fabric.domain_node_count:
            count = pool["initialNodeCount"].number or 0
            yield from _whole_domains(pool, count, fabric.domain_node_count)


def _arm_only(pod: PodTemplate, machine: str) -> Iterator[Finding]:
    architecture = pod.spec.at("nodeSelector", "kubernetes.io/arch")
    if architecture.text == "amd64":
        yield architecture.error(f"{machine} is an Arm machine", "write arm64")
    for container in pod.workers:
        image = container["image"]
        is_x86_plugin = "/nccl-plugin-gib" in image.text and "arm64" not in image.text
        if is_x86_plugin or re.search(r"amd64|x86", image.text):
            yield image.error(f"x86 image on {machine}, an Arm machine", "use the arm64 image")


def _whole_domains(view: ValueView, count: float, domain: int) -> Iterator[Finding]:
    if count > domain and count % domain:
        yield view.warning(
            f"{count:g} nodes do not fill NVLink domains of {domain} nodes",
            f"use a multiple of {domain}",
        )
