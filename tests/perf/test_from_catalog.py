"""Catalog rows and arrays as inputs of the model."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from gpuyard.catalog.models import LatentAttention, MixtureOfExperts, Transformer
from gpuyard.perf.from_catalog import architecture, nic_bytes_per_s
from gpuyard.perf.layout import Architecture

from .cases import CATALOG, model

SHAPE = Transformer(layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256)


def test_dense_shape_is_read() -> None:
    found = architecture(SHAPE, 8192, False)
    assert (found.head_dim, found.qk_head_dim, found.kv_heads) == (128.0, 128.0, 8.0)
    assert (found.gated, found.tied_embedding, found.trains_weights) == (1.0, 0.0, 1.0)
    assert (found.experts, found.moe_layers, found.kv_rank) == (0.0, 0.0, 0.0)
    assert (found.packed_sequence_tokens, found.attention_tokens, found.full_attention_ratio) == (
        8192.0,
        8192.0,
        1.0,
    )
    assert architecture(SHAPE, 8192, True).trains_weights == 0.0
    assert architecture(SHAPE, 8192, True, 0.5).frozen_bytes == 0.5


def test_experts() -> None:
    moe = MixtureOfExperts(experts=64, top_k=6, expert_ffn=1408, shared_experts=2, dense_layers=1)
    found = architecture(replace(SHAPE, moe=moe), 4096, False)
    assert (found.experts, found.experts_per_token, found.expert_ffn_hidden) == (64.0, 6.0, 1408.0)
    assert (found.shared_ffn_hidden, found.moe_layers) == (2 * 1408.0, 31.0)
    wide = replace(moe, shared_ffn=4096, shared_experts=1)
    assert architecture(replace(SHAPE, moe=wide), 4096, False).shared_ffn_hidden == 4096.0


def test_latent_attention() -> None:
    mla = LatentAttention(kv_rank=512, rope_dim=64, nope_dim=128, value_dim=128, q_rank=1536)
    found = architecture(replace(SHAPE, mla=mla), 4096, False)
    assert (found.qk_head_dim, found.head_dim, found.kv_heads) == (
        192.0,
        128.0,
        32.0,
    )  # a key for every head
    assert (found.q_rank, found.kv_rank) == (1536.0, 512.0)


@pytest.mark.parametrize(
    ("window", "every", "full", "seen"),
    [
        (None, None, 1.0, 8192.0),
        (1024, 6, 1 / 6, 1024.0),
        (4096, None, 0.0, 4096.0),
        (32768, 2, 0.5, 8192.0),
    ],
)
def test_windows(window: int | None, every: int | None, full: float, seen: float) -> None:
    shape = replace(SHAPE, sliding_window_tokens=window, full_attention_every=every)
    found = architecture(shape, 8192, False)
    assert (found.full_attention_ratio, found.window_tokens) == (pytest.approx(full), seen)


def test_every_transformer_of_the_catalog_is_finite() -> None:
    for row in CATALOG.models:
        if row.transformer:
            found = model(row.name)
            for field in fields(Architecture):
                assert np.isfinite(getattr(found, field.name)), (row.name, field.name)


def test_bandwidth_out_of_a_machine() -> None:
    for machine in CATALOG.machines:
        if not machine.chip_count:
            continue
        known = (
            machine.network.fabric_bits_per_s,
            machine.network.host_bits_per_s,
            machine.network.max_bits_per_s,
        )
        found = nic_bytes_per_s(machine)
        line = next((bits for bits in known if bits), 0.0) / 8 / max(machine.chip_count, 1.0)
        assert 0.5 * line <= found <= line, (
            machine.name
        )  # a transport may achieve less than the line, never more
        assert (found == 0.0) == (not any(known))
