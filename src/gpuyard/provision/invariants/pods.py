"""The pods that a Kubernetes object makes, whatever kind it is, and what they ask of their node."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.catalog import Machine
from gpuyard.document import Plain
from gpuyard.provision.invariants.facts import Fabric, Facts
from gpuyard.provision.part import Part, View
from gpuyard.provision.templates import pod_templates

__all__ = ["Interface", "Pod", "find_pods", "interfaces_of"]

GPU = "nvidia.com/gpu"
ACCELERATOR = "cloud.google.com/gke-accelerator"
MACHINE_TYPE = "node.kubernetes.io/instance-type"
INTERFACES = "networking.gke.io/interfaces"
DAEMON = re.compile(r"gpudirect-(tcpxo|tcpx)/tcpgpudmarxd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """One row of the interfaces annotation."""

    interface: str
    network: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod template: where it stands, how many pods it makes at once, and the machine that it asks for."""

    template: View
    owner: Part
    replica_count: float
    is_batch: bool  # it ends: Job, JobSet, RayJob
    machine: Machine | None
    fabric: Fabric | None
    rdma_claim_count: float  # RDMA NICs that its resource claims take; infinite where their template is not at hand

    @property
    def spec(self) -> View:
        """The pod's spec."""
        return self.template["spec"]

    @property
    def annotations(self) -> View:
        """The pod's annotations."""
        return self.template.at("metadata", "annotations")

    @property
    def containers(self) -> tuple[View, ...]:
        """All containers, those that start first first."""
        return (*self.spec["initContainers"].items, *self.spec["containers"].items)

    @property
    def workers(self) -> tuple[View, ...]:
        """The containers that hold GPUs."""
        return tuple(container for container in self.containers if gpu_count(container))

    @property
    def gpu_count(self) -> float:
        """GPUs of all containers."""
        return sum(gpu_count(container) for container in self.containers)

    @property
    def daemon(self) -> View | None:
        """The container that runs the receive daemon (RxDM)."""
        return next((box for box in self.containers if DAEMON.search(box["image"].text)), None)

    @property
    def script(self) -> str:
        """Everything that the GPU containers run or are given in their environment."""
        words = [_texts(box[key].value) for box in self.workers for key in ("command", "args")]
        given = [f"{row['name'].text}={row['value'].text}" for box in self.workers for row in box["env"].items]
        return "\n".join(words + given)

    @property
    def is_on_host_network(self) -> bool:
        """True of a pod that sees all the NICs of its node."""
        return self.spec["hostNetwork"].is_true

    @property
    def mounts(self) -> dict[str, str]:
        """Paths in the GPU containers with the host path, or the kind of volume, behind them."""
        return {path: source for box in self.workers for path, source in mounts_of(self, box).items()}

    @property
    def claims(self) -> tuple[str, ...]:
        """Names of the templates of the resource claims that the pod makes."""
        return _claims(self.template)


def _claims(template: View) -> tuple[str, ...]:
    """Names of the templates of a pod's resource claims."""
    return tuple(
        claim["resourceClaimTemplateName"].text or claim["resourceClaimName"].text
        for claim in template.at("spec", "resourceClaims").items
    )


def gpu_count(container: View) -> float:
    """The GPUs that a container asks for."""
    resources = container["resources"]
    return resources.at("limits", GPU).number or resources.at("requests", GPU).number or 0


def mounts_of(pod: Pod, container: View) -> dict[str, str]:
    """A container's mounts: path inside, and the host path or kind of volume behind it."""
    volumes = {volume["name"].text: volume for volume in pod.spec["volumes"].items}
    found = {}
    for mount in container["volumeMounts"].items:
        volume = volumes.get(mount["name"].text)
        kind = next((key for key, _ in volume.pairs if key != "name"), "") if volume else ""
        host = volume.at("hostPath", "path").text if volume else ""
        found[mount["mountPath"].text.rstrip("/")] = host or kind
    return found


def interfaces_of(pod: Pod) -> tuple[Interface, ...] | None:
    """The interfaces annotation; empty without one, None where it is not a JSON list of interfaces."""
    text = pod.annotations[INTERFACES].text
    if not text:
        return ()
    try:
        rows = json.loads(text)
        return tuple(Interface(interface=str(row["interfaceName"]), network=str(row["network"])) for row in rows)
    except (ValueError, KeyError, TypeError):
        return None


def find_pods(part: Part, machines: tuple[Machine, ...], facts: Facts, claims: dict[str, float]) -> Iterator[Pod]:
    """The pod templates of an object; `claims` tells how many RDMA NICs each claim template takes."""
    for template, count, is_batch in pod_templates(part):
        machine = _machine(template, machines)
        fabric = facts.fabric(machine.name) if machine else _by_traces(template, facts)
        yield Pod(
            template=template,
            owner=part,
            replica_count=count,
            is_batch=is_batch,
            machine=machine,
            fabric=fabric,
            rdma_claim_count=sum(claims.get(name, math.inf) for name in _claims(template)),
        )


def _machine(template: View, machines: tuple[Machine, ...]) -> Machine | None:
    """The machine type that the pod's node selector, affinity and GPUs lead to; None where several could be meant."""
    wanted = dict(_labels(template["spec"]))
    name, accelerator = wanted.get(MACHINE_TYPE, ""), wanted.get(ACCELERATOR, "")
    if name:
        return next((machine for machine in machines if machine.name == name), None)
    gpus = sum(gpu_count(box) for box in template.at("spec", "containers").items)
    same = [machine for machine in machines if accelerator and machine.api_name == accelerator]
    fitting = [machine for machine in same if machine.chip_count == gpus] or (same if len(same) == 1 else [])
    return fitting[0] if fitting else None


def _labels(spec: View) -> Iterator[tuple[str, str]]:
    """Node labels that the pod asks for, each with its value."""
    for key, view in spec["nodeSelector"].pairs:
        yield key, view.text
    required = spec.at("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    for term in required["nodeSelectorTerms"].items:
        for row in term["matchExpressions"].items:
            if row["operator"].text == "In" and len(row["values"].texts) == 1:
                yield row["key"].text, row["values"].texts[0]


def _by_traces(template: View, facts: Facts) -> Fabric | None:
    """The fabric that a receive daemon or a gIB mount speaks of, where the pod names no machine."""
    boxes = (*template.at("spec", "initContainers").items, *template.at("spec", "containers").items)
    for box in boxes:
        if found := DAEMON.search(box["image"].text):
            return facts.fabric({"tcpx": "a3-highgpu-8g", "tcpxo": "a3-megagpu-8g"}[found.group(1)])
    mounts = [mount["mountPath"].text for box in boxes for mount in box["volumeMounts"].items]
    if any(mount.startswith("/usr/local/gib") for mount in mounts):
        return facts.fabric({8: "a3-ultragpu-8g", 4: "a4x-highgpu-4g"}.get(int(sum(map(gpu_count, boxes))), ""))
    return None


def _texts(value: Plain) -> str:
    """The texts of a list, or the one text."""
    if isinstance(value, list):
        return "\n".join(_texts(child) for child in value)
    return "" if value is None else str(value)
