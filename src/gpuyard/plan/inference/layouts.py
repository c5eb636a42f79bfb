"""Layouts of one serving replica, and the machines that can hold them."""

from __future__ import annotations

from gpuyard.catalog.machines import Machine
from gpuyard.catalog.models import Transformer
from gpuyard.perf.inference.layout import ReplicaLayout

TP = (1, 2, 4, 8, 16)
PP = (1, 2, 4, 8)
ATTENTION_DP = (2, 4, 8, 16, 32)
MAX_CHIPS = 64  # per replica
# Networks that can carry a replica over several machines.
FABRICS = ("roce", "tcpxo", "tcpx", "infiniband", "ici", "efa")


def layouts(shape: Transformer) -> tuple[ReplicaLayout, ...]:
    """Return every layout that divides the model's heads, layers and experts."""
    results: list[ReplicaLayout] = []
    for tp in TP:
        if shape.heads % tp:
            continue
        for pp in PP:
            if shape.layers % pp == 0 and tp * pp <= MAX_CHIPS and (pp == 1 or tp * pp >= 2):
                results.append(ReplicaLayout(tp=tp, pp=pp))
                if shape.moe and tp > 1 and pp == 1 and shape.moe.experts % tp == 0:
                    results.append(ReplicaLayout(tp=tp, ep=tp))
        if shape.moe is None:
            continue
        for dp in ATTENTION_DP:
            if tp * dp <= MAX_CHIPS and shape.moe.experts % (tp * dp) == 0:
                results.append(ReplicaLayout(tp=tp, ep=tp * dp, attention_dp=dp))
    return tuple(results)


def replicas_in(layout: ReplicaLayout, machine: Machine) -> int:
    """Return the replicas per machine, 0 if a replica does not fit; a CPU machine holds one."""
    chips = int(machine.chip_count) or 1
    if layout.chips > chips or chips % layout.chips:
        return 0
    return chips // layout.chips


def has_fabric(machine: Machine) -> bool:
    """Return True if the machines' network can carry a replica, or a KV-cache transfer."""
    return machine.multi_host and machine.network.technology in FABRICS


def machines_of(layout: ReplicaLayout, machine: Machine) -> int:
    """Return the machines that one replica spans, 1 if it fits in one, 0 if impossible."""
    chips = int(machine.chip_count) or 1
    if replicas_in(layout, machine):
        return 1
    whole_machines = layout.chips > chips and layout.chips % chips == 0
    # Tensor-parallel all-reduces stay on the scale-up link.
    in_domain = layout.tp <= max(chips, machine.scale_up_domain_count or 1)
    if whole_machines and in_domain and has_fabric(machine):
        return layout.chips // chips
    return 0
