"""Which layers have full, sliding-window or linear attention, an FFN or experts.

Configs state it as a list per layer, a pattern, or a period; the first that a file has counts, then
the library's default.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from gpuyard.catalog.huggingface.keys import ConfigKeys

Mixer = Literal["full", "window", "linear", "both", "none"]
LISTS = ("layer_types", "layers_block_type", "block_types", "attn_type_list")
PATTERN: dict[str, Mixer] = {"M": "linear", "*": "full", "-": "none", "E": "none"}
LINEAR_WORDS = ("linear", "mamba", "conv", "recurrent", "kda", "delta", "lightning", "ssm")
WINDOW_WORDS = ("sliding", "chunked", "local", "window")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerMix:
    """Numbers of layers by kind; full is None where the window's period counts."""

    softmax: int  # layers with a KV cache
    linear: int = 0
    full: int | None = None  # of softmax, those without a window
    ffn: int | None = None  # layers with an FFN or experts; None: all
    moe: int | None = None  # layers with experts; None: by dense_layers and every


def layer_mix(config: ConfigKeys, layers: int) -> LayerMix:
    """Return how many layers are of each kind."""
    if config.info.state_only:
        return LayerMix(softmax=0, linear=layers, ffn=0)
    if config.info.parallel:
        return LayerMix(softmax=layers, linear=layers)
    pattern = config.text("hybrid_override_pattern")
    blocks = [*pattern] if pattern else None
    named = config.items("layers_block_type")
    if blocks is None and named and {"mlp", "moe"} & set(map(str, named)):
        words = {"mlp": "-", "moe": "E", "mamba": "M", "linear_attention": "M"}
        blocks = [words.get(str(word), "*") for word in named]
    if blocks is not None:
        return _blocks(blocks)
    mixers = _mixers(config, layers)
    moe = expert_layers(config, layers)
    if mixers is None:
        return LayerMix(softmax=layers, moe=moe)
    softmax = sum(mixer in ("full", "window", "both") for mixer in mixers)
    linear = sum(mixer in ("linear", "both") for mixer in mixers)
    near = mixers.count("window")
    return LayerMix(softmax=softmax, linear=linear, full=softmax - near, moe=moe)


def _blocks(blocks: list[str]) -> LayerMix:
    """Blocks that are a mixer or an FFN, not both (Nemotron-H)."""
    mixers = [PATTERN.get(block, "none") for block in blocks]
    dense, experts = blocks.count("-"), blocks.count("E")
    return LayerMix(
        softmax=mixers.count("full"),
        linear=mixers.count("linear"),
        full=mixers.count("full"),
        ffn=dense + experts,
        moe=experts,
    )


def _mixers(config: ConfigKeys, layers: int) -> list[Mixer] | None:
    for name in LISTS:
        values = config.items(name)
        if values:
            # A shorter list repeats (recurrent_gemma); a longer one has layers for speculation.
            return [_mixer(values[index % len(values)], name) for index in range(layers)]
    full = _full_indices(config)
    if full is not None:
        return ["full" if index in full else "linear" for index in range(layers)]
    linear = {"delta", "mamba"} & config.info.features and _has_linear(config)
    period, offset = _integer(config, "attn_layer_period"), _integer(config, "attn_layer_offset")
    if period:
        return ["full" if index % period == (offset or 0) else "linear" for index in range(layers)]
    if linear or config.text("model_type") in ("minimax_text_01", "minimax_m1"):
        every = config.number("full_every") or config.info.full_every
        if not every and "mamba" in config.info.features and config.info.name:
            return ["linear"] * layers
        if every:
            return ["full" if (index + 1) % every == 0 else "linear" for index in range(layers)]
    return None


def _has_linear(config: ConfigKeys) -> bool:
    """Generic keys of a state say that there are such layers; a known type always has them."""
    return config.info.name != "" or config.given("delta_key_heads") or config.given("state")


def _mixer(value: object, name: str) -> Mixer:
    if name == "attn_type_list":
        return "linear" if value == 0 else "full"
    word = str(value)
    if word == "hybrid":
        return "both"
    if any(part in word for part in WINDOW_WORDS):
        return "window"
    return "linear" if any(part in word for part in LINEAR_WORDS) else "full"


def _full_indices(config: ConfigKeys) -> set[int] | None:
    """Indices of layers with attention where the others are linear."""
    for name, first in (("full_attn_idxs", 0), ("attn_layer_indices", 0), ("full_attn_layers", 1)):
        values = config.items(name)
        if values is not None:
            return {value - first for value in values if isinstance(value, int)}
    return None


def expert_layers(config: ConfigKeys, layers: int) -> int | None:
    """Return the number of layers with experts where the file lists them."""
    kinds = config.items("mlp_layer_types")
    if kinds:
        return sum(kind != "dense" for kind in kinds[:layers])
    for name in ("moe_layers", "interleave_moe_layers"):
        listed = config.items(name)
        if listed is not None and all(isinstance(value, int) for value in listed):
            return len(set(listed))
    frequency = config.items("moe_layer_freq")
    if frequency:
        return sum(bool(value) for value in frequency[:layers])
    text = config.text("moe_layers_enum")
    if text:
        return len([part for part in text.split(",") if part.strip()])
    dense = config.items("mlp_only_layers")
    if dense:
        every = config.defaulted("moe_every") or 1
        sparse = {index for index in range(layers) if (index + 1) % every == 0}
        return len(sparse - _integers(dense))
    offset = _integer(config, "expert_layer_offset")
    period = _integer(config, "expert_layer_period")
    if offset is not None and period:
        return len(range(offset, layers, period))
    return None


def _integers(values: Iterable[object]) -> set[int]:
    return {value for value in values if isinstance(value, int)}


def _integer(config: ConfigKeys, name: str) -> int | None:
    node = config.keys.get(name)
    value = getattr(node, "value", None)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    default = config.info.defaults.get(name)
    return int(default) if default is not None else None
