"""The language model of one section of a config as a Transformer."""

from __future__ import annotations

from gpuyard.catalog.huggingface.keys import ConfigKeys
from gpuyard.catalog.huggingface.layers import LayerMix, layer_mix
from gpuyard.catalog.huggingface.roles import ROLES, Role
from gpuyard.catalog.huggingface.states import linear_attention
from gpuyard.catalog.models import (
    Encoder,
    LatentAttention,
    MixtureOfExperts,
    SparseAttention,
    Transformer,
)

# Types without a separate key for the size of the MLP: times the hidden size.
FFN_PER_HIDDEN = dict.fromkeys(
    ("gpt2", "gpt-sw3", "gpt_bigcode", "gptj", "bloom", "mpt", "falcon", "codegen", "gpt_neo",
     "gpt_neox_japanese", "openai-gpt"), 4,
)  # fmt: skip


def transformer(config: ConfigKeys) -> Transformer | None:
    """Return the shape, or None with problems in `config`."""
    info = config.info
    layers, hidden = _size(config, "layers"), _size(config, "hidden")
    vocab = _vocab(config)
    mix = layer_mix(config, layers)
    heads = 1 if info.state_only else _heads(config, bool(layers and hidden))
    mla = _latent(config) if "mla" in info.features and _has_latent(config) else None
    head_dim = _head_dim(config, hidden, heads, mla)
    moe = _experts(config, layers, mix)
    ffn = _ffn(config, hidden, moe, mix)
    linear = linear_attention(config, mix.linear, hidden) if mix.linear else None
    if config.problems:
        return None
    window = _window(config)
    if mix.softmax - (mix.full if mix.full is not None else mix.softmax) and window is None:
        window = config.defaulted("window")
    return Transformer(
        layers=layers,
        hidden=hidden,
        heads=heads,
        ffn=ffn,
        vocab=vocab,
        kv_heads=_kv_heads(config),
        head_dim=head_dim,
        gated=_gated(config),
        tied_embeddings=_tied(config),
        learned_positions=_positions(config),
        max_context_tokens=config.defaulted("context", 0) or None,
        sliding_window_tokens=window,
        full_attention_every=_full_every(config, mix) if window else None,
        full_attention_layers=mix.full if window else None,
        attention_layers=mix.softmax if mix.softmax != layers - mix.linear else None,
        ffn_layers=mix.ffn,
        shared_kv_layers=min(config.defaulted("shared_kv_layers", 0) or 0, layers),
        attention_gate=bool(config.flag("attn_output_gate")) or info.name.startswith("qwen3_next"),
        keys_are_values=bool(config.flag("attention_k_eq_v")),
        full_head_dim=config.defaulted("full_head_dim", 0) or None,
        full_kv_heads=config.defaulted("full_kv_heads", 0) or None,
        query_norms=info.norms,
        moe=moe,
        mla=mla,
        linear=linear,
        sparse=_sparse(config),
        encoder=_encoder(config) if info.kind == "encoder-decoder" else None,
    )


def _size(config: ConfigKeys, role: Role) -> int:
    """Layers and hidden size: never a default, which would be another model's."""
    if config.info.kind == "encoder-decoder" and role == "layers":
        for name in ("decoder_layers", "num_decoder_layers"):
            if getattr(config.keys.get(name), "value", None) is not None:
                return config.named(name)
    if config.given(role):
        return config.number(role) or 0
    if role == "layers" and (listed := config.items("layers_block_type")):
        return len(listed)
    config.missing(config.name_of(role))
    return 0


def _heads(config: ConfigKeys, complete: bool) -> int:
    """Return the heads; the library's default only with a complete size."""
    if not complete and not config.given("heads"):
        config.missing(config.name_of("heads"))
        return 0
    return config.required("heads")


def _vocab(config: ConfigKeys) -> int:
    if not config.given("layers") and not config.given("vocab"):
        config.missing(config.name_of("vocab"))
        return 0
    if config.outer is not None and not config.given("vocab"):
        outer = ConfigKeys(config.outer, config.info)
        if outer.given("vocab"):
            return outer.number("vocab") or 0
    return config.required("vocab")


def _head_dim(
    config: ConfigKeys, hidden: int, heads: int, mla: LatentAttention | None
) -> int | None:
    if config.info.state_only:
        return None
    if mla:
        return config.number("head_dim", 0) or None
    head_dim = config.defaulted("head_dim", 0) or None
    if config.info.name == "gpt_neox" or not head_dim:
        head_dim = head_dim if config.given("head_dim") else None
    if not head_dim and heads and hidden % heads:
        config.wrong(
            config.keys.location,
            f"hidden {hidden} is not a multiple of {heads} heads",
            'add "head_dim"',
        )
    return head_dim


def _kv_heads(config: ConfigKeys) -> int | None:
    if config.info.state_only:
        return None
    multi_query = config.flag("multi_query") and not config.flag("new_decoder_architecture")
    if multi_query and config.info.name in ("falcon", "gpt_bigcode"):
        return 1
    # The default is of one size: with other heads, a missing number means one per query head.
    heads = config.number("heads")
    if heads is not None and heads not in (config.info.defaults.get(key) for key in ROLES["heads"]):
        return config.number("kv_heads", 0) or None
    return config.defaulted("kv_heads", 0) or None


def _ffn(config: ConfigKeys, hidden: int, moe: MixtureOfExperts | None, mix: LayerMix) -> int:
    """Return the width of a dense FFN."""
    info = config.info
    if info.state_only or mix.ffn == 0:
        return 0
    if config.keys.get("intermediate_size_mlp") is not None:  # Llama 4: of the dense layers
        return config.named("intermediate_size_mlp")
    if not config.given("ffn"):
        ratio = config.ratio("ffn_ratio") or FFN_PER_HIDDEN.get(info.name)
        if ratio:
            return round(ratio * hidden)
        if not config.given("layers"):
            config.missing(config.name_of("ffn"))
            return 0
        if moe and not config.defaulted("ffn"):
            return moe.expert_ffn
    width = config.required("ffn")
    if info.name == "recurrent_gemma":
        return width // 2  # its key is the width of gate and values together
    if info.name.startswith("lfm2") and config.flag("block_auto_adjust_ff_dim"):
        return 256 * -(-(2 * width // 3) // 256)  # two thirds, in blocks of 256
    return width


def _experts(config: ConfigKeys, layers: int, mix: LayerMix) -> MixtureOfExperts | None:
    if "moe" not in config.info.features:
        return None
    experts = config.defaulted("experts", 0)
    if not experts or (experts == 1 and config.info.name != "") or mix.moe == 0:
        return None
    dense_layers = config.defaulted("dense_layers", 0) or 0
    if layers and dense_layers > layers:
        config.wrong(
            config.keys.location,
            f"{dense_layers} dense layers of {layers}",
            f'fix "{config.name_of("dense_layers")}"',
        )
    complete = config.given("layers") and config.given("hidden")
    if not complete and not config.given("top_k"):
        config.missing(config.name_of("top_k"))
        return None
    top_k = config.required("top_k")
    if top_k > experts:
        config.wrong(
            config.keys.location,
            f"{top_k} experts per token of {experts}",
            f'fix "{config.name_of("top_k")}"',
        )
    expert_ffn = config.required("expert_ffn")
    shared = config.defaulted("shared_experts", 0) or 0
    shared_ffn = config.defaulted("shared_ffn", 0) or 0
    if shared_ffn and shared > 1 and "n_shared_experts" not in config.info.defaults:
        shared_ffn //= shared  # the width of all together
    if config.info.name in ("llama4_text",) or (shared_ffn and not shared):
        shared = 1
    return MixtureOfExperts(
        experts=experts,
        top_k=max(1, top_k),
        expert_ffn=max(1, expert_ffn),
        shared_experts=shared,
        shared_ffn=shared_ffn,
        dense_layers=dense_layers if mix.moe is None else 0,
        every=config.defaulted("moe_every") or 1 if mix.moe is None else 1,
        layers=mix.moe,
    )


def _has_latent(config: ConfigKeys) -> bool:
    return config.info.name != "" or config.given("kv_rank")


def _latent(config: ConfigKeys) -> LatentAttention | None:
    if not config.defaulted("kv_rank", 0):
        config.required("kv_rank")
    roles: tuple[Role, ...] = ("kv_rank", "rope_dim", "nope_dim", "value_dim")
    values = [config.required(role) for role in roles]
    kv_rank, rope_dim, nope_dim, value_dim = values
    if not all(values):
        return None
    return LatentAttention(
        kv_rank=kv_rank,
        rope_dim=rope_dim,
        nope_dim=nope_dim,
        value_dim=value_dim,
        q_rank=config.number("q_rank", 0) or 0,
    )


def _sparse(config: ConfigKeys) -> SparseAttention | None:
    if "sparse" not in config.info.features:
        return None
    top_k = config.defaulted("index_top_k", 0)
    heads, width = config.defaulted("index_heads", 0), config.defaulted("index_dim", 0)
    if not (top_k and heads and width):
        return None
    return SparseAttention(top_k_tokens=top_k, heads=heads, head_dim=width)


def _encoder(config: ConfigKeys) -> Encoder | None:
    return Encoder(
        layers=config.required("encoder_layers"),
        heads=config.required("encoder_heads"),
        ffn=config.required("encoder_ffn"),
        tokens=config.defaulted("encoder_tokens"),
    )


def _window(config: ConfigKeys) -> int | None:
    if "window" not in config.info.features or config.flag("use_sliding_window") is False:
        return None
    node = next((config.keys.get(key) for key in ROLES["window"] if config.keys.get(key)), None)
    if node is not None and getattr(node, "value", 1) is None:
        return None
    return config.defaulted("window", 0) or None


def _full_every(config: ConfigKeys, mix: LayerMix) -> int | None:
    if mix.full is not None:
        return None
    return config.number("full_every") or config.info.full_every


def _gated(config: ConfigKeys) -> bool:
    form = config.text("feed_forward_proj")  # T5: "relu" or "gated-gelu"
    if form is not None:
        return form.startswith("gated")
    return config.info.gated


def _tied(config: ConfigKeys) -> bool:
    given = config.flag("tie_word_embeddings")
    return config.info.kind == "encoder" if given is None else given


def _positions(config: ConfigKeys) -> int:
    extra = config.info.extra_positions
    if extra is None:
        return 0
    return (config.defaulted("context", 0) or 0) + extra
