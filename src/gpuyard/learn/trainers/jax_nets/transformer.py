"""A decoder-only transformer in JAX: layers stacked and scanned, so that compiling does not grow with depth."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from gpuyard.catalog import Transformer
from gpuyard.learn.arrays import Array, Hits
from gpuyard.learn.networks.flops import transformer_flop
from gpuyard.learn.networks.llama import NORM_EPSILON, export_llama
from gpuyard.learn.networks.loop import Task, run_steps
from gpuyard.learn.networks.order import order_of
from gpuyard.learn.networks.tables import tokens_of
from gpuyard.learn.networks.weights import Weights, check_shape, transformer_weights
from gpuyard.learn.spec import Network, Precision, TrainSpec
from gpuyard.learn.trainer import Exported, Run, Summary, Tokens, Training
from gpuyard.learn.trainers.jax_nets.mesh import devices_of
from gpuyard.learn.trainers.jax_nets.stepper import JaxStepper, Loss, Params

__all__ = ["JaxTransformer", "make", "nats"]

LAYER = "model.layers."
STACKED = "layers:"
PREDICT_ROWS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What is compiled in: the settings that change the mathematics."""

    shape: Transformer
    rope_theta: float
    precision: Precision
    recompute: bool


def form_of(spec: Network, precision: Precision) -> Form:
    """The form of a spec."""
    return Form(shape=spec.shape, rope_theta=spec.rope_theta, precision=precision, recompute=spec.recompute)


def stacked(weights: Weights, layers: int) -> Weights:
    """The weights with every layer's in one array, [layers, …]."""
    inner = [name.removeprefix(f"{LAYER}0.") for name in weights if name.startswith(f"{LAYER}0.")]
    whole = {name: array for name, array in weights.items() if not name.startswith(LAYER)}
    return whole | {
        STACKED + name: np.stack([weights[f"{LAYER}{layer}.{name}"] for layer in range(layers)]) for name in inner
    }


def unstacked(weights: Weights) -> Weights:
    """The weights by layer again."""
    found: Weights = {}
    for name, array in weights.items():
        if name.startswith(STACKED):
            inner = name.removeprefix(STACKED)
            found |= {f"{LAYER}{layer}.{inner}": np.ascontiguousarray(part) for layer, part in enumerate(array)}
        else:
            found[name] = array
    return found


def _norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    """RMSNorm in float32."""
    wide = x.astype(jnp.float32)
    scaled = wide * jax.lax.rsqrt(jnp.square(wide).mean(axis=-1, keepdims=True) + NORM_EPSILON)
    return (weight * scaled).astype(x.dtype)


def _turned(x: jax.Array, cosine: jax.Array, sine: jax.Array) -> jax.Array:
    """Rotary positions, halves paired as in Hugging Face's Llama; x is [batch, sequence, heads, width]."""
    first, second = jnp.split(x, 2, axis=-1)
    cosine, sine = cosine[None, :, None], sine[None, :, None]
    return jnp.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1).astype(x.dtype)


def hidden_states(params: Params, ids: jax.Array, form: Form) -> jax.Array:
    """The residual stream after the last norm, [batch, sequence, hidden]."""
    shape, dtype = form.shape, jnp.dtype(form.precision)
    batch, sequence = ids.shape
    width = shape.head_width
    rates = form.rope_theta ** (-jnp.arange(0, width, 2, dtype=jnp.float32) / width)
    angles = jnp.arange(sequence, dtype=jnp.float32)[:, None] * rates
    cosine, sine = jnp.cos(angles), jnp.sin(angles)

    def layer(x: jax.Array, weights: Params) -> tuple[jax.Array, None]:
        """One layer, for the scan over all of them."""
        w = {name.removesuffix(".weight"): array.astype(dtype) for name, array in weights.items()}
        y = _norm(x, weights["input_layernorm.weight"])
        q, k, v = (
            (y @ w[f"self_attn.{name}_proj"].T).reshape(batch, sequence, heads, width)
            for name, heads in (("q", shape.heads), ("k", shape.key_value_heads), ("v", shape.key_value_heads))
        )
        seen = jax.nn.dot_product_attention(_turned(q, cosine, sine), _turned(k, cosine, sine), v, is_causal=True)
        x = x + seen.reshape(batch, sequence, -1) @ w["self_attn.o_proj"].T
        y = _norm(x, weights["post_attention_layernorm.weight"])
        return x + (jax.nn.silu(y @ w["mlp.gate_proj"].T) * (y @ w["mlp.up_proj"].T)) @ w["mlp.down_proj"].T, None

    layers = {name.removeprefix(STACKED): array for name, array in params.items() if name.startswith(STACKED)}
    x = params["model.embed_tokens.weight"].astype(dtype)[ids]
    x, _ = jax.lax.scan(jax.checkpoint(layer) if form.recompute else layer, x, layers)
    return _norm(x, params["model.norm.weight"])


def _logits(params: Params, ids: jax.Array, form: Form) -> jax.Array:
    """What every token but the first is held for, [batch, sequence - 1, vocab]."""
    x, dtype = hidden_states(params, ids[:, :-1], form), jnp.dtype(form.precision)
    head = params["model.embed_tokens.weight" if form.shape.tied_embeddings else "lm_head.weight"]
    return jnp.dot(x, head.astype(dtype).T, preferred_element_type=jnp.float32)


@functools.partial(jax.jit, static_argnames="form")
def guessed(params: Params, ids: jax.Array, form: Form) -> jax.Array:
    """Whether the likeliest token was the right one, of every token but the first."""
    return _logits(params, ids, form).argmax(axis=-1) == ids[:, 1:]


@functools.partial(jax.jit, static_argnames="form")
def nats(params: Params, ids: jax.Array, form: Form) -> jax.Array:
    """The surprise at every token but the first, [batch, sequence - 1]."""
    logits = _logits(params, ids, form)
    answers = jnp.take_along_axis(logits, ids[:, 1:, None], axis=-1)[..., 0]
    return jax.nn.logsumexp(logits, axis=-1) - answers


@functools.lru_cache
def loss_of(form: Form) -> Loss:
    """The mean loss of sequences."""
    return lambda params, batch: nats(params, batch[0], form).mean()


class JaxTransformer:
    """The trainer."""

    def __init__(self, train: TrainSpec, spec: Network) -> None:
        self.train, self.spec = train, spec

    def fit(self, data: Training, run: Run) -> FittedJaxTransformer:
        """The trained transformer."""
        where, spec, form = "train: jax_transformer", self.spec, form_of(self.spec, self.spec.precision)
        tokens = tokens_of(data.train, where)
        sequence_tokens = tokens.sequence_tokens
        check_shape(spec.shape, tokens.vocab, sequence_tokens, where)
        devices = devices_of(run.ranks)
        order = order_of(
            spec, rows=len(tokens), seed=self.train.seed, part=run.ranks.rank, parts=run.ranks.world,
            devices=jax.local_device_count(),
        )  # fmt: skip
        first = transformer_weights(spec.shape, self.train.seed)

        def validate(params: Params) -> float:
            """The loss on the validation rows."""
            assert data.validation is not None
            kept = tokens_of(data.validation, "train: validation")
            return float(_by_parts(lambda ids: nats(params, ids, form), kept.of, len(kept)).mean())

        stepper = JaxStepper(
            weights=stacked(first, spec.shape.layers), loss=loss_of(form), validate=validate, spec=spec,
            devices=devices, rows=lambda rows: (tokens.of(rows).astype(np.int32),),
        )  # fmt: skip
        summary = run_steps(
            stepper,
            Task(
                train=self.train, gradient=spec, order=order, device=devices.kind,
                flop_per_step=transformer_flop(spec.shape, order.batch, sequence_tokens),
                parameters_count=float(sum(array.size for array in first.values())),
                sequence_tokens=sequence_tokens - 1, has_validation=data.validation is not None,
            ),
            run,
        )  # fmt: skip
        return FittedJaxTransformer(stepper.weights(), spec, tokens, summary)


class FittedJaxTransformer:
    """A trained transformer."""

    def __init__(self, weights: Weights, spec: Network, tokens: Tokens, summary: Summary) -> None:
        self._summary, self.weights, self.spec, self.tokens = summary, weights, spec, tokens

    @property
    def summary(self) -> Summary:
        """What the training came to."""
        return self._summary

    def predict(self, rows: Array) -> Array:
        """Nats of every token but the first, [n, s - 1]."""
        return self._each(nats, rows)

    def hits(self, rows: Array) -> Hits:
        """Whether the likeliest token was the right one, of every token but the first."""
        return self._each(guessed, rows).astype(np.bool_)

    def _each(self, tell: Callable[[Params, jax.Array, Form], jax.Array], rows: Array) -> Array:
        """What is told of every token but the first."""
        form = form_of(self.spec, "float32")
        params = {name: jnp.asarray(array) for name, array in self.weights.items()}
        return _by_parts(lambda ids: tell(params, ids, form), rows.__getitem__, len(rows))

    def export(self, folder: Path) -> Exported:
        """Writes weights/."""
        return export_llama(unstacked(self.weights), self.spec, self.tokens, folder, f"jax {jax.__version__}")


def _by_parts(
    surprise: Callable[[jax.Array], jax.Array],
    read: Callable[[npt.NDArray[np.intp]], Array],
    rows: int,
) -> Array:
    """The surprises at many sequences, a few at a time; the last few are filled up, so that one shape is compiled."""
    parts = []
    for start in range(0, rows, PREDICT_ROWS):
        ids = read(np.arange(start, min(start + PREDICT_ROWS, rows))).astype(np.int32)
        filled = np.concatenate([ids, np.zeros((PREDICT_ROWS - len(ids), ids.shape[1]), dtype=np.int32)])
        parts.append(np.asarray(surprise(jnp.asarray(filled)))[: len(ids)])
    return np.concatenate(parts)


def make(spec: TrainSpec) -> JaxTransformer:
    """The trainer of a spec."""
    assert spec.jax_transformer is not None
    return JaxTransformer(spec, spec.jax_transformer)
