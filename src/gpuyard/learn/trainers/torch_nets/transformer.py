"""A decoder-only transformer in PyTorch, its weights named as in Hugging Face's Llama."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

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
from gpuyard.learn.trainers.network_settings import TransformerSpec
from gpuyard.learn.trainers.torch_nets.devices import TorchDevice, place_of
from gpuyard.learn.trainers.torch_nets.stepper import TorchStepper
from gpuyard.learn.trainers.torch_nets.torch_settings import TorchTransformerSpec

PREDICT_ROWS = 8


class Attention(nn.Module):  # type: ignore[misc]
    """Grouped-query attention with rotary positions."""

    def __init__(self, spec: TransformerSpec) -> None:
        super().__init__()
        shape = spec.shape
        self.width = shape.head_width
        queries, keys = shape.heads * self.width, shape.key_value_heads * self.width
        self.q_proj = nn.Linear(shape.hidden, queries, bias=False)
        self.k_proj = nn.Linear(shape.hidden, keys, bias=False)
        self.v_proj = nn.Linear(shape.hidden, keys, bias=False)
        self.o_proj = nn.Linear(queries, shape.hidden, bias=False)

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        batch, sequence, _ = x.shape

        def heads(y: torch.Tensor) -> torch.Tensor:
            return y.view(batch, sequence, -1, self.width).transpose(1, 2)

        def turned(y: torch.Tensor) -> torch.Tensor:
            first, second = y.chunk(2, dim=-1)
            both = torch.cat(
                [first * cosine - second * sine, second * cosine + first * sine], dim=-1
            )
            return both.to(y.dtype)

        q, k, v = (
            turned(heads(self.q_proj(x))),
            turned(heads(self.k_proj(x))),
            heads(self.v_proj(x)),
        )
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        out: torch.Tensor = self.o_proj(seen.transpose(1, 2).reshape(batch, sequence, -1))
        return out


class Gated(nn.Module):  # type: ignore[misc]
    """The SwiGLU MLP."""

    def __init__(self, spec: TransformerSpec) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(spec.shape.hidden, spec.shape.ffn, bias=False)
        self.up_proj = nn.Linear(spec.shape.hidden, spec.shape.ffn, bias=False)
        self.down_proj = nn.Linear(spec.shape.ffn, spec.shape.hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):  # type: ignore[misc]
    """Attention and MLP, each after a norm and added to the residual stream."""

    def __init__(self, spec: TransformerSpec) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(spec), Gated(spec)
        self.input_layernorm = nn.RMSNorm(spec.shape.hidden, eps=NORM_EPSILON)
        self.post_attention_layernorm = nn.RMSNorm(spec.shape.hidden, eps=NORM_EPSILON)

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        """Return the residual stream after this layer."""
        x = x + self.self_attn(self.input_layernorm(x), cosine, sine)
        out: torch.Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class TransformerTrunk(nn.Module):  # type: ignore[misc]
    """Embedding, layers and last norm."""

    def __init__(self, spec: TransformerSpec) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(spec.shape.vocab, spec.shape.hidden)
        self.layers = nn.ModuleList(Layer(spec) for _ in range(spec.shape.layers))
        self.norm = nn.RMSNorm(spec.shape.hidden, eps=NORM_EPSILON)


class Decoder(nn.Module):  # type: ignore[misc]
    """The full model; returns the mean loss when called with token ids."""

    def __init__(self, spec: TransformerSpec, weights: Weights) -> None:
        super().__init__()
        self.spec = spec
        self.model = TransformerTrunk(spec)
        if not spec.shape.tied_embeddings:
            self.lm_head = nn.Linear(spec.shape.hidden, spec.shape.vocab, bias=False)
        self.load_state_dict(
            {name: torch.from_numpy(array.copy()) for name, array in weights.items()}
        )

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the next token's logits per position."""
        width = self.spec.shape.head_width
        exponents = torch.arange(0, width, 2, dtype=torch.float32, device=ids.device) / width
        places = torch.arange(ids.shape[1], dtype=torch.float32, device=ids.device)
        angles = places[:, None] * self.spec.rope_theta**-exponents
        cosine, sine = torch.cos(angles), torch.sin(angles)
        x = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            if self.spec.recompute and torch.is_grad_enabled():
                x = checkpoint(layer, x, cosine, sine, use_reentrant=False)
            else:
                x = layer(x, cosine, sine)
        x = self.model.norm(x)
        head = (
            self.model.embed_tokens.weight
            if self.spec.shape.tied_embeddings
            else self.lm_head.weight
        )
        return functional.linear(x, head).float()

    def nats(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the nats of every token but the first, [batch, sequence - 1]."""
        logits = self.logits(ids[:, :-1])
        return functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")

    def guessed(self, ids: torch.Tensor) -> torch.Tensor:
        """Return whether the top token was right, for every token but the first."""
        return self.logits(ids[:, :-1]).argmax(dim=-1) == ids[:, 1:]

    def forward(
        self, ids: torch.Tensor, learned: torch.Tensor | None = None, *, per_token: bool = False
    ) -> torch.Tensor:
        nats = self.nats(ids.long())
        return nats if per_token else mean_of_labels(nats, learned)


class TorchTransformer:
    """Trains a transformer in PyTorch."""

    def __init__(self, train: TrainSpec, spec: TorchTransformerSpec) -> None:
        self.train, self.spec = train, spec

    def fit(self, data: TrainingInputs, run: TrainingContext) -> FittedTorchTransformer:
        with place_of(self.spec.device, run.ranks) as place:
            return self._fit(data, run, place)

    def _fit(
        self, data: TrainingInputs, run: TrainingContext, place: TorchDevice
    ) -> FittedTorchTransformer:
        where, spec = "train: torch_transformer", self.spec
        tokens = tokens_of(data.train, where)
        sequence_tokens = tokens.sequence_tokens
        check_shape(spec.shape, tokens.vocab, sequence_tokens, where)
        order = order_of(
            spec, rows=len(tokens), seed=self.train.seed, part=run.ranks.rank, parts=run.ranks.world
        )
        first = transformer_weights(spec.shape, self.train.seed)
        model = Decoder(spec, first)

        def validate() -> float:
            assert data.validation is not None
            held_out = tokens_of(data.validation, "train: validation")
            nats = nats_in_chunks(
                lambda ids: model(ids, per_token=True),
                held_out.of,
                len(held_out),
                place.device,
            )
            return mean_label_loss(nats, held_out)

        stepper = TorchStepper(
            model=model,
            rows=lambda rows: tokens.batch(rows, np.int64),
            validate=validate,
            spec=spec,
            place=place,
            parallel=spec.parallel,
            blocks=tuple(model.model.layers),
        )
        summary = run_steps(
            stepper,
            LoopConfig(
                train=self.train,
                gradient=spec,
                order=order,
                device=place.kind,
                flop_per_step=transformer_flop(spec.shape, order.batch, sequence_tokens),
                parameters_count=float(sum(array.size for array in first.values())),
                sequence_tokens=sequence_tokens - 1,
                has_validation=data.validation is not None,
            ),
            run,
        )
        return FittedTorchTransformer(stepper.weights(), spec, tokens, summary, place.device)


class FittedTorchTransformer:
    """A trained transformer."""

    def __init__(
        self,
        weights: Weights,
        spec: TorchTransformerSpec,
        tokens: TokenData,
        summary: TrainingSummary,
        device: torch.device,
    ) -> None:
        self.weights, self.spec, self.tokens, self.summary, self.device = (
            weights,
            spec,
            tokens,
            summary,
            device,
        )

    def predict(self, rows: Array) -> Array:
        """Return the nats of every token but the first, [n, s - 1]."""
        model = Decoder(self.spec, self.weights).to(self.device).eval()
        with torch.no_grad():
            return nats_in_chunks(model.nats, rows.__getitem__, len(rows), self.device)

    def hits(self, rows: Array) -> Hits:
        """Return whether the top token was right, for every token but the first."""
        model = Decoder(self.spec, self.weights).to(self.device).eval()
        with torch.no_grad():
            return nats_in_chunks(model.guessed, rows.__getitem__, len(rows), self.device).astype(
                np.bool_
            )

    def export(self, folder: Path) -> Exported:
        return export_llama(
            self.weights, self.spec, self.tokens, folder, f"torch {torch.__version__}"
        )


def mean_of_labels(nats: torch.Tensor, learned: torch.Tensor | None) -> torch.Tensor:
    """Return the mean nats of the tokens that are labels: all of them without a mask."""
    return nats.mean() if learned is None else (nats * learned).sum() / learned.sum().clamp(min=1)


def nats_in_chunks(
    nats: Callable[[torch.Tensor], torch.Tensor],
    read: Callable[[npt.NDArray[np.intp]], Array],
    rows: int,
    device: torch.device,
    at_once: int = PREDICT_ROWS,
) -> Array:
    """Evaluate a per-token function over many sequences, a few at a time."""
    parts = []
    for start in range(0, rows, at_once):
        ids = read(np.arange(start, min(start + at_once, rows))).astype(np.int64)
        parts.append(nats(torch.from_numpy(ids).to(device)).cpu().numpy())
    return np.concatenate(parts)


def load(
    weights: Path, spec: TorchTransformerSpec, tokens: TokenData, summary: TrainingSummary
) -> FittedTorchTransformer:
    """Return an exported transformer on the CPU."""
    from safetensors.numpy import load_file

    arrays = load_file(weights / "model.safetensors")
    return FittedTorchTransformer(arrays, spec, tokens, summary, torch.device("cpu"))


def make(spec: TrainSpec) -> TorchTransformer:
    """Return the trainer of a spec."""
    assert spec.torch_transformer is not None
    return TorchTransformer(spec, spec.torch_transformer)
