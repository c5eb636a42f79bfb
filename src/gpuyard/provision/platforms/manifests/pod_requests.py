"""CPU and memory that a pod requests: its share of what a node offers to pods."""

from __future__ import annotations

from gpuyard.catalog.machines import Machine
from gpuyard.provision.platforms.manifests.text import Object

GIB = 2**30
# Daemons, CSI drivers and sidecars of the node share the rest.
POD_SHARE = 0.7
# What GKE reserves of each part of a node
# (https://docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes).
RESERVED_CPU = ((1.0, 0.06), (1.0, 0.01), (2.0, 0.005), (float("inf"), 0.0025))
RESERVED_MEMORY = (
    (4 * GIB, 0.25),
    (4 * GIB, 0.20),
    (8 * GIB, 0.10),
    (112 * GIB, 0.06),
    (float("inf"), 0.02),
)
EVICTION_BYTES = 100 * 2**20


def allocatable(capacity: float, reserved: tuple[tuple[float, float], ...]) -> float:
    """Return what a node of this capacity offers to pods."""
    rest, offered = capacity, 0.0
    for part, ratio in reserved:
        size = min(rest, part)
        offered += size * (1.0 - ratio)
        rest -= size
    return offered


def pod_requests(machine: Machine, share: float) -> Object:
    """Return the requests of a pod that takes a share of a machine; none of unknown machines."""
    requests: Object = {}
    if machine.vcpu_count:
        cpus = POD_SHARE * share * allocatable(machine.vcpu_count, RESERVED_CPU)
        requests["cpu"] = str(int(cpus)) if cpus >= 4 else f"{int(1000 * cpus)}m"
    if machine.memory_bytes:
        offered_bytes = allocatable(machine.memory_bytes, RESERVED_MEMORY) - EVICTION_BYTES
        mebibytes = int(POD_SHARE * share * offered_bytes / 2**20)
        requests["memory"] = f"{mebibytes // 1024}Gi" if mebibytes >= 8192 else f"{mebibytes}Mi"
    return requests
