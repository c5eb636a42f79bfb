"""Pod templates of any Kubernetes object, and the nodes they request."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.catalog.machines import Machine
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.artefact_document import ArtefactDocument, ValueView
from gpuyard.provision.invariants.facts import Facts, MachineFabric
from gpuyard.provision.templates import pod_templates

GPU = "nvidia.com/gpu"
ACCELERATOR = "cloud.google.com/gke-accelerator"
MACHINE_TYPE = "node.kubernetes.io/instance-type"
INTERFACES = "networking.gke.io/interfaces"
DEFAULT_INTERFACE = "networking.gke.io/default-interface"
DAEMON = re.compile(r"gpudirect-(tcpxo|tcpx)/tcpgpudmarxd")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodInterface:
    """One row of the interfaces annotation."""

    interface: str
    network: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    """A pod template, the number of pods that run at once, and the machine they request."""

    template: ValueView
    owner: ArtefactDocument
    replica_count: float
    is_batch: bool  # Job, JobSet, RayJob
    machine: Machine | None
    fabric: MachineFabric | None
    rdma_claim_count: float  # RDMA NICs of its resource claims; inf if their template is unknown

    @property
    def spec(self) -> ValueView:
        return self.template["spec"]

    @property
    def annotations(self) -> ValueView:
        return self.template.at("metadata", "annotations")

    @property
    def containers(self) -> tuple[ValueView, ...]:
        """Init containers, then containers."""
        return _containers(self.template)

    @property
    def workers(self) -> tuple[ValueView, ...]:
        """Containers that request GPUs."""
        return tuple(container for container in self.containers if gpu_count(container))

    @property
    def gpu_count(self) -> float:
        return sum(gpu_count(container) for container in self.containers)

    @property
    def daemon(self) -> ValueView | None:
        """The container that runs the receive daemon (RxDM)."""
        daemons = (box for box in self.containers if DAEMON.search(box["image"].text))
        return next(daemons, None)

    @property
    def script(self) -> str:
        """Commands, arguments and environment of the GPU containers."""
        commands = [_joined(box[key].value) for box in self.workers for key in ("command", "args")]
        environment = [
            f"{row['name'].text}={row['value'].text}"
            for box in self.workers
            for row in box["env"].items
        ]
        return "\n".join(commands + environment)

    @property
    def is_on_host_network(self) -> bool:
        """True if the pod sees all NICs of its node."""
        return self.spec["hostNetwork"].is_true

    @property
    def mounts(self) -> dict[str, str]:
        """Mount paths of the GPU containers with the host path or volume kind behind them."""
        return {
            path: source for box in self.workers for path, source in mounts_of(self, box).items()
        }

    @property
    def claims(self) -> tuple[str, ...]:
        """Names of the pod's resource claim templates."""
        return _claims(self.template)


def _containers(template: ValueView) -> tuple[ValueView, ...]:
    spec = template["spec"]
    return (*spec["initContainers"].items, *spec["containers"].items)


def _claims(template: ValueView) -> tuple[str, ...]:
    return tuple(
        claim["resourceClaimTemplateName"].text or claim["resourceClaimName"].text
        for claim in template.at("spec", "resourceClaims").items
    )


def gpu_count(container: ValueView) -> float:
    """Return the number of GPUs that a container requests."""
    resources = container["resources"]
    return resources.at("limits", GPU).number or resources.at("requests", GPU).number or 0


def mounts_of(pod: PodTemplate, container: ValueView) -> dict[str, str]:
    """Return the mount paths of a container with the host path or volume kind behind them."""
    volumes = {volume["name"].text: volume for volume in pod.spec["volumes"].items}
    mounts = {}
    for mount in container["volumeMounts"].items:
        volume = volumes.get(mount["name"].text)
        kind = next((key for key, _ in volume.pairs if key != "name"), "") if volume else ""
        host = volume.at("hostPath", "path").text if volume else ""
        mounts[mount["mountPath"].text.rstrip("/")] = host or kind
    return mounts


def interfaces_of(pod: PodTemplate) -> tuple[PodInterface, ...] | None:
    """Return the interfaces annotation; None if it is not a JSON list of interfaces."""
    text = pod.annotations[INTERFACES].text
    if not text:
        return ()
    try:
        rows = json.loads(text)
        return tuple(
            PodInterface(interface=str(row["interfaceName"]), network=str(row["network"]))
            for row in rows
        )
    except (ValueError, KeyError, TypeError):
        return None


def find_pods(
    document: ArtefactDocument,
    machines: tuple[Machine, ...],
    facts: Facts,
    rdma_nics_per_claim: dict[str, float],
) -> Iterator[PodTemplate]:
    """Yield the pod templates of a Kubernetes object."""
    for template, count, is_batch in pod_templates(document):
        machine = _machine(template, machines)
        claims = _claims(template)
        yield PodTemplate(
            template=template,
            owner=document,
            replica_count=count,
            is_batch=is_batch,
            machine=machine,
            fabric=facts.fabric(machine.name) if machine else _inferred_fabric(template, facts),
            rdma_claim_count=sum(rdma_nics_per_claim.get(name, math.inf) for name in claims),
        )


def _machine(template: ValueView, machines: tuple[Machine, ...]) -> Machine | None:
    # From the node selector, node affinity and GPU count; None if several machine types fit.
    labels = dict(_node_labels(template["spec"]))
    name = labels.get(MACHINE_TYPE, "")
    accelerator = labels.get(ACCELERATOR, "")
    if name:
        return next((machine for machine in machines if machine.name == name), None)
    gpus = sum(gpu_count(box) for box in template.at("spec", "containers").items)
    same = [machine for machine in machines if accelerator and machine.api_name == accelerator]
    fitting = [machine for machine in same if machine.chip_count == gpus]
    if fitting:
        return fitting[0]
    return same[0] if len(same) == 1 else None


def names_machine_type(template: ValueView) -> bool:
    """Return whether the pod selects a machine type, not only an accelerator."""
    return MACHINE_TYPE in dict(_node_labels(template["spec"]))


def _node_labels(spec: ValueView) -> Iterator[tuple[str, str]]:
    for key, view in spec["nodeSelector"].pairs:
        yield key, view.text
    required = spec.at("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    for term in required["nodeSelectorTerms"].items:
        for row in term["matchExpressions"].items:
            if row["operator"].text == "In" and len(row["values"].texts) == 1:
                yield row["key"].text, row["values"].texts[0]


def _inferred_fabric(template: ValueView, facts: Facts) -> MachineFabric | None:
    # A pod that names no machine type still shows its fabric by a receive daemon or a gIB mount.
    containers = _containers(template)
    for container in containers:
        if match := DAEMON.search(container["image"].text):
            return facts.fabric({"tcpx": "a3-highgpu-8g", "tcpxo": "a3-megagpu-8g"}[match.group(1)])
    mounts = [mount for container in containers for mount in container["volumeMounts"].items]
    if any(mount["mountPath"].text.startswith("/usr/local/gib") for mount in mounts):
        gpus = int(sum(gpu_count(container) for container in containers))
        return facts.fabric({8: "a3-ultragpu-8g", 4: "a4x-highgpu-4g"}.get(gpus, ""))
    return None


def _joined(value: Plain) -> str:
    if isinstance(value, list):
        return "\n".join(_joined(child) for child in value)
    return "" if value is None else str(value)
