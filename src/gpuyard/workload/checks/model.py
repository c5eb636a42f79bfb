"""Checks of a model that the file describes by its shape."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.catalog.load import Catalog
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
