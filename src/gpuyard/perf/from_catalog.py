"""Catalog rows as inputs of the step-time model: what is trained, and the chip and links that it runs on."""

from __future__ import annotations

import numpy as np

from gpuyard.catalog import Machine, Transformer
from gpuyard.perf.layout import Architecture
from gpuyard.units import bytes_from_bits

__all__ = ["architecture", "nic_bytes_per_s"]


def architecture(shape: Transformer, sequence_tokens: int, adapters: bool, frozen_bytes: float = 0.0) -> Architecture:
    """The shape as the model's numbers; with `adapters` the weights are frozen, and take `frozen_bytes` each."""
    moe, mla = shape.moe, shape.mla
    head = mla.value_dim if mla else shape.head_width
    shared = moe.shared_experts * (moe.shared_ffn or moe.expert_ffn) if moe else 0
    window = shape.sliding_window_tokens
    full = 1.0 if window is None else 1.0 / shape.full_attention_every if shape.full_attention_every else 0.0
    numbers: dict[str, float] = {
        "layers": shape.layers,
        "hidden": shape.hidden,
        "heads": shape.heads,
        "kv_heads": shape.heads if mla else shape.key_value_heads,
        "head_dim": head,
        "qk_head_dim": mla.nope_dim + mla.rope_dim if mla else head,
        "ffn": shape.ffn,
        "gated": shape.gated,
        "vocab": shape.vocab,
        "tied_embedding": shape.tied_embeddings,
        "seq_tokens": sequence_tokens,
        "sequence_tokens": sequence_tokens,
        "full_attention_ratio": full,
        "window_tokens": min(window or sequence_tokens, sequence_tokens),
        "experts": moe.experts if moe else 0,
        "experts_per_token": moe.top_k if moe else 0,
        "capacity": 1,
        "shared_ffn": shared,
        "expert_ffn": moe.expert_ffn if moe else 0,
        "moe_layers": shape.expert_layers,
        "q_rank": mla.q_rank if mla else 0,
        "kv_rank": mla.kv_rank if mla else 0,
        "trains_weights": not adapters,
        "frozen_bytes": frozen_bytes,
    }
    return Architecture(**{name: np.asarray(value, dtype=np.float64) for name, value in numbers.items()})


# Achieved over line rate of a two-machine all-gather, over what RoCE achieves (the constant nic_ratio is RoCE's and
# InfiniBand's): 70.9 of 100 GB/s on A3 High, 188.7 of 200 on A3 Mega, 328.9 of 400 on A3 Ultra
# (GoogleCloudPlatform/cluster-toolkit, READMEs of examples/machine-learning, 2026-06-25). Never above RoCE.
ROCE = 328.9 / 400.0
LINK_RATIO = {"tcpx": 70.9 / 100.0 / ROCE, "tcpxo": min(1.0, 188.7 / 200.0 / ROCE)}


def nic_bytes_per_s(machine: Machine) -> float:
    """Network bandwidth out of the machine for each chip, one way; zero when nothing is known of it."""
    network = machine.network
    bits = network.fabric_bits_per_s or network.host_bits_per_s or network.max_bits_per_s or 0.0
    return bytes_from_bits(bits) * LINK_RATIO.get(network.technology, 1.0) / max(machine.chip_count, 1.0)
