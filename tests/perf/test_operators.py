"""Matrix products and parameters of a layer, against closed formulas and the catalog's own counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.catalog.models import Model, Transformer
from gpuyard.perf.from_catalog import architecture
from gpuyard.perf.operators import (
    attention_gemms,
    attention_pairs,
    ffn_gemms,
    layer_parameters,
    lm_head_gemm,
    micro_tokens,
    model_flop_per_token,
    moe_gemms,
)

from .cases import CATALOG, changed, layout, model

DECODERS = [row for row in CATALOG.models if row.transformer and row.kind == "decoder"]
widths = st.sampled_from((1024, 2048, 6144, 12288))
degrees = st.sampled_from((1, 2, 4, 8))


def gpt(hidden: int, layers: int = 24, vocab: int = 51200) -> Transformer:
    """A model as Narayanan 2021 counts it: heads of 128, an MLP of 4 h, no gate."""
    return Transformer(
        layers=layers,
        hidden=hidden,
        heads=hidden // 128,
        ffn=4 * hidden,
        vocab=vocab,
        gated=False,
        tied_embeddings=True,
    )


@given(widths, degrees, st.integers(1, 8), st.sampled_from((1024, 2048, 8192)))
def test_dense_layer_matches_narayanan_formula(
    hidden: int, tp: int, batch: int, tokens: int
) -> None:
    """arXiv 2104.04473, appendix: 24 B s h^2 in projections and MLP, 4 B s^2 h in attention, forward."""
    arch, spread = architecture(gpt(hidden), tokens, False), layout(tp=tp, micro_batch=batch)
    products = (*attention_gemms(arch, spread), *ffn_gemms(arch, spread))
    assert tp * sum(float(product.flop) for product in products) == pytest.approx(
        24 * batch * tokens * hidden**2
    )
    assert float(lm_head_gemm(arch, spread).flop) * tp == pytest.approx(
        2 * batch * tokens * hidden * arch.vocab
    )
    pairs = micro_tokens(arch, spread) * attention_pairs(arch) * arch.heads
    causal = 2 * float(pairs * (arch.qk_head_dim + arch.head_dim))
    assert causal == pytest.approx(4 * batch * tokens**2 * hidden / 2)  # half of the square: causal


@given(widths, st.integers(1, 128), st.sampled_from((1024, 2048, 8192)))
def test_step_matches_narayanan_formula_with_causal_attention(
    hidden: int, layers: int, tokens: int
) -> None:
    """72 B s l h^2 (1 + s / 6h + V / 12 l h) without recomputation; causal attention halves the second term."""
    shape = gpt(hidden, layers)
    published = (
        72
        * layers
        * hidden**2
        * (1 + tokens / (2 * 6 * hidden) + shape.vocab / (12 * layers * hidden))
    )
    assert model_flop_per_token(architecture(shape, tokens, False)) == pytest.approx(published)


def test_gpt_3_is_six_n_and_attention() -> None:
    """Kaplan 2020: 6 N a token; GPT-3's table prints 3.14e23 for 300e9 tokens (arXiv 2005.14165, appendix D)."""
    arch = model("gpt-3-175b")
    attention = 6 * 96 * 2048 * 12288
    assert model_flop_per_token(arch) == pytest.approx(6 * 174.6e9 + attention, rel=1e-3)
    assert model_flop_per_token(arch) * 300e9 == pytest.approx(3.14e23, rel=0.02)


@pytest.mark.parametrize("row", DECODERS, ids=lambda row: row.name)
def test_parameters_are_the_catalogs(row: Model) -> None:
    shape = row.transformer
    assert shape
    arch = architecture(shape, 2048, False)
    attention, ffn, experts, shared = (float(part) for part in layer_parameters(arch))
    counted = (
        shape.layers * attention
        + (shape.layers - shape.expert_layers) * ffn
        + shape.expert_layers * (experts + shared + shape.hidden * float(arch.experts))
        + shape.vocab * shape.hidden * (1 if shape.tied_embeddings else 2)
    )
    norms = (2 * shape.layers + 1 + shape.learned_positions) * shape.hidden
    assert counted + norms == pytest.approx(shape.parameters(), rel=1e-9)


@pytest.mark.parametrize("row", DECODERS, ids=lambda row: row.name)
def test_products_are_the_weights_once_a_token(row: Model) -> None:
    """A weight is multiplied once a token: the products of a layer are 2 x parameters x tokens."""
    arch, spread = model(row.name), layout()
    attention, ffn, experts, shared = (float(part) for part in layer_parameters(arch))
    tokens = float(micro_tokens(arch, spread))
    flop = sum(float(product.flop) for product in attention_gemms(arch, spread))
    assert flop == pytest.approx(2 * tokens * attention)
    if not row.transformer or row.transformer.moe is None:
        flop = sum(float(product.flop) for product in ffn_gemms(arch, spread))
        assert flop == pytest.approx(2 * tokens * ffn)
        return
    used = experts * float(arch.experts_per_token / arch.experts) + shared
    assert sum(float(product.flop) for product in moe_gemms(arch, spread)) == pytest.approx(
        2 * tokens * used
    )


@given(st.sampled_from(("mixtral-8x7b", "deepseek-v3")), degrees, degrees, degrees)
def test_experts_are_distributed_without_splitting(name: str, tp: int, ep: int, etp: int) -> None:
    arch = changed(model(name), shared_ffn_hidden=0.0)
    whole = sum(float(product.flop) for product in moe_gemms(arch, layout()))
    part = sum(
        float(product.flop)
        for product in moe_gemms(arch, layout(tp=tp, ep=ep, expert_tensor_parallel=etp))
    )
    assert part * tp == pytest.approx(whole)


@given(st.sampled_from((256, 2048, 8192, 131_072)), st.integers(1, 8192), st.floats(0.0, 1.0))
def test_window_never_exceeds_sequence(tokens: int, window: int, full: float) -> None:
    arch = changed(
        model("llama-3-8b", tokens), window_tokens=min(window, tokens), full_attention_ratio=full
    )
    assert 0.0 < attention_pairs(arch) <= tokens / 2 * (1 + 1e-12)
    assert attention_pairs(replace(arch, full_attention_ratio=np.ones(()))) == tokens / 2


def test_packed_samples_attend_within_themselves() -> None:
    arch = changed(model("llama-3-8b", 8192), attention_tokens=512.0)
    assert attention_pairs(arch) == 256.0


def test_adapters_need_no_gradients_of_the_weights() -> None:
    full, lora = model("llama-3-8b"), model("llama-3-8b", adapters=True)
    attention = 6 * 32 * 2048 * 4096
    products = model_flop_per_token(full) - attention
    assert model_flop_per_token(lora) == pytest.approx(products * 2 / 3 + attention)


def test_key_value_heads_are_copied_where_there_are_too_few() -> None:
    arch = model("llama-3-8b")  # 8 of them
    qkv = [float(attention_gemms(arch, layout(tp=tp))[0].n) for tp in (8, 16)]
    assert qkv == [(32 + 8 + 8) * 128 / 8, 32 * 128 / 16 + 2 * 128]
