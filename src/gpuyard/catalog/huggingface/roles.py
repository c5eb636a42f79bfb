"""Key names under which configs state the same number, the most specific first."""

from __future__ import annotations

from typing import Literal

Role = Literal[
    "layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "context", "window",
    "experts", "top_k", "expert_ffn", "shared_experts", "shared_ffn", "dense_layers", "moe_every",
    "kv_rank", "q_rank", "rope_dim", "nope_dim", "value_dim", "index_top_k", "index_heads",
    "index_dim", "full_every", "shared_kv_layers", "full_head_dim", "full_kv_heads",
    "encoder_layers", "encoder_heads", "encoder_ffn", "encoder_tokens", "decoder_positions",
    "delta_key_heads", "delta_key_dim", "delta_value_heads", "delta_value_dim", "inner_heads",
    "inner_head_dim", "inner", "expand", "state", "groups", "kernel", "step_rank", "lru",
    "layer_input", "layer_vocab", "embedding", "patch", "image", "channels", "ffn_ratio",
    "patches",
]  # fmt: skip

ROLES: dict[Role, tuple[str, ...]] = {
    "layers": (
        "num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "depth",
        "encoder_layers",
    ),
    "hidden": ("hidden_size", "n_embd", "d_model", "n_embed", "embed_dim", "dim", "model_dim"),
    "heads": (
        "num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads",
        "encoder_attention_heads", "attention_heads",
    ),
    "kv_heads": (
        "num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num", "kv_n_heads",
        "num_query_groups", "num_attention_groups", "n_kv_heads",
    ),
    "head_dim": ("head_dim", "attention_head_dim", "d_kv", "kv_channels", "v_channels"),
    "ffn": (
        "intermediate_size", "n_inner", "ffn_dim", "d_ff", "ffn_hidden_size", "decoder_ffn_dim",
        "encoder_ffn_dim", "hidden_dim", "mlp_dim", "intermediate_dim", "block_ff_dim", "dim_ff",
        "dff", "d_inner",
    ),
    "vocab": ("vocab_size", "padded_vocab_size", "n_vocab"),
    "context": (
        "max_position_embeddings", "n_positions", "n_ctx", "seq_length", "max_seq_len",
        "model_max_length", "max_sequence_length", "max_target_positions", "context_length",
    ),
    "window": ("sliding_window", "sliding_window_size", "attention_chunk_size", "local_attention",
               "attention_window_size"),
    "experts": (
        "num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts",
        "num_routed_experts",
    ),
    "top_k": (
        "num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_top_k",
        "moe_topk", "moe_k", "top_k_experts", "num_selected_experts",
    ),
    "expert_ffn": (
        "moe_intermediate_size", "expert_ffn_hidden_size", "expert_intermediate_size",
        "moe_ffn_hidden_size", "intermediate_size", "ffn_dim", "ffn_hidden_size",
    ),
    "shared_experts": (
        "n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts",
    ),
    "shared_ffn": (
        "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
        "shared_intermediate_size", "share_expert_dim",
    ),
    "dense_layers": (
        "first_k_dense_replace", "num_dense_layers", "n_dense_layers", "moe_layer_start_index",
    ),
    "moe_every": (
        "decoder_sparse_step", "moe_layer_freq", "interleave_moe_layer_step", "moe_layer_interval",
        "expert_layer_period", "moe_every_n_layers",
    ),
    "kv_rank": ("kv_lora_rank",),
    "q_rank": ("q_lora_rank",),
    "rope_dim": ("qk_rope_head_dim",),
    "nope_dim": ("qk_nope_head_dim",),
    "value_dim": ("v_head_dim",),
    "index_top_k": ("index_topk",),
    "index_heads": ("index_n_heads",),
    "index_dim": ("index_head_dim",),
    "full_every": (
        "sliding_window_pattern", "_sliding_window_pattern", "full_attention_interval",
        "global_attn_every_n_layers", "layer_group_size",
    ),
    "shared_kv_layers": ("num_kv_shared_layers",),
    "full_head_dim": ("global_head_dim",),
    "full_kv_heads": ("num_global_key_value_heads",),
    "encoder_layers": ("encoder_layers", "num_layers", "num_encoder_layers", "num_hidden_layers"),
    "encoder_heads": ("encoder_attention_heads", "num_heads", "num_attention_heads"),
    "encoder_ffn": ("encoder_ffn_dim", "d_ff", "intermediate_size"),
    "encoder_tokens": ("max_source_positions",),
    "decoder_positions": ("max_target_positions", "max_position_embeddings"),
    "delta_key_heads": ("linear_num_key_heads",),
    "delta_key_dim": ("linear_key_head_dim",),
    "delta_value_heads": ("linear_num_value_heads",),
    "delta_value_dim": ("linear_value_head_dim",),
    "inner_heads": ("mamba_num_heads", "mamba_n_heads", "n_mamba_heads"),
    "inner_head_dim": ("mamba_head_dim", "mamba_d_head", "mamba_headdim"),
    "inner": ("mamba_d_ssm", "mamba_intermediate_size"),
    "expand": ("mamba_expand", "expand"),
    "state": ("ssm_state_size", "mamba_d_state", "state_size", "d_state"),
    "groups": ("mamba_n_groups", "n_groups", "mamba_ngroups"),
    "kernel": (
        "linear_conv_kernel_dim", "mamba_d_conv", "conv_kernel", "conv_L_cache", "conv1d_width",
        "d_conv",
    ),
    "step_rank": ("mamba_dt_rank", "time_step_rank"),
    "lru": ("lru_width",),
    "layer_input": ("hidden_size_per_layer_input",),
    "layer_vocab": ("vocab_size_per_layer_input",),
    "embedding": ("embedding_size", "word_embed_proj_dim"),
    "patch": ("patch_size", "spatial_patch_size"),
    "image": ("image_size",),
    "channels": ("num_channels", "in_channels", "in_chans"),
    "ffn_ratio": ("expansion_ratio", "mlp_ratio"),
    "patches": ("num_patches",),
}  # fmt: skip

# Numbers that only layers.py and states.py read.
LAYER_KEYS = (
    "attn_layer_period",
    "attn_layer_offset",
    "expert_layer_offset",
    "linear_num_heads",
    "linear_head_dim",
)

# Roles without which a shape is only a guess.
CORE: tuple[Role, ...] = ("layers", "hidden", "heads", "ffn", "vocab")

# Sections of composite configs with the language model, the first that exists.
TEXT_SECTIONS = (
    "text_config", "thinker_config", "llm_config", "language_config", "language_model_config",
    "text_model_config", "decoder_config", "decoder", "talker_config",
)  # fmt: skip
VISION_SECTIONS = ("vision_config", "vit_config", "vision_tower_config", "visual")
AUDIO_SECTIONS = ("audio_config", "speech_config", "audio_encoder_config", "encoder_config")
