"""Export a transformer in Hugging Face's Llama layout, as vLLM, SGLang and transformers load it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from gpuyard.catalog.models import Transformer
from gpuyard.learn.networks.weights import Weights
from gpuyard.learn.trainer import Exported, TokenData
from gpuyard.learn.trainers.network_settings import TransformerSpec
from gpuyard.registry.bundle import WEIGHTS, Tensor

NORM_EPSILON = 1e-5


def llama_config(
    spec: TransformerSpec, sequence_tokens: int, end_token: int | None
) -> dict[str, object]:
    """Return the config.json of a spec (transformers.LlamaConfig)."""
    shape: Transformer = spec.shape
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": shape.vocab,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.ffn,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.key_value_heads,
        "head_dim": shape.head_width,
        "hidden_act": "silu",
        "max_position_embeddings": shape.max_context_tokens or sequence_tokens,
        "rms_norm_eps": NORM_EPSILON,
        "rope_theta": spec.rope_theta,
        "rope_scaling": None,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": shape.tied_embeddings,
        "torch_dtype": "float32",
        "bos_token_id": None,
        "eos_token_id": end_token,
    }


def export_llama(
    weights: Weights, spec: TransformerSpec, tokens: TokenData, folder: Path, framework: str
) -> Exported:
    """Write weights/: config.json, model.safetensors and the tokenizer."""
    from safetensors.numpy import save_file

    weights_folder = folder / WEIGHTS
    weights_folder.mkdir(parents=True, exist_ok=True)
    config = llama_config(spec, tokens.sequence_tokens, tokens.end_token)
    (weights_folder / "config.json").write_text(
        json.dumps(config, indent=2) + "\n", encoding="utf-8"
    )
    save_file(
        dict(sorted(weights.items())),
        weights_folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    if tokens.tokenizer is not None:
        shutil.copyfile(tokens.tokenizer, weights_folder / "tokenizer.json")
    return language_model(spec.shape.vocab, framework)


def language_model(vocab: int, framework: str) -> Exported:
    """Describe the inputs and outputs of a language model."""
    return Exported(
        kind="language",
        inputs=(Tensor(name="input_ids", dtype="int64", shape=(-1, -1)),),
        outputs=(Tensor(name="logits", dtype="float32", shape=(-1, -1, vocab)),),
        framework=framework,
    )
