"""Compute and communication durations of one training step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuyard.perf.collectives import ClosedForm, NetworkModel, RankGroup
from gpuyard.perf.constants import TrainingConstants
from gpuyard.perf.data_parallel import local_parameters
from gpuyard.perf.layout import Architecture, Array, Layout, Software, TrainingChip
from gpuyard.perf.pipeline_parallel import stage_layers
from gpuyard.perf.training import StepTime, head_s, step_time


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposedCommunication:
    """A share of each forward or backward pass that is communication which compute waits for."""

    kind: str
    forward_ratio: float
    backward_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWork:
    """A step in the terms of its pipeline; all durations are those of one chip of the stage."""

    stages: int
    chunks: int  # virtual stages of a chip (interleaving)
    micro_batches: int
    forward_s: tuple[float, ...]  # one chunk of one micro-batch, by stage
    backward_s: tuple[float, ...]
    parts: tuple[ExposedCommunication, ...]
    send_s: float  # activations to the next stage
    gradient_s: float  # reducing all gradients of a chip
    parameter_s: float  # gathering all parameters of a chip
    optimizer_s: float
    other_s: float  # offload that nothing hides, and the step's own overhead
    overlaps: bool  # gradients and parameters overlap with compute
    buckets: int = 4  # of gradients in a chunk, each sent when it is ready


def step_work(
    arch: Architecture,
    layout: Layout,
    chip: TrainingChip,
    soft: Software,
    constants: TrainingConstants,
    network: NetworkModel | None = None,
) -> StepWork:
    """The work of one layout (fields of no dimensions), as the step-time model sees it."""
    net = network or ClosedForm(chip=chip, constants=constants)
    step = step_time(arch, layout, chip, soft, constants, net)
    stages, chunks, micro = (
        round(float(value)) for value in (layout.pp, layout.virtual_pipeline, layout.grad_accum)
    )
    most, last = (float(value) for value in stage_layers(arch, layout))
    inner = _inner_s(step)
    mean = sum(inner.values()) / max(
        micro * most, 1e-30
    )  # one layer of one micro-batch, both passes
    share = _forward_ratio(step, layout)
    whole = [most * mean] * (stages - 1) + [
        last * mean + float(soft.scalar) * float(head_s(arch, layout, chip, constants))
    ]
    gradient, parameter = _synchronisation_s(arch, layout, soft, net)
    if float(layout.fsdp):
        gradient, parameter = _exposed_sharding_s(step), 0.0
    messages = 2.0 * chunks * micro * _exposed_sends(soft, layout, constants) + 2.0 * (stages - 1)
    return StepWork(
        stages=stages,
        chunks=chunks,
        micro_batches=micro,
        forward_s=tuple(share * value / chunks for value in whole),
        backward_s=tuple((1.0 - share) * value / chunks for value in whole),
        parts=_parts(inner, layout, share),
        send_s=float(step.pipeline_send_s) / messages if messages else 0.0,
        gradient_s=gradient * float(soft.scalar),
        parameter_s=parameter * float(soft.scalar),
        optimizer_s=float(step.optimizer_s),
        other_s=float(step.offload_s + step.overhead_s),
        overlaps=bool(soft.dp_overlap > 0) and not bool(layout.fsdp > 0),
    )


INNER = (
    "matmul_s",
    "attention_s",
    "elementwise_s",
    "cast_s",
    "recompute_s",
    "launch_s",
    "tensor_parallel_s",
    "context_parallel_s",
    "expert_parallel_s",
)
EXPOSED = ("tensor_parallel_s", "context_parallel_s", "expert_parallel_s")


def _inner_s(step: StepTime) -> dict[str, float]:
    """The parts of the passes themselves, over all micro-batches."""
    return {name: float(getattr(step, name)) for name in INNER}


def _forward_ratio(step: StepTime, layout: Layout) -> float:
    """The forward share of the pass: a third of matmuls; recomputation counts as backward."""
    third = (
        step.matmul_s
        + step.attention_s
        + step.elementwise_s
        + step.cast_s
        + step.context_parallel_s
    )
    half = step.launch_s + step.expert_parallel_s
    forward = third / 3.0 + half / 2.0 + step.tensor_parallel_s / (2.0 + layout.recompute_comm)
    return float(
        forward / max(float(third + half + step.tensor_parallel_s + step.recompute_s), 1e-30)
    )


def _parts(
    inner: dict[str, float], layout: Layout, share: float
) -> tuple[ExposedCommunication, ...]:
    """Exposed communication inside the passes, as shares of them."""
    total = max(sum(inner.values()), 1e-30)
    forward = {
        "tensor_parallel_s": 1.0 / (2.0 + float(layout.recompute_comm)),
        "context_parallel_s": 1.0 / 3.0,
        "expert_parallel_s": 0.5,
    }
    return tuple(
        ExposedCommunication(
            kind=name.removesuffix("_s").replace("_", "-"),
            forward_ratio=inner[name] * forward[name] / (total * share),
            backward_ratio=inner[name] * (1.0 - forward[name]) / (total * (1.0 - share)),
        )
        for name in EXPOSED
        if inner[name] > 0
    )


def _exposed_sends(soft: Software, layout: Layout, constants: TrainingConstants) -> float:
    """The share of each message between stages that is seen."""
    return (
        constants.p2p_exposed
        if float(soft.p2p_overlap) > 0 and float(layout.virtual_pipeline) > 1
        else 1.0
    )


def _synchronisation_s(
    arch: Architecture, layout: Layout, soft: Software, net: NetworkModel
) -> tuple[float, float]:
    """Seconds to reduce a chip's gradients over its replicas and to all-gather its parameters."""
    dense, experts = local_parameters(arch, layout)
    ranks = layout.dp * layout.cp
    if float(ranks) <= 1 or not float(arch.trains_weights):
        return 0.0, 0.0
    spread = np.maximum(ranks * layout.tp / (layout.ep * layout.expert_tensor_parallel), 1.0)
    shard = np.minimum(layout.shard_ranks, ranks)
    near = RankGroup(stride=layout.tp, calls=arch.layers / layout.pp)
    far = RankGroup(stride=layout.ep * layout.expert_tensor_parallel, calls=arch.layers / layout.pp)
    reduce = net.time_s("reduce-scatter", soft.grad_bytes * dense, ranks, near)
    reduce = reduce + _if(
        experts, net.time_s("reduce-scatter", soft.grad_bytes * experts, spread, far)
    )
    if float(shard) <= 1:  # every replica keeps all: what was scattered is gathered as gradients
        gather = net.time_s("all-gather", soft.grad_bytes * dense, ranks, near)
        return float(reduce + gather), 0.0
    gather = net.time_s("all-gather", 2.0 * dense, shard, near)
    return float(reduce), float(
        gather + _if(experts, net.time_s("all-gather", 2.0 * experts, spread, far))
    )


def _if(size: Array, seconds: Array) -> Array:
    """The seconds where there is something to send."""
    return np.where(size > 0, seconds, 0.0)


def _exposed_sharding_s(step: StepTime) -> float:
    """With parameters gathered layer by layer, what the step-time model leaves exposed."""
    return float(step.data_parallel_s)
