"""Sizes of layers with a state: gated delta nets, Mamba 1 and 2, KDA, lightning, convolutions."""

from __future__ import annotations

from gpuyard.catalog.huggingface.keys import ConfigKeys
from gpuyard.catalog.models import LinearAttention

KERNEL = 4  # elements of the causal convolution where the file has none


def linear_attention(config: ConfigKeys, layers: int, hidden: int) -> LinearAttention | None:
    """Return the linear layers; a problem names the keys that are missing."""
    for read in (_delta, _kda, _mamba2, _mamba1, _recurrent, _short_convolution, _lightning):
        linear = read(config, layers, hidden)
        if linear is not None:
            return linear
    config.missing("linear_num_key_heads")
    return None


def _delta(config: ConfigKeys, layers: int, hidden: int) -> LinearAttention | None:
    """Gated delta net (Qwen3-Next, Qwen3.5, OLMo hybrid): queries and keys, values, gate, decay."""
    heads, width = config.defaulted("delta_key_heads"), config.defaulted("delta_key_dim")
    values, value_width = (
        config.defaulted("delta_value_heads"),
        config.defaulted("delta_value_dim"),
    )
    if not (heads and width and values and value_width):
        return None
    key_dim, value_dim = heads * width, values * value_width
    kernel = config.defaulted("kernel") or KERNEL
    return LinearAttention(
        layers=layers,
        key_dim=key_dim,
        value_dim=value_dim,
        state_dim=width,
        other_weights=2 * hidden * values + kernel * (2 * key_dim + value_dim),
    )


def _kda(config: ConfigKeys, layers: int, hidden: int) -> LinearAttention | None:
    """Kimi delta attention: gates through a bottleneck of the head dimension."""
    if config.info.name != "kimi_linear" and config.keys.get("linear_attn_config") is None:
        return None
    section = config.keys.get("linear_attn_config")
    heads = config.info.defaults.get("linear_num_heads", 0) or config.defaulted("heads") or 0
    width = config.info.defaults.get("linear_head_dim", 0) or 128
    for node, name in ((section, ""), (config.keys, "linear_")):
        get = getattr(node, "get", None)
        if get is None:
            continue
        heads = getattr(get(f"{name}num_heads"), "value", None) or heads
        width = getattr(get(f"{name}head_dim"), "value", None) or width
    heads, width = int(heads), int(width)
    inner = heads * width
    return LinearAttention(
        layers=layers,
        key_dim=inner,
        value_dim=inner,
        state_dim=width,
        gated=False,
        other_weights=2 * width * (hidden + inner) + hidden * heads + 3 * KERNEL * inner,
    )


def _mamba2(config: ConfigKeys, layers: int, hidden: int) -> LinearAttention | None:
    """Mamba 2 (also in Nemotron-H, Bamba, Falcon-H1, Granite 4, Zamba 2)."""
    state = config.defaulted("state")
    heads, width = config.defaulted("inner_heads"), config.defaulted("inner_head_dim")
    if config.info.name == "mamba2" or config.text("model_type") == "mamba2":
        heads, width = config.defaulted("heads"), config.defaulted("head_dim")
    ratio = config.ratio("expand")
    inner = config.number("inner") or (config.defaulted("inner") if config.info.parallel else None)
    inner = inner or (heads * width if heads and width else None)
    inner = inner or (round(ratio * hidden) if ratio and heads else None)
    if not (state and heads and inner):
        return None
    if config.info.name == "mamba2" and ratio:
        inner = round(ratio * hidden)  # 2405.21060: the inner width, whatever the head keys say
        heads = inner // width if width else heads
    key_dim = (config.defaulted("groups") or 1) * state
    kernel = config.defaulted("kernel") or KERNEL
    return LinearAttention(
        layers=layers,
        key_dim=key_dim,
        value_dim=inner,
        state_dim=state,
        other_weights=hidden * heads + kernel * (inner + 2 * key_dim),
    )


def _mamba1(config: ConfigKeys, layers: int, hidden: int) -> LinearAttention | None:
    """Mamba 1 (also in Jamba, Falcon Mamba): steps and states are projected from the values."""
    state, ratio = config.defaulted("state"), config.ratio("expand")
    if not (state and ratio):
        return None
    inner = round(ratio * hidden)
    rank = config.defaulted("step_rank") or -(-hidden // 16)
    kernel = config.defaulted("kernel") or KERNEL
    return LinearAttention(
        layers=layers,
        value_dim=inner,
        state_dim=state,
        other_weights=inner * (2 * rank + 3 * state + kernel),
    )


def _recurrent(config: ConfigKeys, layers: int, hidden: int) -> LinearAttention | None:
    """Gated linear recurrence (RecurrentGemma, arXiv 2402.19427): one state per channel."""
    width = config.defaulted("lru") or (hidden if config.info.name == "recurrent_gemma" else 0)
    if not width:
        return None
    heads = config.defaulted("heads") or 1
    gates = 2 * width * width // heads  # block-diagonal
    return LinearAttention(layers=layers, value_dim=width, state_dim=1, other_weights=gates)


def _short_convolution(config: ConfigKeys, layers: int, hidden: int) -> LinearAttention | None:
    """Gated short convolutions (LFM2): the state is a few tokens."""
    if not config.info.name.startswith("lfm2") and config.keys.get("conv_L_cache") is None:
        return None
    kernel = config.defaulted("kernel") or KERNEL
    return LinearAttention(
        layers=layers,
        value_dim=hidden,
        state_dim=kernel,
        other_weights=hidden * (hidden + kernel),
    )


def _lightning(config: ConfigKeys, layers: int, hidden: int) -> LinearAttention | None:
    """Lightning attention (MiniMax), RWKV: as many heads as attention, with an output gate."""
    heads = config.defaulted("heads")
    if config.info.name == "rwkv":
        # Time mixing: receptance, key, value, output. Channel mixing: key, value, receptance.
        ffn = config.defaulted("ffn") or 4 * hidden
        return LinearAttention(
            layers=layers,
            key_dim=hidden,
            value_dim=hidden,
            state_dim=4,  # numerator, denominator, maximum, last token
            gated=False,
            other_weights=2 * hidden * ffn + hidden * hidden,
        )
    if not heads:
        return None
    width = config.defaulted("head_dim") or hidden // heads
    return LinearAttention(
        layers=layers, key_dim=heads * width, value_dim=heads * width, state_dim=width
    )
