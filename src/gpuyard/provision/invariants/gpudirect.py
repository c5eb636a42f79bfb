"""GPUDirect reachability: whether a pod can use the GPU fabric of its machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gpuyard.errors import Finding
from gpuyard.provision.invariants.fabric_requirements import REQUIREMENTS
from gpuyard.provision.invariants.facts import MachineFabric
from gpuyard.provision.invariants.lint_bundle import LintBundle, invariant
from gpuyard.provision.invariants.pods import INTERFACES, PodTemplate
from gpuyard.provision.invariants.sources import ACCELERATORS, PODS


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricAccess:
    """Whether a pod reaches its fabric; `unsure` if that depends on what lint cannot see."""

    where: str
    workload: str
    machine: str
    fabric: str
    verdict: Literal["yes", "no", "unsure"]
    met: tuple[str, ...]
    missing: tuple[str, ...]


def fabric_access(bundle: LintBundle) -> Iterator[FabricAccess]:
    """Yield for each pod that uses a fabric whether it reaches it."""
    for pod, fabric in _fabric_pods(bundle):
        requirements = REQUIREMENTS[fabric.technology]
        missing = [requirement for requirement in requirements if not requirement.is_met(pod)]
        is_blocked = any(requirement.is_hard for requirement in missing)
        yield FabricAccess(
            where=pod.template.where,
            workload=f"{pod.owner.kind_name} {pod.owner.name}".strip(),
            machine=pod.machine.name if pod.machine else "",
            fabric=fabric.label,
            verdict="no" if is_blocked else "unsure" if missing else "yes",
            met=tuple(row.name for row in requirements if row not in missing),
            missing=tuple(row.name for row in missing),
        )


def _fabric_pods(bundle: LintBundle) -> Iterator[tuple[PodTemplate, MachineFabric]]:
    for pod in bundle.pods:
        if pod.fabric and pod.workers and (pod.replica_count > 1 or _requests_fabric(pod)):
            yield pod, pod.fabric


def _requests_fabric(pod: PodTemplate) -> bool:
    has_interfaces = pod.annotations[INTERFACES].is_set
    has_gib = "/usr/local/gib" in pod.mounts
    return has_interfaces or pod.daemon is not None or bool(pod.claims) or has_gib


@invariant("fabric-reached", applies_to=PODS, source=ACCELERATORS)
def pod_reaches_fabric(bundle: LintBundle) -> Iterator[Finding]:
    """Multi-node pods meet every requirement of TCPX, TCPXO or RDMA."""
    for pod, fabric in _fabric_pods(bundle):
        requirements = REQUIREMENTS[fabric.technology]
        if not _requests_fabric(pod):
            yield pod.template.warning(
                f"runs on several {fabric.name} nodes without {fabric.label}: "
                "NCCL uses TCP sockets",
                f"see `gpuyard lint --json` for the {len(requirements)} requirements, "
                "or use one node",
            )
            continue
        for requirement in requirements:
            if not requirement.is_met(pod):
                yield pod.template.finding(
                    f"{fabric.label} lacks {requirement.name}",
                    requirement.fix,
                    severity="error" if requirement.is_hard else "warning",
                )
