"""First weights, drawn by NumPy from the seed: every framework starts from the same numbers.

Names and layout ([out, in]) are those of the exports: `layers.0.weight` for perceptrons, Hugging Face's Llama names
for transformers.
"""

from __future__ import annotations

import itertools
import zlib

import numpy as np
import numpy.typing as npt

from gpuyard.catalog import Transformer
from gpuyard.errors import InputError, Problem

__all__ = ["Weights", "check_shape", "decays", "mlp_weights", "mlp_widths", "transformer_weights"]

Weights = dict[str, npt.NDArray[np.float32]]
STANDARD_DEVIATION = 0.02  # of a transformer's first weights (GPT-2; Llama's code has the same default)


def _normal(seed: int, name: str, shape: tuple[int, ...], scale: float) -> npt.NDArray[np.float32]:
    """Normal numbers that depend on the seed and the name alone."""
    generator = np.random.Generator(np.random.Philox(key=[seed, zlib.crc32(name.encode())]))
    return (scale * generator.standard_normal(shape, dtype=np.float32)).astype(np.float32)


def mlp_widths(features: int, hidden: int, layers: int, outputs: int) -> tuple[int, ...]:
    """The widths of a perceptron from its input to its output."""
    return (features, *(hidden for _ in range(layers)), outputs)


def mlp_weights(widths: tuple[int, ...], seed: int) -> Weights:
    """A perceptron's weights (He et al. 2015, arXiv 1502.01852, eq. 10) and zero biases."""
    weights: Weights = {}
    for number, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        name = f"layers.{number}.weight"
        weights[name] = _normal(seed, name, (outputs, inputs), float(np.sqrt(2.0 / inputs)))
        weights[f"layers.{number}.bias"] = np.zeros(outputs, dtype=np.float32)
    return weights


def transformer_weights(shape: Transformer, seed: int) -> Weights:
    """A transformer's weights; what writes into the residual stream is scaled down by its depth (GPT-2)."""
    hidden, width = shape.hidden, shape.head_width
    queries, keys = shape.heads * width, shape.key_value_heads * width
    deep = STANDARD_DEVIATION / float(np.sqrt(2.0 * shape.layers))
    matrices: list[tuple[str, tuple[int, ...], float]] = [
        ("model.embed_tokens.weight", (shape.vocab, hidden), STANDARD_DEVIATION)
    ]
    norms = ["model.norm.weight"]
    for layer in range(shape.layers):
        at = f"model.layers.{layer}."
        matrices += [
            (f"{at}self_attn.q_proj.weight", (queries, hidden), STANDARD_DEVIATION),
            (f"{at}self_attn.k_proj.weight", (keys, hidden), STANDARD_DEVIATION),
            (f"{at}self_attn.v_proj.weight", (keys, hidden), STANDARD_DEVIATION),
            (f"{at}self_attn.o_proj.weight", (hidden, queries), deep),
            (f"{at}mlp.gate_proj.weight", (shape.ffn, hidden), STANDARD_DEVIATION),
            (f"{at}mlp.up_proj.weight", (shape.ffn, hidden), STANDARD_DEVIATION),
            (f"{at}mlp.down_proj.weight", (hidden, shape.ffn), deep),
        ]
        norms += [f"{at}input_layernorm.weight", f"{at}post_attention_layernorm.weight"]
    if not shape.tied_embeddings:
        matrices.append(("lm_head.weight", (shape.vocab, hidden), STANDARD_DEVIATION))
    weights = {name: _normal(seed, name, size, scale) for name, size, scale in matrices}
    return weights | {name: np.ones(hidden, dtype=np.float32) for name in norms}


def decays(name: str) -> bool:
    """True of the weights that weight decay pulls to zero: matrices, not biases and norms."""
    return name.endswith("weight") and "norm" not in name


def check_shape(shape: Transformer, vocab: int, sequence_tokens: int, where: str) -> None:
    """InputError with everything that the transformer trainers cannot do or the data contradicts."""
    wrong = (
        (shape.moe is not None, "moe", "mixtures of experts are not trained here"),
        (shape.mla is not None, "mla", "latent attention is not trained here"),
        (not shape.gated, "gated", "the MLP must have a gate (SwiGLU)"),
        (shape.learned_positions > 0, "learned_positions", "positions are rotary"),
        (shape.sliding_window_tokens is not None, "sliding_window", "every layer sees the whole sequence"),
        (shape.heads % shape.key_value_heads != 0, "kv_heads", "heads is not a multiple of kv_heads"),
        (shape.head_width % 2 != 0, "head_dim", "rotary positions need an even width"),
        (shape.vocab < vocab, "vocab", f"the data has {vocab} tokens"),
        (
            shape.max_context_tokens is not None and shape.max_context_tokens < sequence_tokens,
            "max_context",
            f"the data's sequences have {sequence_tokens} tokens",
        ),
    )
    problems = [
        Problem(where=f"{where}: shape: {key}", what=what, fix="change the shape, or train by your own command")
        for bad, key, what in wrong
        if bad
    ]
    if problems:
        raise InputError(problems)
