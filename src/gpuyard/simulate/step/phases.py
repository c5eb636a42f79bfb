"""Collectives of a training step: size, count and ranks per parallelism axis.

Sharing of memory: tensor, context, expert and pipeline parallelism exchange activations, sharded
weights are gathered. Synchronisation of parameters: gradients are reduced and parameters gathered
over the replicas.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuyard.perf.collectives import Collective
from gpuyard.perf.data_parallel import local_parameters
from gpuyard.perf.layout import Architecture, Layout, Software
from gpuyard.perf.operators import micro_tokens, routed_tokens
from gpuyard.perf.pipeline_parallel import stage_layers
from gpuyard.simulate.collectives.bus import bus_factor
from gpuyard.simulate.collectives.placement import Axis


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPhase:
    """One collective of a step."""

    label: str
    axis: Axis | str
    collective: Collective
    size_bytes: float  # as nccl-tests counts it
    ranks: int
    times: float  # a step, for one chip
    overlaps_with: str  # nothing, attention, backward, forward

    @property
    def sent_bytes(self) -> float:
        """What one chip sends in a step."""
        return bus_factor(self.collective, self.ranks) * self.size_bytes * self.times


def step_phases(arch: Architecture, layout: Layout, soft: Software) -> tuple[StepPhase, ...]:
    """All collectives of a step that send anything."""
    return tuple(
        phase
        for phase in (*_activations(arch, layout), *_weights(arch, layout, soft))
        if phase.ranks > 1 and phase.sent_bytes
    )


def _activations(arch: Architecture, layout: Layout) -> tuple[StepPhase, ...]:
    tokens, hidden = float(micro_tokens(arch, layout)), float(arch.hidden)
    most = float(stage_layers(arch, layout)[0])
    passes = most * float(layout.grad_accum)  # layers of a chip times micro-batches
    again = 2.0 + float(layout.recompute_comm)
    kv = float(np.maximum(arch.kv_heads / layout.tp, 1.0) * (arch.qk_head_dim + arch.head_dim))
    moe = float(arch.moe_layers / arch.layers)
    routed = 2.0 * float(routed_tokens(arch, layout)) * hidden if moe else 0.0
    tp, cp, pp, ep = (int(float(value)) for value in (layout.tp, layout.cp, layout.pp, layout.ep))
    return (
        StepPhase(
            label="tensor parallel",
            axis="tp",
            collective="all-reduce",
            size_bytes=2.0 * tokens * hidden,
            ranks=tp,
            times=2.0 * again * passes,
            overlaps_with="nothing",
        ),
        StepPhase(
            label="keys and values",
            axis="cp",
            collective="all-gather",
            size_bytes=2.0 * tokens * cp * kv,
            ranks=cp,
            times=3.0 * passes,
            overlaps_with="attention",
        ),
        StepPhase(
            label="experts",
            axis="ep",
            collective="all-to-all",
            size_bytes=routed,
            ranks=ep,
            times=4.0 * passes * moe,
            overlaps_with="nothing",
        ),
        StepPhase(
            label="stages",
            axis="pp",
            collective="send",
            size_bytes=2.0 * tokens * hidden / tp,
            ranks=pp,
            times=2.0 * float(layout.virtual_pipeline * layout.grad_accum),
            overlaps_with="forward",
        ),
    )


def _weights(arch: Architecture, layout: Layout, soft: Software) -> tuple[StepPhase, ...]:
    if not float(arch.trains_weights):
        return ()
    dense, experts = (float(value) for value in local_parameters(arch, layout))
    ranks = int(float(layout.dp * layout.cp))
    spread = int(max(1.0, float(ranks * layout.tp / (layout.ep * layout.expert_tensor_parallel))))
    shard = int(min(float(layout.shard_ranks), ranks))
    gradient = float(soft.grad_bytes)
    if float(layout.fsdp):
        turns = float(layout.grad_accum)
        return (
            StepPhase(
                label="sharded weights",
                axis="dp",
                collective="all-gather",
                size_bytes=2.0 * (dense + experts),
                ranks=shard,
                times=2.0 * turns,
                overlaps_with="forward",
            ),
            StepPhase(
                label="sharded gradients",
                axis="dp",
                collective="reduce-scatter",
                size_bytes=gradient * (dense + experts),
                ranks=shard,
                times=turns,
                overlaps_with="backward",
            ),
        )
    retained = (
        2.0 if shard > 1 else gradient
    )  # bytes a parameter of what is gathered: weights, or else gradients
    return (
        StepPhase(
            label="gradients",
            axis="dp",
            collective="reduce-scatter",
            size_bytes=gradient * dense,
            ranks=ranks,
            times=1.0,
            overlaps_with="backward",
        ),
        StepPhase(
            label="parameters",
            axis="dp",
            collective="all-gather",
            size_bytes=retained * dense,
            ranks=shard if shard > 1 else ranks,
            times=1.0,
            overlaps_with="forward",
        ),
        StepPhase(
            label="expert gradients",
            axis="expert-dp",
            collective="reduce-scatter",
            size_bytes=gradient * experts,
            ranks=spread,
            times=1.0,
            overlaps_with="backward",
        ),
        StepPhase(
            label="expert parameters",
            axis="expert-dp",
            collective="all-gather",
            size_bytes=2.0 * experts,
            ranks=spread,
            times=1.0,
            overlaps_with="forward",
        ),
    )
