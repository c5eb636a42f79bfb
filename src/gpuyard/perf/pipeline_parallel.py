"""Pipeline parallelism: layers per stage, the slowest stage, the bubble, sends between stages."""

from __future__ import annotations

import numpy as np

from gpuyard.perf.collectives import NetworkModel, RankGroup
from gpuyard.perf.constants import TrainingConstants
from gpuyard.perf.layout import Architecture, Array, Layout, Software
from gpuyard.perf.operators import micro_tokens


def stage_layers(arch: Architecture, layout: Layout) -> tuple[Array, Array]:
    """Return the layers of the largest stage and of the last stage.

    Embedding and LM head count as layers where the layers then divide by the stages.
    """
    even = arch.layers % layout.pp == 0
    padded = ((arch.layers + 2.0) % layout.pp == 0) & ~even
    largest = np.where(padded, (arch.layers + 2.0) / layout.pp, np.ceil(arch.layers / layout.pp))
    last = np.where(even, largest, largest - 1.0)
    return largest, np.where(layout.pp > 1, last, largest)


def slowest_stage_s(arch: Architecture, layout: Layout, layer_s: Array, head_s: Array) -> Array:
    """Return seconds of the slowest stage per micro-batch, which the pipeline repeats."""
    largest, last = stage_layers(arch, layout)
    stage = np.maximum(largest * layer_s, last * layer_s + head_s)
    # An uneven pipeline split accounts for the LM head.
    balanced = np.maximum(largest * layer_s, (arch.layers * layer_s + head_s) / layout.pp)
    uneven = (arch.layers % layout.pp != 0) & ((arch.layers + 2.0) % layout.pp != 0)
    return np.where(uneven | (arch.mtp > 0), balanced, stage)


def bubble_s(
    arch: Architecture, layout: Layout, layer_s: Array, head_s: Array, stage_s: Array
) -> Array:
    """Return seconds per step in which the slowest stage waits: the pipeline fills and drains."""
    other_stages_s = np.maximum(arch.layers * layer_s + head_s - stage_s, 0.0)
    return other_stages_s / layout.virtual_pipeline * (layout.pp > 1)


def stage_sends_s(
    arch: Architecture,
    layout: Layout,
    soft: Software,
    network: NetworkModel,
    c: TrainingConstants,
) -> Array:
    """Return exposed seconds per step of sends of activations between stages."""
    sent_bytes = 2.0 * micro_tokens(arch, layout) * arch.hidden / layout.tp
    stages = RankGroup(stride=layout.chips / layout.pp)
    send = network.time_s("send", sent_bytes, layout.pp, stages) * (layout.pp > 1)
    exposed = np.where(soft.p2p_overlap * (layout.virtual_pipeline > 1) > 0, c.p2p_exposed, 1.0)
    return send * (
        2.0 * layout.virtual_pipeline * layout.grad_accum * exposed + 2.0 * (layout.pp - 1.0)
    )
