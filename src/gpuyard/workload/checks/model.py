"""Checks of a model that the file describes by its shape."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.models import Transformer
from gpuyard.errors import Problem
from gpuyard.workload.model import CUSTOM
from gpuyard.workload.workload import Workload


def check_shape(workload: Workload, _catalog: Catalog) -> Iterator[Problem]:
    """Report heads, experts and layers that do not fit together."""
    model = workload.model
    if model is None or model.name != CUSTOM or model.transformer is None:
        return
    shape = model.transformer
    if shape.head_dim is None and shape.hidden % shape.heads:
        yield Problem(
            where="model.heads",
            what=f"{shape.heads} heads do not divide the hidden size {shape.hidden}",
            fix="add head_dim, or correct heads or hidden",
        )
    if shape.kv_heads is not None and shape.heads % shape.kv_heads:
        yield Problem(
            where="model.kv_heads",
            what=f"{shape.kv_heads} does not divide the {shape.heads} heads",
            fix="use a divisor of heads, or remove kv_heads",
        )
    yield from _layers(shape)
    if shape.moe is None:
        return
    if shape.moe.top_k > shape.moe.experts:
        yield Problem(
            where="model.moe.top_k",
            what=f"top_k {shape.moe.top_k} is more than the {shape.moe.experts} experts",
            fix=f"use {shape.moe.experts} or fewer",
        )
    if shape.moe.dense_layers > shape.layers:
        yield Problem(
            where="model.moe.dense_layers",
            what=f"{shape.moe.dense_layers} is more than the {shape.layers} layers",
            fix=f"use {shape.layers} or fewer",
        )


def _layers(shape: Transformer) -> Iterator[Problem]:
    """Report layers of one kind that are more than all layers, and a model of no layers."""
    counts = {
        "linear.layers": shape.linear_layers,
        "attention_layers": shape.attention_layers or 0,
        "full_attention_layers": shape.full_attention_layers or 0,
        "ffn_layers": shape.ffn_layers or 0,
        "shared_kv_layers": shape.shared_kv_layers,
        "moe.layers": (shape.moe.layers or 0) if shape.moe else 0,
    }
    for key, count in counts.items():
        if count > shape.layers:
            yield Problem(
                where=f"model.{key}",
                what=f"{count} is more than the {shape.layers} layers",
                fix=f"use {shape.layers} or fewer",
            )
    if shape.ffn == 0 and shape.mlp_layers > shape.expert_layers:
        yield Problem(
            where="model.ffn",
            what="layers without experts need an FFN",
            fix="write its width, or ffn_layers: 0 for layers without one",
        )
