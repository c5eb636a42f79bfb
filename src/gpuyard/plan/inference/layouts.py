"""Ways to spread one replica over chips, and which machines can hold a way."""

from __future__ import annotations

from gpuyard.catalog import Machine, Transformer
from gpuyard.perf.inference import ReplicaLayout

__all__ = ["joined", "layouts", "machines_of", "replicas_in"]

TP = (1, 2, 4, 8, 16)
PP = (1, 2, 4, 8)
ATTENTION_DP = (2, 4, 8, 16, 32)
MOST_CHIPS = 64  # of one replica; larger ones are prefill and decode pools of their own
FABRICS = ("roce", "tcpxo", "tcpx", "infiniband", "ici")  # networks that carry a replica over several machines


def layouts(shape: Transformer) -> tuple[ReplicaLayout, ...]:
    """Every layout that the model's heads, layers and experts divide into."""
    found: list[ReplicaLayout] = []
    for tp in TP:
        if shape.heads % tp:
            continue
        for pp in PP:
            if shape.layers % pp == 0 and tp * pp <= MOST_CHIPS and (pp == 1 or tp * pp >= 2):
                found.append(ReplicaLayout(tp=tp, pp=pp))
                if shape.moe and tp > 1 and pp == 1 and shape.moe.experts % tp == 0:
                    found.append(ReplicaLayout(tp=tp, ep=tp))
        if shape.moe is None:
            continue
        for dp in ATTENTION_DP:
            if tp * dp <= MOST_CHIPS and shape.moe.experts % (tp * dp) == 0:
                found.append(ReplicaLayout(tp=tp, ep=tp * dp, attention_dp=dp))
    return tuple(found)


def replicas_in(layout: ReplicaLayout, machine: Machine) -> int:
    """Replicas that one machine holds; 0 where it holds none or only a part of one. Processors alone hold one."""
    chips = int(machine.chip_count) or 1
    if layout.chips > chips or chips % layout.chips:
        return 0
    return chips // layout.chips


def joined(machine: Machine) -> bool:
    """True when machines of the type have a network that carries a replica, or a cache between replicas."""
    return machine.multi_host and machine.network.technology in FABRICS


def machines_of(layout: ReplicaLayout, machine: Machine) -> int:
    """Machines that one replica spans, 1 where it fits into one; 0 where it cannot be spread so."""
    chips = int(machine.chip_count) or 1
    if replicas_in(layout, machine):
        return 1
    whole = layout.chips > chips and layout.chips % chips == 0
    inside = layout.tp <= max(chips, machine.scale_up_domain_count or 1)  # all-reduces stay on the scale-up link
    return layout.chips // chips if whole and joined(machine) and inside else 0
