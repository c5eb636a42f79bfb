"""Model types of the transformers library: sizes, hybrid layers, sections, unknown types."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuyard.catalog.huggingface.read import read_config
from gpuyard.catalog.huggingface.types import TABLE, known_types, type_info
from gpuyard.catalog.models import LinearAttention, Model
from gpuyard.errors import InputError

# Layers, hidden size, and parameters of the class's default config, counted on torch's meta device
# (transformers 5.22.2); heads, experts and the rest are the class's defaults.
COUNTED = {
    "glm4": (40, 4096, 9400279040),
    "glm4_moe_lite": (47, 2048, 29943390976),
    "glm_moe_dsa": (78, 6144, 743911199232),
    "deepseek_v3": (61, 7168, 671026404352),
    "deepseek_v32": (61, 7168, 671877929216),
    "deepseek_v4": (43, 4096, 284325869015),
    "gemma2": (26, 2304, 2614341888),
    "gemma3_text": (26, 2304, 2628658432),
    "mamba": (32, 768, 159308544),
    "mamba2": (64, 4096, 7285403648),
    "falcon_mamba": (32, 768, 159308544),
    "bamba": (32, 4096, 9992765440),
    "falcon_h1": (32, 4096, 8514961408),
    "minimax_m2": (62, 3072, 228689748992),
    "olmo2": (32, 4096, 6888624128),
    "olmo3": (32, 4096, 6888624128),
    "olmoe": (16, 2048, 13361612800),
    "smollm3": (36, 2048, 3075098624),
    "seed_oss": (64, 4096, 28921040896),
    "starcoder2": (30, 3072, 3030371328),
    "modernbert": (22, 768, 149655232),
    "deberta-v2": (24, 1536, 879999588),
    "distilbert": (6, 768, 66985530),
    "roberta": (12, 768, 124696665),
    "t5": (6, 512, 60506624),
    "mt5": (8, 512, 172119424),
    "m2m_100": (12, 1024, 483905536),
    "xglm": (24, 1024, 564463616),
    "ernie4_5_moe": (28, 2560, 21825437888),
    "exaone4": (32, 4096, 9429069824),
    "cohere2": (40, 8192, 34980831232),
    "rwkv": (32, 4096, 7392649216),
    "phimoe": (32, 4096, 41872793600),
    "gpt_oss": (36, 2880, 116829156672),
    "granitemoe": (32, 4096, 37039116288),
    "apertus": (32, 4096, 6979596352),
    "arcee": (32, 2560, 4022766080),
    "mixtral": (32, 4096, 46702792704),
    "stablelm": (32, 2560, 2795443200),
    "phi3": (32, 3072, 3821079552),
    "qwen3_next": (48, 2048, 79674391296),
    "qwen3_5_moe_text": (40, 2048, 34660610688),
    "jamba": (32, 4096, 51570323328),
    "vit": (12, 768, 86389248),
    "dinov2": (12, 768, 85725696),
    "persimmon": (36, 4096, 9397175296),
}
LAYER_KEYS = {"t5": "num_layers", "mt5": "num_layers", "m2m_100": "decoder_layers", "xglm": "num_layers",
              "distilbert": "n_layers"}  # fmt: skip
HIDDEN_KEYS = {
    "t5": "d_model",
    "mt5": "d_model",
    "m2m_100": "d_model",
    "xglm": "d_model",
    "distilbert": "dim",
}


def read(folder: Path, content: dict[str, object]) -> Model:
    path = folder / "config.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return read_config(path)


@pytest.mark.parametrize("name", COUNTED)
def test_size_of_a_type_is_that_of_the_built_model(name: str, tmp_path: Path) -> None:
    layers, hidden, count = COUNTED[name]
    keys = {
        LAYER_KEYS.get(name, "num_hidden_layers"): layers,
        HIDDEN_KEYS.get(name, "hidden_size"): hidden,
    }
    model = read(tmp_path, {"model_type": name, **keys})
    assert model.parameters_count == pytest.approx(count, rel=0.05)
    assert not model.shape_is_estimated


SHAPE = {"hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 4,
         "head_dim": 64, "intermediate_size": 4096, "vocab_size": 32000}  # fmt: skip


def test_every_known_type_is_read_or_names_its_missing_keys(tmp_path: Path) -> None:
    refused = 0
    names = known_types()[::4]
    for name in names:
        try:
            model = read(tmp_path, {"model_type": name, **SHAPE})
        except InputError as error:
            refused += 1
            assert all(
                "missing" in item.what or "without" in item.what for item in error.problems
            ), name
        else:
            assert model.parameters_count > 0
    assert len(known_types()) > 700  # every fourth is read here
    assert refused < 0.35 * len(names)  # detection, segmentation, codecs


def test_interval_of_full_attention_makes_the_others_linear(tmp_path: Path) -> None:
    model = read(tmp_path, {"model_type": "qwen3_next", **SHAPE, "full_attention_interval": 4,
                            "linear_num_key_heads": 16, "linear_key_head_dim": 128,
                            "linear_num_value_heads": 32, "linear_value_head_dim": 128})  # fmt: skip
    shape = model.transformer
    assert shape
    assert shape.linear
    assert (shape.softmax_layers, shape.linear.layers) == (2, 6)
    assert (shape.linear.key_dim, shape.linear.value_dim, shape.linear.state_dim) == (
        2048,
        4096,
        128,
    )


def test_blocks_of_nemotron_h_are_mixers_or_ffns(tmp_path: Path) -> None:
    model = read(tmp_path, {"model_type": "nemotron_h", **SHAPE, "hybrid_override_pattern": "M-M-M*-E",
                            "ssm_state_size": 128, "mamba_num_heads": 16, "mamba_head_dim": 64, "n_groups": 8,
                            "n_routed_experts": 4, "num_experts_per_tok": 2,
                            "moe_intermediate_size": 512})  # fmt: skip
    shape = model.transformer
    assert shape
    assert shape.linear
    assert (shape.softmax_layers, shape.linear.layers, shape.mlp_layers, shape.expert_layers) == (
        1,
        3,
        4,
        1,
    )
    assert shape.linear.value_dim == 1024


def test_infinite_limits_of_state_space_configs_are_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    text = json.dumps({"model_type": "mamba2", **SHAPE, "time_step_limit": [0.0, float("inf")]})
    path.write_text(text, encoding="utf-8")
    assert "Infinity" in text
    shape = read_config(path).transformer
    assert shape
    assert (shape.softmax_layers, shape.mlp_layers) == (0, 0)


def test_lists_of_kimi_linear_name_the_layers_with_attention(tmp_path: Path) -> None:
    model = read(tmp_path, {"model_type": "kimi_linear", **SHAPE, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
                            "qk_nope_head_dim": 128, "v_head_dim": 128, "num_experts": 0,
                            "linear_attn_config": {"full_attn_layers": [4, 8], "head_dim": 128, "num_heads": 8,
                                                   "kda_layers": [1, 2, 3, 5, 6, 7]}})  # fmt: skip
    shape = model.transformer
    assert shape
    assert shape.linear
    assert (shape.softmax_layers, shape.linear.layers, shape.linear.value_dim) == (2, 6, 1024)


def test_sparse_attention_is_read(tmp_path: Path) -> None:
    model = read(tmp_path, {"model_type": "deepseek_v32", **SHAPE, "index_topk": 2048, "index_n_heads": 64,
                            "index_head_dim": 128})  # fmt: skip
    assert model.transformer
    assert model.transformer.sparse
    assert model.transformer.sparse.top_k_tokens == 2048


def test_layer_types_count_windows(tmp_path: Path) -> None:
    kinds = ["sliding_attention"] * 3 + ["full_attention"] + ["sliding_attention"] * 4
    model = read(
        tmp_path, {"model_type": "olmo3", **SHAPE, "layer_types": kinds, "sliding_window": 4096}
    )
    assert model.transformer
    assert (model.transformer.full_layers, model.transformer.softmax_layers) == (1, 8)


def test_language_model_of_composite_config_has_separate_towers(tmp_path: Path) -> None:
    vision = {
        "hidden_size": 1024,
        "depth": 24,
        "num_heads": 16,
        "intermediate_size": 4096,
        "patch_size": 16,
    }
    model = read(tmp_path, {"model_type": "qwen3_vl", "text_config": {"model_type": "qwen3_vl_text", **SHAPE},
                            "vision_config": vision})  # fmt: skip
    assert model.kind == "decoder"
    assert model.transformer
    assert model.other_parameters_count == pytest.approx(24 * 12 * 1024**2, rel=0.02)
    assert model.parameters_count == model.transformer.parameters() + model.other_parameters_count


def test_language_keys_at_the_root_of_a_composite_type_are_read(tmp_path: Path) -> None:
    assert read(tmp_path, {"model_type": "qwen2_5_vl", **SHAPE}).kind == "decoder"


def test_encoder_decoders_count_both_and_cross_attention(tmp_path: Path) -> None:
    model = read(tmp_path, {"model_type": "whisper", "d_model": 1280, "encoder_layers": 32, "decoder_layers": 32,
                            "encoder_attention_heads": 20, "decoder_attention_heads": 20,
                            "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120, "vocab_size": 51866,
                            "max_source_positions": 1500, "max_target_positions": 448})  # fmt: skip
    assert model.kind == "encoder-decoder"
    assert model.parameters_count == pytest.approx(1.543e9, rel=0.01)  # openai/whisper-large-v3


def test_image_encoders_have_the_flop_of_an_image(tmp_path: Path) -> None:
    model = read(tmp_path, {"model_type": "vit", "hidden_size": 1024, "num_hidden_layers": 24,
                            "num_attention_heads": 16, "intermediate_size": 4096, "image_size": 224,
                            "patch_size": 16})  # fmt: skip
    assert model.kind == "vision"
    assert model.forward_flop_per_sample == pytest.approx(1.23e11, rel=0.03)  # ViT-L/16, 61.6 GMACs


def test_unknown_types_are_read_by_generic_keys_with_wider_bars(tmp_path: Path) -> None:
    model = read(tmp_path, {"model_type": "brand_new", **SHAPE})
    assert model.shape_is_estimated
    assert "unknown model_type" in model.note


def test_unknown_type_without_sizes_names_them(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, {"model_type": "brand_new", "hidden_size": 64})
    what = caught.value.problems[0].what
    for key in ("num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"):
        assert key in what


def test_dense_types_ignore_expert_keys(tmp_path: Path) -> None:
    model = read(
        tmp_path, {"model_type": "smollm3", **SHAPE, "num_experts": 8, "num_experts_per_tok": 2}
    )
    assert model.active_parameters_count is None


def test_defaults_in_use_are_named(tmp_path: Path) -> None:
    model = read(
        tmp_path, {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34}
    )
    assert "vocab_size 262208" in model.note


def test_table_of_types_has_its_version_and_no_crash_of_lookup() -> None:
    assert json.loads(TABLE.read_text(encoding="utf-8"))["transformers"]
    assert type_info("kimi_k2") == type_info("deepseek_v3")
    assert type_info("brand_new") is None


def test_weights_of_linear_layers() -> None:
    linear = LinearAttention(layers=1, key_dim=8, value_dim=16, state_dim=4, other_weights=5)
    assert linear.parameters(hidden=10) == 10 * (2 * 8 + 2 * 16 + 16) + 5
