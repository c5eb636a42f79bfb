"""Invariants inside and between pods: volumes, service accounts, and what fits a machine."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.catalog.machines import Machine
from gpuyard.errors import Finding, closest_match
from gpuyard.provision.artefact_document import ValueView
from gpuyard.provision.invariants.lint_bundle import LintBundle, invariant
from gpuyard.provision.invariants.pods import PodTemplate, names_machine_type
from gpuyard.provision.invariants.sources import CATALOG, PODS
from gpuyard.provision.resource_quantity import quantity

KUBERNETES = "Kubernetes API v1.37"


@invariant("volumes-exist", applies_to=PODS, source=KUBERNETES)
def mounted_volumes_exist(bundle: LintBundle) -> Iterator[Finding]:
    """Every volume that a container mounts is a volume of its pod."""
    for pod in bundle.pods:
        names = [volume["name"].text for volume in pod.spec["volumes"].items]
        names += _claim_names(pod.owner.root["spec"])
        for box in pod.containers:
            for key in ("volumeMounts", "volumeDevices"):
                for mount in box[key].items:
                    if mount["name"].text and mount["name"].text not in names:
                        yield _unknown(mount["name"], "volume", names)


def _claim_names(spec: ValueView) -> Iterator[str]:
    """Volumes that a StatefulSet, LeaderWorkerSet or JobSet adds to its pods."""
    groups = [
        spec["volumeClaimTemplates"],
        spec.at("leaderWorkerTemplate", "volumeClaimTemplates"),
        *(policy["templates"] for policy in spec["volumeClaimPolicies"].items),
    ]
    for group in groups:
        yield from (claim.at("metadata", "name").text for claim in group.items)


@invariant("service-account", applies_to=PODS, source=KUBERNETES)
def service_account_exists(bundle: LintBundle) -> Iterator[Finding]:
    """The service account of a pod is among those of the files, if they have any."""
    accounts = [
        document.name for document in bundle.documents if document.type == "v1 ServiceAccount"
    ]
    for pod in bundle.pods:
        name = pod.spec["serviceAccountName"]
        if accounts and name.text not in ("", "default", *accounts):
            finding = _unknown(name, "service account", accounts)
            yield name.warning(finding.what, finding.fix)


def _unknown(view: ValueView, kind: str, names: list[str]) -> Finding:
    match = closest_match(view.text, names)
    fix = f'use "{match}"' if match else f"add it{' or use ' + ', '.join(names) if names else ''}"
    return view.error(f'no {kind} named "{view.text}"', fix)


@invariant("requests-fit", applies_to=PODS, source=CATALOG)
def requests_fit_the_machine(bundle: LintBundle) -> Iterator[Finding]:
    """CPU and memory that a pod requests exist on its machine."""
    for pod in bundle.pods:
        machine = _largest_machine(pod, bundle)
        if machine is None:
            continue
        for resource, available in (
            ("cpu", machine.vcpu_count),
            ("memory", machine.memory_bytes),
        ):
            requested = _requested(pod, resource)
            if available and requested > available:
                unit, scale = ("vCPUs", 1.0) if resource == "cpu" else ("GiB", 2.0**30)
                yield pod.spec.error(
                    f"requests {requested / scale:.0f} {unit}, and {machine.name} has "
                    f"{available / scale:.0f}: the pod is never scheduled",
                    f"request less {resource}, or select a larger machine",
                )


def _largest_machine(pod: PodTemplate, bundle: LintBundle) -> Machine | None:
    """The machine that the pod names, or the largest with the accelerator that it names."""
    machine = pod.machine
    if machine is None or names_machine_type(pod.template):
        return machine
    same = (row for row in bundle.machines if row.api_name == machine.api_name)
    return max(same, key=lambda row: row.memory_bytes)


def _requested(pod: PodTemplate, resource: str) -> float:
    """The sum over containers that run together; a limit is the default of a request."""
    total = 0.0
    for box in pod.spec["containers"].items:
        view = box.at("resources", "requests", resource)
        if not view.is_set:
            view = box.at("resources", "limits", resource)
        total += quantity(view.value)
    return total
