"""Model rows: the shape of every model has the published number of parameters."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.catalog.load import load_catalog
from gpuyard.catalog.models import LatentAttention, MixtureOfExperts, Model, Transformer
from gpuyard.errors import InputError

CATALOG = load_catalog()
SHAPED = [model for model in CATALOG.models if model.transformer]
MIXED = [model for model in SHAPED if model.active_parameters_count]
TOLERANCE = {
    "gpt-3.6b": 0.02,  # printed to two digits: 3.56B
    "llama-4-scout": 0.02,  # the card counts the vision encoder too, and rounds
    "kimi-k2": 0.02,  # printed as 1.04T; the published shape has 1.026T
    "kimi-k2.5": 0.02,
}


@pytest.mark.parametrize("model", SHAPED, ids=lambda model: model.name)
def test_shape_has_stated_parameters(model: Model) -> None:
    assert model.transformer
    counted = model.transformer.parameters() + model.other_parameters_count
    assert counted == pytest.approx(model.parameters_count, rel=TOLERANCE.get(model.name, 0.01))


@pytest.mark.parametrize("name", TOLERANCE)
def test_parameter_exceptions_are_needed(name: str) -> None:
    model = CATALOG.model(name)
    assert model.transformer
    assert model.transformer.parameters() != pytest.approx(model.parameters_count, rel=0.01)


@pytest.mark.parametrize("model", MIXED, ids=lambda model: model.name)
def test_shape_has_stated_active_parameters(model: Model) -> None:
    shape, stated = model.transformer, model.active_parameters_count
    assert shape
    assert stated
    table = (
        shape.vocab * shape.hidden
    )  # makers differ on whether the embedding and the output layer count
    assert (
        0.98 * (shape.active_parameters() - 2 * table) < stated < 1.02 * shape.active_parameters()
    )
    assert stated < model.parameters_count


@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("llama-2-7b", 6_738_415_616),
        ("llama-3-8b", 8_030_261_248),
        ("llama-3.1-405b", 405_853_388_800),
        ("mixtral-8x7b", 46_702_792_704),
        ("mistral-7b", 7_241_732_096),
        ("gemma-7b", 8_537_680_896),
        ("phi-3-mini", 3_821_079_552),
    ],
)
def test_parameter_count_is_exact_without_biases(name: str, exact: int) -> None:
    shape = CATALOG.model(name).transformer
    assert shape
    assert shape.parameters() == exact


def test_latent_attention_parameters_match_report() -> None:
    shape = CATALOG.model("deepseek-v3").transformer
    assert shape
    assert shape.parameters() == pytest.approx(671e9, rel=0.001)
    assert shape.expert_layers == 58


def test_moe_in_every_second_layer() -> None:
    shape = CATALOG.model("llama-4-maverick").transformer
    assert shape
    assert shape.expert_layers == 24


def test_transformer_defaults_follow_from_other_fields() -> None:
    shape = Transformer(layers=2, hidden=64, heads=4, ffn=256, vocab=100)
    assert (shape.key_value_heads, shape.head_width, shape.expert_layers) == (4, 16, 0)
    assert shape.active_parameters() == shape.parameters()


def test_parameters_match_manual_count() -> None:
    shape = Transformer(
        layers=2,
        hidden=8,
        heads=2,
        kv_heads=1,
        ffn=16,
        vocab=10,
        gated=False,
        tied_embeddings=True,
        learned_positions=4,
    )
    attention = 8 * 8 + 2 * 8 * 4 + 8 * 8
    assert shape.parameters() == 10 * 8 + 4 * 8 + 2 * (attention + 2 * 8 * 16 + 2 * 8) + 8


def test_model_resolves_by_name_and_alias() -> None:
    assert CATALOG.model("meta-llama/Meta-Llama-3-70B").name == "llama-3-70b"
    assert CATALOG.model("META-LLAMA/Llama-3.1-405B").name == "llama-3.1-405b"
    with pytest.raises(InputError, match=r'use "llama-3-70b"'):
        CATALOG.model("lama-3-70b")


def test_non_transformers_have_flops_per_sample() -> None:
    for model in CATALOG.models:
        assert (model.transformer is None) == (model.forward_flop_per_sample is not None), (
            model.name
        )
    assert CATALOG.model("resnet-50").forward_flop_per_sample == pytest.approx(8.2e9, rel=0.01)
    assert CATALOG.model("dlrm").parameters_count == pytest.approx(26.15e9, rel=0.001)


SIZES = st.integers(min_value=1, max_value=64)
SHAPES = st.builds(
    Transformer,
    layers=SIZES, hidden=SIZES.map(lambda n: 8 * n), heads=st.sampled_from([1, 2, 4, 8]), ffn=SIZES, vocab=SIZES,
    gated=st.booleans(), tied_embeddings=st.booleans(), learned_positions=st.integers(0, 8),
)  # fmt: skip
EXPERTS = st.integers(1, 16).flatmap(
    lambda experts: st.builds(
        MixtureOfExperts,
        experts=st.just(experts), top_k=st.integers(1, experts), expert_ffn=SIZES,
        shared_experts=st.integers(0, 2), every=st.integers(1, 4),
    )
)  # fmt: skip
LATENTS = st.builds(
    LatentAttention, kv_rank=SIZES, rope_dim=SIZES, nope_dim=SIZES, value_dim=SIZES, q_rank=SIZES
)


@given(SHAPES)
def test_single_expert_equals_dense_mlp_plus_router(shape: Transformer) -> None:
    moe = MixtureOfExperts(experts=1, top_k=1, expert_ffn=shape.ffn)
    assert replace(shape, moe=moe).parameters() == shape.parameters() + shape.layers * shape.hidden


@given(SHAPES, EXPERTS, LATENTS)
def test_active_parameters_never_exceed_parameters(
    shape: Transformer, moe: MixtureOfExperts, mla: LatentAttention
) -> None:
    mixed = replace(shape, moe=moe, mla=mla)
    assert 0 < mixed.active_parameters() <= mixed.parameters()
    full = replace(mixed, moe=replace(moe, top_k=moe.experts))
    assert full.active_parameters() == full.parameters()


@given(SHAPES)
def test_tied_embeddings_save_one_table(shape: Transformer) -> None:
    tied, untied = replace(shape, tied_embeddings=True), replace(shape, tied_embeddings=False)
    assert untied.parameters() - tied.parameters() == shape.vocab * shape.hidden
