"""A decoder-only transformer in JAX; layers are scanned, so compile time is constant in depth."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from gpuyard.catalog.models import Transformer
from gpuyard.learn.arrays import Array, Hits
from gpuyard.learn.networks.flops import transformer_flop
from gpuyard.learn.networks.inputs import mean_label_loss, tokens_of
from gpuyard.learn.networks.llama import NORM_EPSILON, export_llama
from gpuyard.learn.networks.loop import LoopConfig, run_steps
from gpuyard.learn.networks.order import order_of
from gpuyard.learn.networks.weights import Weights, check_shape, transformer_weights
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import (
    Exported,
    TokenData,
    TrainingContext,
    TrainingInputs,
    TrainingSummary,
)
from gpuyard.learn.trainers.jax_nets.mesh import devices_of
from gpuyard.learn.trainers.jax_nets.stepper import JaxStepper, Loss, Params
from gpuyard.learn.trainers.network_settings import Precision, TransformerSpec

LAYER = "model.layers."
STACKED = "layers:"
PREDICT_ROWS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class JaxModelConfig:
    """Settings that are compiled into the model."""

    shape: Transformer
    rope_theta: float
    precision: Precision
    recompute: bool


def config_of(spec: TransformerSpec, precision: Precision) -> JaxModelConfig:
    """Return the model configuration of a spec."""
    return JaxModelConfig(
        shape=spec.shape, rope_theta=spec.rope_theta, precision=precision, recompute=spec.recompute
    )


def stacked(weights: Weights, layers: int) -> Weights:
    """Stack the weights of all layers, [layers, …]."""
    inner = [name.removeprefix(f"{LAYER}0.") for name in weights if name.startswith(f"{LAYER}0.")]
    whole = {name: array for name, array in weights.items() if not name.startswith(LAYER)}
    return whole | {
        STACKED + name: np.stack([weights[f"{LAYER}{layer}.{name}"] for layer in range(layers)])
        for name in inner
    }


def unstacked(weights: Weights) -> Weights:
    """Split stacked weights by layer again."""
    by_layer: Weights = {}
    for name, array in weights.items():
        if name.startswith(STACKED):
            inner = name.removeprefix(STACKED)
            by_layer |= {
                f"{LAYER}{layer}.{inner}": np.ascontiguousarray(part)
                for layer, part in enumerate(array)
            }
        else:
            by_layer[name] = array
    return by_layer


def _norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    scaled = wide * jax.lax.rsqrt(jnp.square(wide).mean(axis=-1, keepdims=True) + NORM_EPSILON)
    return (weight * scaled).astype(x.dtype)


def _rotate(x: jax.Array, cosine: jax.Array, sine: jax.Array) -> jax.Array:
    # RoPE with halves paired as in Hugging Face's Llama; x is [batch, sequence, heads, width].
    first, second = jnp.split(x, 2, axis=-1)
    cosine, sine = cosine[None, :, None], sine[None, :, None]
    return jnp.concatenate(
        [first * cosine - second * sine, second * cosine + first * sine], axis=-1
    ).astype(x.dtype)


def hidden_states(params: Params, ids: jax.Array, config: JaxModelConfig) -> jax.Array:
    """Return the residual stream after the last norm, [batch, sequence, hidden]."""
    shape, dtype = config.shape, jnp.dtype(config.precision)
    batch, sequence = ids.shape
    width = shape.head_width
    rates = config.rope_theta ** (-jnp.arange(0, width, 2, dtype=jnp.float32) / width)
    angles = jnp.arange(sequence, dtype=jnp.float32)[:, None] * rates
    cosine, sine = jnp.cos(angles), jnp.sin(angles)

    def layer(x: jax.Array, weights: Params) -> tuple[jax.Array, None]:
        w = {name.removesuffix(".weight"): array.astype(dtype) for name, array in weights.items()}
        y = _norm(x, weights["input_layernorm.weight"])
        q, k, v = (
            (y @ w[f"self_attn.{name}_proj"].T).reshape(batch, sequence, heads, width)
            for name, heads in (
                ("q", shape.heads),
                ("k", shape.key_value_heads),
                ("v", shape.key_value_heads),
            )
        )
        attended = jax.nn.dot_product_attention(
            _rotate(q, cosine, sine), _rotate(k, cosine, sine), v, is_causal=True
        )
        x = x + attended.reshape(batch, sequence, -1) @ w["self_attn.o_proj"].T
        y = _norm(x, weights["post_attention_layernorm.weight"])
        return x + (jax.nn.silu(y @ w["mlp.gate_proj"].T) * (y @ w["mlp.up_proj"].T)) @ w[
            "mlp.down_proj"
        ].T, None

    layers = {
        name.removeprefix(STACKED): array
        for name, array in params.items()
        if name.startswith(STACKED)
    }
    x = params["model.embed_tokens.weight"].astype(dtype)[ids]
    x, _ = jax.lax.scan(jax.checkpoint(layer) if config.recompute else layer, x, layers)
    return _norm(x, params["model.norm.weight"])


def _logits(params: Params, ids: jax.Array, config: JaxModelConfig) -> jax.Array:
    x, dtype = hidden_states(params, ids[:, :-1], config), jnp.dtype(config.precision)
    head = params["model.embed_tokens.weight" if config.shape.tied_embeddings else "lm_head.weight"]
    return jnp.dot(x, head.astype(dtype).T, preferred_element_type=jnp.float32)


@functools.partial(jax.jit, static_argnames="config")
def is_top_token(params: Params, ids: jax.Array, config: JaxModelConfig) -> jax.Array:
    """Return whether the top token was right, for every token but the first."""
    return _logits(params, ids, config).argmax(axis=-1) == ids[:, 1:]


@functools.partial(jax.jit, static_argnames="config")
def nats(params: Params, ids: jax.Array, config: JaxModelConfig) -> jax.Array:
    """Return the nats of every token but the first, [batch, sequence - 1]."""
    logits = _logits(params, ids, config)
    label_logits = jnp.take_along_axis(logits, ids[:, 1:, None], axis=-1)[..., 0]
    return jax.nn.logsumexp(logits, axis=-1) - label_logits


@functools.lru_cache
def loss_of(config: JaxModelConfig) -> Loss:
    """Return the mean loss of sequences; cached, so that it is compiled once."""

    def loss(params: Params, batch: tuple[jax.Array, ...]) -> jax.Array:
        per_token = nats(params, batch[0], config)
        if len(batch) == 1:
            return per_token.mean()
        return (per_token * batch[1]).sum() / jnp.maximum(batch[1].sum(), 1.0)

    return loss


class JaxTransformer:
    """Trains a transformer in JAX."""

    def __init__(self, train: TrainSpec, spec: TransformerSpec) -> None:
        self.train, self.spec = train, spec

    def fit(self, data: TrainingInputs, run: TrainingContext) -> FittedJaxTransformer:
        where = "train: jax_transformer"
        spec = self.spec
        config = config_of(spec, spec.precision)
        tokens = tokens_of(data.train, where)
        sequence_tokens = tokens.sequence_tokens
        check_shape(spec.shape, tokens.vocab, sequence_tokens, where)
        devices = devices_of(run.ranks)
        order = order_of(
            spec,
            rows=len(tokens),
            seed=self.train.seed,
            part=run.ranks.rank,
            parts=run.ranks.world,
            devices=jax.local_device_count(),
        )
        weights = transformer_weights(spec.shape, self.train.seed)

        def validate(params: Params) -> float:
            assert data.validation is not None
            held_out = tokens_of(data.validation, "train: validation")
            per_token = _in_chunks(
                lambda ids: nats(params, ids, config), held_out.of, len(held_out)
            )
            return mean_label_loss(per_token, held_out)

        stepper = JaxStepper(
            weights=stacked(weights, spec.shape.layers),
            loss=loss_of(config),
            validate=validate,
            spec=spec,
            devices=devices,
            rows=lambda rows: tokens.batch(rows, np.int32),
        )
        summary = run_steps(
            stepper,
            LoopConfig(
                train=self.train,
                gradient=spec,
                order=order,
                device=devices.kind,
                flop_per_step=transformer_flop(spec.shape, order.batch, sequence_tokens),
                parameters_count=float(sum(array.size for array in weights.values())),
                sequence_tokens=sequence_tokens - 1,
                has_validation=data.validation is not None,
            ),
            run,
        )
        return FittedJaxTransformer(stepper.weights(), spec, tokens, summary)


class FittedJaxTransformer:
    """A trained transformer."""

    def __init__(
        self, weights: Weights, spec: TransformerSpec, tokens: TokenData, summary: TrainingSummary
    ) -> None:
        self.summary, self.weights, self.spec, self.tokens = summary, weights, spec, tokens

    def predict(self, rows: Array) -> Array:
        """Return the nats of every token but the first, [n, s - 1]."""
        return self._per_token(nats, rows)

    def hits(self, rows: Array) -> Hits:
        """Return whether the top token was right, for every token but the first."""
        return self._per_token(is_top_token, rows).astype(np.bool_)

    def _per_token(
        self, function: Callable[[Params, jax.Array, JaxModelConfig], jax.Array], rows: Array
    ) -> Array:
        config = config_of(self.spec, "float32")
        params = {name: jnp.asarray(array) for name, array in self.weights.items()}
        return _in_chunks(lambda ids: function(params, ids, config), rows.__getitem__, len(rows))

    def export(self, folder: Path) -> Exported:
        return export_llama(
            unstacked(self.weights), self.spec, self.tokens, folder, f"jax {jax.__version__}"
        )


def _in_chunks(
    function: Callable[[jax.Array], jax.Array],
    read: Callable[[npt.NDArray[np.intp]], Array],
    rows: int,
) -> Array:
    # The last chunk is padded, so that only one shape is compiled.
    chunks = []
    for start in range(0, rows, PREDICT_ROWS):
        ids = read(np.arange(start, min(start + PREDICT_ROWS, rows))).astype(np.int32)
        padded = np.concatenate(
            [ids, np.zeros((PREDICT_ROWS - len(ids), ids.shape[1]), dtype=np.int32)]
        )
        chunks.append(np.asarray(function(jnp.asarray(padded)))[: len(ids)])
    return np.concatenate(chunks)


def load(
    weights: Path, spec: TransformerSpec, tokens: TokenData, summary: TrainingSummary
) -> FittedJaxTransformer:
    """Return an exported transformer."""
    from safetensors.numpy import load_file

    arrays = load_file(weights / "model.safetensors")
    return FittedJaxTransformer(stacked(arrays, spec.shape.layers), spec, tokens, summary)


def make(spec: TrainSpec) -> JaxTransformer:
    """Return the trainer of a spec."""
    assert spec.jax_transformer is not None
    return JaxTransformer(spec, spec.jax_transformer)
