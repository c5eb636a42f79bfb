"""Catalog rows as inputs of the training model: architecture, chip and links."""

from __future__ import annotations

import numpy as np

from gpuyard.catalog.machines import Machine
from gpuyard.catalog.models import Transformer
from gpuyard.perf.layout import Architecture
from gpuyard.units import bytes_from_bits


def architecture(
    shape: Transformer, sequence_tokens: int, adapters: bool, frozen_bytes: float = 0.0
) -> Architecture:
    """Return the shape as model inputs; `adapters` (LoRA) freezes weights of `frozen_bytes`."""
    moe, mla, linear = shape.moe, shape.mla, shape.linear
    head = mla.value_dim if mla else shape.head_width
    shared = moe.shared_experts * (moe.shared_ffn or moe.expert_ffn) if moe else 0
    window = shape.sliding_window_tokens
    every = shape.full_attention_every
    full = 1.0 / every if window and every else shape.full_layers / max(shape.softmax_layers, 1)
    attention, ffn_layers = shape.softmax_layers, shape.mlp_layers
    if shape.encoder:  # modelled as a decoder of equal size, with cross-attention as more attention
        attention += shape.layers + shape.encoder.layers
        ffn_layers += shape.encoder.layers
    # A layer is a mixer and an FFN; where blocks are one of both, two blocks are a layer.
    layers = max(1, round(0.5 * (attention + shape.linear_layers + ffn_layers)))
    dense = layers - shape.expert_layers
    numbers: dict[str, float] = {
        "layers": layers,
        "hidden": shape.hidden,
        "heads": shape.heads,
        "kv_heads": shape.heads if mla else shape.key_value_heads,
        "head_dim": head,
        "qk_head_dim": mla.nope_dim + mla.rope_dim if mla else head,
        "ffn_hidden": shape.ffn * (ffn_layers - shape.expert_layers) / max(dense, 1),
        "gated": shape.gated,
        "vocab": shape.vocab,
        "tied_embedding": shape.tied_embeddings,
        "packed_sequence_tokens": sequence_tokens,
        "attention_tokens": sequence_tokens,
        "full_attention_ratio": full,
        "window_tokens": min(window or sequence_tokens, sequence_tokens),
        "experts": moe.experts if moe else 0,
        "experts_per_token": moe.top_k if moe else 0,
        "capacity": 1,
        "shared_ffn_hidden": shared,
        "expert_ffn_hidden": moe.expert_ffn if moe else 0,
        "moe_layers": shape.expert_layers,
        "q_rank": mla.q_rank if mla else 0,
        "kv_rank": mla.kv_rank if mla else 0,
        "trains_weights": not adapters,
        "frozen_bytes": frozen_bytes,
        "attention_ratio": attention / layers,
        "linear_ratio": shape.linear_layers / layers,
        "linear_in": linear.parameters(shape.hidden) / shape.hidden - linear.value_dim
        if linear
        else 0,
        "linear_out": linear.value_dim if linear else 0,
        "linear_state": linear.value_dim * linear.state_dim if linear else 0,
    }
    return Architecture(
        **{name: np.asarray(value, dtype=np.float64) for name, value in numbers.items()}
    )


# All-gather of two machines over line rate, relative to RoCE (nic_ratio is fitted on RoCE and
# InfiniBand): 70.9 of 100 GB/s on A3 High, 188.7 of 200 on A3 Mega, 328.9 of 400 on A3 Ultra
# (GoogleCloudPlatform/cluster-toolkit, READMEs of examples/machine-learning, 2026-06-25).
ROCE = 328.9 / 400.0
LINK_RATIO = {"tcpx": 70.9 / 100.0 / ROCE, "tcpxo": min(1.0, 188.7 / 200.0 / ROCE)}


def nic_bytes_per_s(machine: Machine) -> float:
    """Return the unidirectional network bandwidth per chip; 0 where it is unknown."""
    network = machine.network
    bits = network.fabric_bits_per_s or network.host_bits_per_s or network.max_bits_per_s or 0.0
    return (
        bytes_from_bits(bits)
        * LINK_RATIO.get(network.technology, 1.0)
        / max(machine.chip_count, 1.0)
    )
