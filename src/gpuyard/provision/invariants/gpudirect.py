"""Does a pod reach the GPU fabric of its machine, and what is missing if it does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gpuyard.provision.invariants.bundle import Bundle, Hit
from gpuyard.provision.invariants.needs import NEEDS
from gpuyard.provision.invariants.pods import Pod

__all__ = ["Reach", "fabric_is_reached", "reaches"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Whether a pod gets its fabric: `unsure` where only what lint cannot see would tell."""

    where: str
    workload: str
    machine: str
    fabric: str
    verdict: Literal["yes", "no", "unsure"]
    met: tuple[str, ...]
    missing: tuple[str, ...]


def _is_asked(pod: Pod) -> bool:
    """Pods of several nodes, and pods that show any trace of wanting the fabric."""
    if pod.fabric is None or not pod.workers:
        return False
    return pod.replica_count > 1 or _has_traces(pod)


def _has_traces(pod: Pod) -> bool:
    """Anything that shows the wish for the fabric."""
    annotated = pod.annotations["networking.gke.io/interfaces"].is_set
    return annotated or pod.daemon is not None or bool(pod.claims) or "/usr/local/gib" in pod.mounts


def reaches(bundle: Bundle) -> Iterator[Reach]:
    """For each pod that wants a fabric, whether it gets it."""
    for pod in bundle.pods:
        if not _is_asked(pod):
            continue
        assert pod.fabric is not None
        needs = NEEDS[pod.fabric.technology]
        missing = [need for need in needs if not need.is_met(pod)]
        hard = any(need.is_hard for need in missing)
        yield Reach(
            where=pod.template.where,
            workload=f"{pod.owner.type.rsplit(' ', 1)[1]} {pod.owner.name}".strip(),
            machine=pod.machine.name if pod.machine else "",
            fabric=pod.fabric.label,
            verdict="no" if hard else "unsure" if missing else "yes",
            met=tuple(need.name for need in needs if need not in missing),
            missing=tuple(need.name for need in missing),
        )


def fabric_is_reached(bundle: Bundle) -> Iterator[Hit]:
    """A pod of several nodes on a machine with a GPU fabric has all that it takes to use it."""
    for pod in bundle.pods:
        if not _is_asked(pod):
            continue
        assert pod.fabric is not None
        if not _has_traces(pod):
            what = f"several nodes of {pod.fabric.name} and nothing of {pod.fabric.label}: NCCL runs over TCP sockets"
            fix = f"see `gpuyard lint --json` for the {len(NEEDS[pod.fabric.technology])} needs, or use one node"
            yield Hit(view=pod.template, what=what, fix=fix, severity="warning")
            continue
        for need in NEEDS[pod.fabric.technology]:
            if not need.is_met(pod):
                what = f"{pod.fabric.label} lacks {need.name}"
                yield Hit(view=pod.template, what=what, fix=need.fix, severity="error" if need.is_hard else "warning")
