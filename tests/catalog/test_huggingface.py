"""Hugging Face config.json files of real models (relevant keys only), and wrong files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuyard.catalog.huggingface.read import read_config
from gpuyard.catalog.huggingface.roles import ROLES
from gpuyard.catalog.huggingface.types import known_types
from gpuyard.catalog.load import load_catalog
from gpuyard.catalog.models import Model
from gpuyard.errors import InputError

CATALOG = load_catalog()

# catalog name -> its published config
PUBLISHED = {
    "llama-3.1-8b": """{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
        "max_position_embeddings": 131072, "num_attention_heads": 32, "num_hidden_layers": 32,
        "num_key_value_heads": 8, "tie_word_embeddings": false, "vocab_size": 128256}""",
    "llama-2-13b": """{"model_type": "llama", "hidden_size": 5120, "intermediate_size": 13824,
        "max_position_embeddings": 4096, "num_attention_heads": 40, "num_hidden_layers": 40, "vocab_size": 32000}""",
    "llama-3.2-1b": """{"model_type": "llama", "head_dim": 64, "hidden_size": 2048, "intermediate_size": 8192,
        "max_position_embeddings": 131072, "num_attention_heads": 32, "num_hidden_layers": 16,
        "num_key_value_heads": 8, "tie_word_embeddings": true, "vocab_size": 128256}""",
    "mistral-7b": """{"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
        "max_position_embeddings": 32768, "num_attention_heads": 32, "num_hidden_layers": 32,
        "num_key_value_heads": 8, "sliding_window": 4096, "tie_word_embeddings": false, "vocab_size": 32000}""",
    "mixtral-8x7b": """{"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
        "max_position_embeddings": 32768, "num_attention_heads": 32, "num_experts_per_tok": 2,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8, "sliding_window": null,
        "tie_word_embeddings": false, "vocab_size": 32000}""",
    "qwen2.5-7b": """{"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
        "max_position_embeddings": 131072, "num_attention_heads": 28, "num_hidden_layers": 28,
        "num_key_value_heads": 4, "sliding_window": 131072, "tie_word_embeddings": false,
        "use_sliding_window": false, "vocab_size": 152064}""",
    "qwen3-32b": """{"model_type": "qwen3", "head_dim": 128, "hidden_size": 5120, "intermediate_size": 25600,
        "max_position_embeddings": 40960, "num_attention_heads": 64, "num_hidden_layers": 64,
        "num_key_value_heads": 8, "sliding_window": null, "tie_word_embeddings": false,
        "use_sliding_window": false, "vocab_size": 151936}""",
    "qwen3-30b-a3b": """{"model_type": "qwen3_moe", "decoder_sparse_step": 1, "head_dim": 128, "hidden_size": 2048,
        "intermediate_size": 6144, "max_position_embeddings": 40960, "mlp_only_layers": [],
        "moe_intermediate_size": 768, "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8,
        "num_hidden_layers": 48, "num_key_value_heads": 4, "tie_word_embeddings": false, "vocab_size": 151936}""",
    "gemma-7b": """{"model_type": "gemma", "head_dim": 256, "hidden_size": 3072, "intermediate_size": 24576,
        "max_position_embeddings": 8192, "num_attention_heads": 16, "num_hidden_layers": 28,
        "num_key_value_heads": 16, "vocab_size": 256000}""",
    "gemma-2-9b": """{"model_type": "gemma2", "head_dim": 256, "hidden_size": 3584, "intermediate_size": 14336,
        "max_position_embeddings": 8192, "num_attention_heads": 16, "num_hidden_layers": 42,
        "num_key_value_heads": 8, "sliding_window": 4096, "vocab_size": 256000}""",
    "gemma-3-4b": """{"model_type": "gemma3", "text_config": {"hidden_size": 2560, "intermediate_size": 10240,
        "model_type": "gemma3_text", "num_hidden_layers": 34, "sliding_window": 1024},
        "vision_config": {"hidden_size": 1152}}""",
    "gpt-neox-20b": """{"model_type": "gpt_neox", "hidden_size": 6144, "intermediate_size": 24576,
        "max_position_embeddings": 2048, "num_attention_heads": 64, "num_hidden_layers": 44,
        "tie_word_embeddings": false, "vocab_size": 50432}""",
    "gpt-j-6b": """{"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_inner": null, "n_layer": 28,
        "n_positions": 2048, "tie_word_embeddings": false, "vocab_size": 50400}""",
    "falcon-7b": """{"model_type": "falcon", "hidden_size": 4544, "multi_query": true,
        "new_decoder_architecture": false, "num_attention_heads": 71, "num_hidden_layers": 32,
        "num_kv_heads": 71, "vocab_size": 65024}""",
    "falcon-40b": """{"model_type": "falcon", "hidden_size": 8192, "multi_query": true,
        "new_decoder_architecture": true, "num_attention_heads": 128, "num_hidden_layers": 60,
        "num_kv_heads": 8, "vocab_size": 65024}""",
    "mpt-7b": """{"model_type": "mpt", "attn_config": {"alibi": true}, "d_model": 4096, "expansion_ratio": 4,
        "max_seq_len": 2048, "n_heads": 32, "n_layers": 32, "vocab_size": 50432}""",
    "bloom-176b": """{"model_type": "bloom", "n_embed": 14336, "n_layer": 70, "num_attention_heads": 112,
        "seq_length": 2048, "vocab_size": 250880}""",
    "opt-175b": """{"model_type": "opt", "ffn_dim": 49152, "hidden_size": 12288, "max_position_embeddings": 2048,
        "num_attention_heads": 96, "num_hidden_layers": 96, "vocab_size": 50272}""",
    "phi-3-mini": """{"model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192,
        "max_position_embeddings": 4096, "num_attention_heads": 32, "num_hidden_layers": 32,
        "num_key_value_heads": 32, "sliding_window": 2047, "tie_word_embeddings": false, "vocab_size": 32064}""",
    "deepseek-v3": """{"model_type": "deepseek_v3", "first_k_dense_replace": 3, "hidden_size": 7168,
        "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840,
        "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_routed_experts": 256, "n_shared_experts": 1,
        "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128,
        "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "tie_word_embeddings": false,
        "v_head_dim": 128, "vocab_size": 129280}""",
    "deepseek-v2-lite": """{"model_type": "deepseek_v2", "first_k_dense_replace": 1, "hidden_size": 2048,
        "intermediate_size": 10944, "kv_lora_rank": 512, "max_position_embeddings": 163840,
        "moe_intermediate_size": 1408, "moe_layer_freq": 1, "n_routed_experts": 64, "n_shared_experts": 2,
        "num_attention_heads": 16, "num_experts_per_tok": 6, "num_hidden_layers": 27, "num_key_value_heads": 16,
        "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "tie_word_embeddings": false,
        "v_head_dim": 128, "vocab_size": 102400}""",
    "gpt-oss-120b": """{"model_type": "gpt_oss", "head_dim": 64, "hidden_size": 2880, "intermediate_size": 2880,
        "max_position_embeddings": 131072, "num_attention_heads": 64, "num_experts_per_tok": 4,
        "num_hidden_layers": 36, "num_key_value_heads": 8, "num_local_experts": 128, "sliding_window": 128,
        "tie_word_embeddings": false, "vocab_size": 201088}""",
    "llama-4-maverick": """{"model_type": "llama4", "text_config": {"attention_chunk_size": 8192, "head_dim": 128,
        "hidden_size": 5120, "interleave_moe_layer_step": 2, "intermediate_size": 8192,
        "intermediate_size_mlp": 16384, "max_position_embeddings": 1048576, "num_attention_heads": 40,
        "num_experts_per_tok": 1, "num_hidden_layers": 48, "num_key_value_heads": 8, "num_local_experts": 128,
        "vocab_size": 202048}}""",
    "bert-base": """{"model_type": "bert", "hidden_size": 768, "intermediate_size": 3072,
        "max_position_embeddings": 512, "num_attention_heads": 12, "num_hidden_layers": 12, "vocab_size": 30522}""",
    "nemotron-4-340b": """{"model_type": "nemotron", "hidden_size": 18432, "intermediate_size": 73728,
        "max_position_embeddings": 4096, "num_attention_heads": 96, "num_hidden_layers": 96,
        "num_key_value_heads": 8, "tie_word_embeddings": false, "vocab_size": 256000}""",
}
# Where a file and the catalog rightly differ: the benchmark's MPT, a padded vocabulary, a context that one leaves out.
SHAPE_DIFFERS = {
    "mpt-7b",
    "gemma-3-4b",
    "bloom-176b",
    "falcon-7b",
    "falcon-40b",
    "mistral-7b",
    "gemma-7b",
}


def written(folder: Path, text: str) -> Path:
    """The text as a config.json."""
    path = folder / "config.json"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_config_matches_catalog_size(name: str, tmp_path: Path) -> None:
    model, row = read_config(written(tmp_path, PUBLISHED[name])), CATALOG.model(name)
    assert row.transformer
    assert model.kind == row.kind
    assert model.parameters_count == pytest.approx(row.transformer.parameters(), rel=0.003)
    if row.transformer.moe:
        assert model.active_parameters_count == row.transformer.active_parameters()


@pytest.mark.parametrize("name", sorted(set(PUBLISHED) - SHAPE_DIFFERS))
def test_published_config_matches_catalog_shape(name: str, tmp_path: Path) -> None:
    read, row = (
        read_config(written(tmp_path, PUBLISHED[name])).transformer,
        CATALOG.model(name).transformer,
    )
    assert read
    assert row
    for field in (
        "layers",
        "hidden",
        "heads",
        "key_value_heads",
        "head_width",
        "vocab",
        "gated",
        "tied_embeddings",
        "max_context_tokens",
        "sliding_window_tokens",
        "full_attention_every",
        "query_norms",
        "moe",
        "mla",
    ):
        assert getattr(read, field) == getattr(row, field), field


def test_gpt2_config_is_read(tmp_path: Path) -> None:
    text = """{"model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12,
        "n_positions": 1024, "vocab_size": 50257}"""
    assert read_config(written(tmp_path, text)).parameters_count == pytest.approx(
        124_439_808, rel=0.001
    )


def test_folder_of_config_names_model(tmp_path: Path) -> None:
    folder = tmp_path / "my-llama"
    folder.mkdir()
    written(folder, PUBLISHED["llama-3.1-8b"])
    assert read_config(folder).name == "my-llama"
    assert read_config(folder / "config.json").name == "my-llama"


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        ("{", "not JSON", "fix the syntax"),
        ("[1, 2]", "not a model config", "config.json"),
        ("{}", '"model_type" is missing', "describe it under model:"),
        ('{"model_type": "lama"}', 'unknown model_type "lama"', 'did you mean "llama"?'),
        ('{"model_type": "wxyz"}', 'unknown model_type "wxyz"', "describe it under model:"),
        ('{"model_type": 7}', '"model_type" is missing', "add it"),
        ('{"model_type": "gemma3"}', '"text_config" is missing', "published config.json"),
        (
            '{"model_type": "llama", "hidden_size": 8}',
            '"num_hidden_layers" is missing',
            'add "num_hidden_layers"',
        ),
    ],
)
def test_wrong_config_raises_input_error_with_fix(
    text: str, what: str, fix: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        read_config(written(tmp_path, text))
    problem = caught.value.problems[0]
    assert what in problem.what
    assert fix in problem.fix
    assert "config.json" in problem.where


def test_missing_keys_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_config(written(tmp_path, '{"model_type": "mixtral", "num_local_experts": 8}'))
    text = str(caught.value)
    for key in (
        "num_hidden_layers",
        "hidden_size",
        "num_attention_heads",
        "vocab_size",
        "num_experts_per_tok",
    ):
        assert f'"{key}" is missing' in text


@pytest.mark.parametrize("value", ["0", "-3", "true", '"many"', "1.5", "[4]", "99999999999"])
def test_wrong_number_is_reported_at_its_key(value: str, tmp_path: Path) -> None:
    text = PUBLISHED["llama-3.1-8b"].replace(
        '"num_hidden_layers": 32', f'"num_hidden_layers": {value}'
    )
    with pytest.raises(InputError, match="num_hidden_layers"):
        read_config(written(tmp_path, text))


def test_number_beyond_64_bits_is_not_json(tmp_path: Path) -> None:
    text = PUBLISHED["llama-3.1-8b"].replace("32", "1e400", 1)
    with pytest.raises(InputError, match="1e400 is too large"):
        read_config(written(tmp_path, text))


def test_heads_must_divide_hidden_size(tmp_path: Path) -> None:
    text = PUBLISHED["llama-3.1-8b"].replace(
        '"num_attention_heads": 32', '"num_attention_heads": 31'
    )
    with pytest.raises(InputError, match="4096 is not a multiple of 31"):
        read_config(written(tmp_path, text))


def test_missing_config_raises_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_config(tmp_path / "config.json")
    with pytest.raises(InputError, match="no such file"):
        read_config(tmp_path)


KEYS = sorted(
    {key for names in ROLES.values() for key in names}
    | {"tie_word_embeddings", "use_sliding_window", "multi_query", "layer_types", "mlp_layer_types"}
)
NUMBERS = st.integers(1, 64)
ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)  # fmt: skip
VALUES = st.one_of(NUMBERS, NUMBERS, NUMBERS, ODD)
CONFIGS = st.fixed_dictionaries(
    {"model_type": st.one_of(st.sampled_from(known_types()), ODD)},
    optional={
        **dict.fromkeys(KEYS, VALUES),
        "text_config": st.dictionaries(st.sampled_from(KEYS), VALUES),
    },
)


@pytest.mark.slow
@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(CONFIGS)
def test_any_config_is_read_or_raises_input_error(
    tmp_path: Path, content: dict[str, object]
) -> None:
    path = written(tmp_path, json.dumps(content))
    try:
        model = read_config(path)
    except InputError as error:
        assert error.problems
        assert all(problem.where and problem.what and problem.fix for problem in error.problems)
    else:
        assert isinstance(model, Model)
        if model.transformer is None:
            assert model.kind == "vision"
            return
        assert 0 < model.transformer.active_parameters() <= model.transformer.parameters()
        assert model.transformer.parameters() <= model.parameters_count


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_raise_input_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(InputError):
        read_config(path)
