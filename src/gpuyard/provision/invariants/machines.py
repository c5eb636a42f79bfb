"""Rules of machine types: GPUs, names of accelerators, GKE versions, boot disks, and the racks of A4X."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.catalog import Machine
from gpuyard.errors import nearest, one_of
from gpuyard.provision.invariants.bundle import Bundle, Hit
from gpuyard.provision.invariants.facts import gke_version
from gpuyard.provision.invariants.pods import ACCELERATOR, MACHINE_TYPE, Pod
from gpuyard.provision.invariants.workstations import is_workstation_form
from gpuyard.provision.part import View
from gpuyard.provision.validate.schema import is_placeholder_name

__all__ = [
    "a4x_is_a_rack_of_arm",
    "boot_disk_fits",
    "gke_is_new_enough",
    "gpus_agree_with_the_machine",
    "machine_type_exists",
    "pods_ask_for_gpus_that_exist",
    "rdma_nodes_run_cos",
]


def gpus_agree_with_the_machine(bundle: Bundle) -> Iterator[Hit]:
    """Accelerator type and number are those of the machine type."""
    for pool in bundle.of("NodePool"):
        config = pool["config"]
        machine = bundle.machine(config["machineType"].text)
        for row in config["accelerators"].items if machine else ():
            assert machine is not None
            if row["gpuPartitionSize"].is_set or row["gpuSharingConfig"].is_set:
                continue
            yield from _agree(machine, row["acceleratorType"], row["acceleratorCount"], machine.api_name)
        if machine and _is_gpu(machine) and not config["accelerators"].items:
            what = f"{machine.name} without accelerators: GKE then installs no driver"
            fix = f"add {machine.api_name} × {machine.chip_count:g}"
            yield Hit(view=config, what=what, fix=fix, severity="warning")
    for view in bundle.of("InstanceProperties"):
        machine = bundle.machine(view["machineType"].text.rsplit("/", 1)[-1])
        for row in view["guestAccelerators"].items if machine else ():
            assert machine is not None
            kind = row["acceleratorType"]  # the workstation form has a rule of its own
            wanted = kind.text.rsplit("/", 1)[-1] if is_workstation_form(kind) else machine.api_name
            yield from _agree(machine, kind, row["acceleratorCount"], wanted)
    for spec in _vertex_specs(bundle):
        machine = bundle.machine(spec["machineType"].text)
        if machine is None or not _is_gpu(machine):
            continue
        name = machine.platforms.vertex_ai
        if name is None:
            what = f"Vertex AI has no accelerator type for {machine.name}"
            yield Hit(view=spec["machineType"], what=what, fix="use a machine type that it offers")
        elif not spec["acceleratorType"].is_set:
            fix = f"add {name} × {machine.chip_count:g}"
            yield Hit(view=spec, what=f"{machine.name} needs its acceleratorType", fix=fix)
        else:
            hits = tuple(_agree(machine, spec["acceleratorType"], spec["acceleratorCount"], name))
            yield from (hit for hit in hits if not _shares_the_machine(spec, hit.view, machine))


def _vertex_specs(bundle: Bundle) -> Iterator[View]:
    """The machine specs of Vertex AI."""
    for job in bundle.of("CustomJob"):
        yield from (pool["machineSpec"] for pool in job.at("jobSpec", "workerPoolSpecs").items)
    for request in bundle.of("DeployModelRequest"):
        yield request.at("deployedModel", "dedicatedResources", "machineSpec")


def _shares_the_machine(spec: View, count: View, machine: Machine) -> bool:
    """Replicas of an endpoint may each take some GPUs of a machine: Vertex AI puts several on it."""
    some = (
        count.path.endswith("acceleratorCount") and count.number is not None and 1 <= count.number <= machine.chip_count
    )
    return some and spec.path.startswith("deployedModel")


def _is_gpu(machine: Machine) -> bool:
    """A machine with whole GPUs."""
    return machine.chip_count >= 1 and machine.api_name.startswith("nvidia")


def _agree(machine: Machine, kind: View, count: View, name: str) -> Iterator[Hit]:
    """Type and number as the machine has them."""
    given = kind.text.rsplit("/", 1)[-1]
    if not _is_gpu(machine):
        if not machine.name.startswith("n1-") and not machine.is_accelerated:
            yield Hit(view=kind, what=f"{machine.name} takes no accelerator", fix="use an accelerator machine type")
        return
    if given != name:
        yield Hit(view=kind, what=f"{machine.name} has {name}, not {given}", fix=f"write {name}")
    if count.number != machine.chip_count:
        what = f"{machine.name} has {machine.chip_count:g} GPUs, not {count.value}"
        yield Hit(view=count, what=what, fix=f"write {machine.chip_count:g}")


def machine_type_exists(bundle: Bundle) -> Iterator[Hit]:
    """A machine type of an accelerator series is one that exists."""
    known = [machine.name for machine in bundle.machines]
    for capacity in bundle.capacities:
        series = re.match(r"(a[234]x?|g[24])-", capacity.machine)
        if series and capacity.machine not in known and not re.search(r"\$|\(", capacity.machine):
            meant = nearest(capacity.machine, known)
            fix = f'use "{meant}"' if meant else "see `gpuyard catalog machines`"
            yield Hit(view=capacity.view, what=f'no machine type "{capacity.machine}"', fix=fix)


def pods_ask_for_gpus_that_exist(bundle: Bundle) -> Iterator[Hit]:
    """A pod's accelerator label exists, fits its machine type, and its node has as many GPUs as it asks for."""
    labels = {machine.api_name for machine in bundle.machines if machine.api_name}
    for pod in bundle.pods:
        selector = pod.spec["nodeSelector"]
        label, name = selector[ACCELERATOR], selector[MACHINE_TYPE]
        if is_placeholder_name(label.text):
            yield Hit(view=label, what=f"the placeholder {label.text} is left", fix="fill it in")
        elif label.text and label.text not in labels and not label.text.startswith("tpu"):
            meant = nearest(label.text, labels)
            fix = f'use "{meant}"' if meant else f"use {one_of(sorted(labels))}"
            yield Hit(view=label, what=f'GKE labels no node "{label.text}"', fix=fix)
        elif label.text and pod.machine and name.text and pod.machine.api_name != label.text:
            what = f"{name.text} has {pod.machine.api_name}, not {label.text}"
            yield Hit(view=label, what=f"no node fits: {what}", fix=f'use "{pod.machine.api_name}"')
        yield from _too_many(pod, bundle, label)


def _too_many(pod: Pod, bundle: Bundle, label: View) -> Iterator[Hit]:
    """More GPUs than any such node has."""
    same = [machine for machine in bundle.machines if machine.api_name == label.text and label.text]
    most = pod.machine.chip_count if pod.machine else max((machine.chip_count for machine in same), default=0)
    if most and pod.gpu_count > most:
        what = f"{pod.gpu_count:g} GPUs in one pod; a node has {most:g} at most"
        yield Hit(view=pod.spec, what=what, fix="spread the work over several pods")


def gke_is_new_enough(bundle: Bundle) -> Iterator[Hit]:
    """Cluster and nodes have the versions that the fabric and its features need."""
    clusters = {view["name"].text: view for view in bundle.of("Cluster")}
    for pool in bundle.of("NodePool"):
        fabric = bundle.facts.fabric(pool.at("config", "machineType").text)
        version = pool["version"]
        if not version.text and clusters:
            version = next(iter(clusters.values()))["initialClusterVersion"]
        has = gke_version(version.text)
        if has is None or len(has) < 2:
            continue
        if fabric and (least := _least(has, fabric.gke_versions)):
            what = f"{fabric.label} on {fabric.name} needs GKE {least} or later, not {version.text}"
            yield Hit(view=version, what=what, fix=f"use {least} or later")
        dranet = bundle.facts.feature("dranet").gke_version
        if pool.at("networkConfig", "acceleratorNetworkProfile").text and _least(has, (dranet,)):
            yield Hit(view=version, what=f"managed DRANET needs GKE {dranet} or later", fix=f"use {dranet} or later")


def _least(has: tuple[int, ...], versions: tuple[str, ...]) -> str:
    """The version that is needed and not reached; empty where it is reached, or where only the minor is given."""
    floors = sorted((floor, text) for text in versions if (floor := gke_version(text)))
    same = [text for floor, text in floors if floor[:2] == has[:2] and has < floor and len(has) == 4]
    if same:
        return same[0]
    return floors[0][1] if floors and has[:2] < floors[0][0][:2] else ""


def boot_disk_fits(bundle: Bundle) -> Iterator[Hit]:
    """A machine that boots from Hyperdisk alone has such a disk."""
    for pool in bundle.of("NodePool"):
        config = pool["config"]
        fabric = bundle.facts.fabric(config["machineType"].text)
        disk = config["diskType"] if config["diskType"].is_set else config.at("bootDisk", "diskType")
        if fabric and fabric.hyperdisk_only and not disk.text.startswith("hyperdisk"):
            what = f"{fabric.name} does not boot from {disk.text or 'the default disk'}"
            yield Hit(view=disk, what=what, fix="set diskType to hyperdisk-balanced")
    for view in bundle.of("InstanceProperties"):
        fabric = bundle.facts.fabric(view["machineType"].text.rsplit("/", 1)[-1])
        for disk in view["disks"].items if fabric and fabric.hyperdisk_only else ():
            kind = disk.at("initializeParams", "diskType")
            if disk["boot"].is_true and kind.text and "hyperdisk" not in kind.text:
                what = (
                    f"{view['machineType'].text.rsplit('/', 1)[-1]} does not boot from {kind.text.rsplit('/', 1)[-1]}"
                )
                yield Hit(view=kind, what=what, fix="use hyperdisk-balanced")


def rdma_nodes_run_cos(bundle: Bundle) -> Iterator[Hit]:
    """GPUDirect RDMA on GKE needs Container-Optimized OS."""
    for pool in bundle.of("NodePool"):
        fabric, image = bundle.facts.fabric(pool.at("config", "machineType").text), pool.at("config", "imageType")
        if fabric and fabric.technology == "roce" and image.text and not image.text.upper().startswith("COS"):
            what = f"{fabric.label} does not work on nodes with {image.text}"
            yield Hit(view=image, what=what, fix="use COS_CONTAINERD")


def a4x_is_a_rack_of_arm(bundle: Bundle) -> Iterator[Hit]:
    """A4X: whole NVLink domains of 18 nodes, Arm images, and a ComputeDomain for several nodes."""
    channels = {view.at("spec", "channel", "resourceClaimTemplate", "name").text for view in bundle.of("ComputeDomain")}
    for pod in bundle.pods:
        if pod.fabric is None or pod.fabric.domain_node_count is None or not pod.workers:
            continue
        if pod.spec.at("nodeSelector", "kubernetes.io/arch").text == "amd64":
            view = pod.spec.at("nodeSelector", "kubernetes.io/arch")
            yield Hit(view=view, what=f"{pod.fabric.name} is an Arm machine", fix="write arm64")
        for box in pod.workers:
            image = box["image"].text
            is_x86 = re.search(r"amd64|x86", image) or (re.search(r"/nccl-plugin-gib", image) and "arm64" not in image)
            if is_x86:
                what = f"an x86 image on {pod.fabric.name}, an Arm machine"
                yield Hit(view=box["image"], what=what, fix="use the arm64 image")
        if pod.replica_count > 1 and not channels & set(pod.claims):
            what = "several A4X nodes without a ComputeDomain: NVLink ends at the node"
            fix = "add a ComputeDomain and claim its channel (resourceClaims)"
            yield Hit(view=pod.template, what=what, fix=fix)
        yield from _whole_domains(pod.template, pod.replica_count, pod.fabric.domain_node_count)
    for pool in bundle.of("NodePool"):
        fabric = bundle.facts.fabric(pool.at("config", "machineType").text)
        if fabric and fabric.domain_node_count:
            yield from _whole_domains(pool, pool["initialNodeCount"].number or 0, fabric.domain_node_count)


def _whole_domains(view: View, count: float, domain: int) -> Iterator[Hit]:
    """More nodes than a domain, and not a multiple of it."""
    if count > domain and count % domain:
        what = f"{count:g} nodes leave an NVLink domain of {domain} in pieces"
        yield Hit(view=view, what=what, fix=f"use a multiple of {domain}", severity="warning")
