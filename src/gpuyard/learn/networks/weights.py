"""Initial weights, drawn by NumPy from the seed: all frameworks start from the same numbers.

Names and layout ([out, in]) are those of the exports: `layers.0.weight` for perceptrons, Hugging
Face's Llama names for transformers.
"""

from __future__ import annotations

import itertools
import zlib

import numpy as np
import numpy.typing as npt

from gpuyard.catalog.models import Transformer
from gpuyard.errors import InputError, Problem

Weights = dict[str, npt.NDArray[np.float32]]
STANDARD_DEVIATION = 0.02  # of a transformer's weights (GPT-2; Llama's code has the same default)


def normal_weights(
    seed: int, name: str, shape: tuple[int, ...], scale: float
) -> npt.NDArray[np.float32]:
    """Return normal numbers that depend on seed and name alone."""
    generator = np.random.Generator(np.random.Philox(key=[seed, zlib.crc32(name.encode())]))
    return (scale * generator.standard_normal(shape, dtype=np.float32)).astype(np.float32)


def mlp_widths(features: int, hidden: int, layers: int, outputs: int) -> tuple[int, ...]:
    """Return the layer widths of a perceptron, from input to output."""
    return (features, *(hidden for _ in range(layers)), outputs)


def mlp_weights(widths: tuple[int, ...], seed: int) -> Weights:
    """Return a perceptron's weights (He et al. 2015, arXiv 1502.01852, eq. 10) and zero biases."""
    weights: Weights = {}
    for number, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        name = f"layers.{number}.weight"
        weights[name] = normal_weights(seed, name, (outputs, inputs), float(np.sqrt(2.0 / inputs)))
        weights[f"layers.{number}.bias"] = np.zeros(outputs, dtype=np.float32)
    return weights


def transformer_weights(shape: Transformer, seed: int) -> Weights:
    """Return the weights of a transformer; residual projections are scaled by depth (GPT-2)."""
    hidden, width = shape.hidden, shape.head_width
    queries, keys = shape.heads * width, shape.key_value_heads * width
    residual_deviation = STANDARD_DEVIATION / float(np.sqrt(2.0 * shape.layers))
    projections: list[tuple[str, tuple[int, ...], float]] = [
        ("model.embed_tokens.weight", (shape.vocab, hidden), STANDARD_DEVIATION)
    ]
    norms = ["model.norm.weight"]
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}."
        projections += [
            (f"{prefix}self_attn.q_proj.weight", (queries, hidden), STANDARD_DEVIATION),
            (f"{prefix}self_attn.k_proj.weight", (keys, hidden), STANDARD_DEVIATION),
            (f"{prefix}self_attn.v_proj.weight", (keys, hidden), STANDARD_DEVIATION),
            (f"{prefix}self_attn.o_proj.weight", (hidden, queries), residual_deviation),
            (f"{prefix}mlp.gate_proj.weight", (shape.ffn, hidden), STANDARD_DEVIATION),
            (f"{prefix}mlp.up_proj.weight", (shape.ffn, hidden), STANDARD_DEVIATION),
            (f"{prefix}mlp.down_proj.weight", (hidden, shape.ffn), residual_deviation),
        ]
        norms += [f"{prefix}input_layernorm.weight", f"{prefix}post_attention_layernorm.weight"]
    if not shape.tied_embeddings:
        projections.append(("lm_head.weight", (shape.vocab, hidden), STANDARD_DEVIATION))
    weights = {name: normal_weights(seed, name, size, scale) for name, size, scale in projections}
    return weights | {name: np.ones(hidden, dtype=np.float32) for name in norms}


def decays(name: str) -> bool:
    """Return whether weight decay applies: to matrices, not to biases and norms."""
    return name.endswith("weight") and "norm" not in name


def check_shape(shape: Transformer, vocab: int, sequence_tokens: int, where: str) -> None:
    """Raise InputError with everything that is unsupported or contradicts the data."""
    checks = (
        (shape.moe is not None, "moe", "MoE is not supported"),
        (shape.mla is not None, "mla", "multi-head latent attention is not supported"),
        (not shape.gated, "gated", "the MLP must have a gate (SwiGLU)"),
        (
            shape.learned_positions > 0,
            "learned_positions",
            "only rotary positions (RoPE) are supported",
        ),
        (
            shape.sliding_window_tokens is not None,
            "sliding_window",
            "sliding-window attention is not supported",
        ),
        (
            shape.heads % shape.key_value_heads != 0,
            "kv_heads",
            "heads is not a multiple of kv_heads",
        ),
        (shape.head_width % 2 != 0, "head_dim", "rotary positions require an even head dimension"),
        (shape.vocab < vocab, "vocab", f"the data has {vocab} tokens"),
        (
            shape.max_context_tokens is not None and shape.max_context_tokens < sequence_tokens,
            "max_context",
            f"the data's sequences have {sequence_tokens} tokens",
        ),
    )
    problems = [
        Problem(
            where=f"{where}: shape: {key}",
            what=what,
            fix="change the shape, or use train: command",
        )
        for violated, key, what in checks
        if violated
    ]
    if problems:
        raise InputError(problems)
