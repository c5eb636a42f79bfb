"""A model that the file describes by its shape: the shape has to be one."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.catalog import Catalog
from gpuyard.workload.finding import Finding
from gpuyard.workload.model import CUSTOM
from gpuyard.workload.workload import Workload

__all__ = ["is_shape_whole"]


def is_shape_whole(workload: Workload, _catalog: Catalog) -> Iterator[Finding]:
    """Heads that do not divide the width, or experts that are chosen more than there are."""
    model = workload.model
    if model is None or model.name != CUSTOM or model.transformer is None:
        return
    shape = model.transformer
    if shape.head_dim is None and shape.hidden % shape.heads:
        yield Finding(
            path="model.heads",
            what=f"{shape.heads} heads do not divide the width of {shape.hidden}",
            fix="add head_dim, or correct heads or hidden",
        )
    if shape.kv_heads is not None and shape.heads % shape.kv_heads:
        yield Finding(
            path="model.kv_heads",
            what=f"{shape.kv_heads} does not divide the {shape.heads} heads",
            fix="use a divisor of heads, or leave kv_heads out",
        )
    if shape.moe is None:
        return
    if shape.moe.top_k > shape.moe.experts:
        yield Finding(
            path="model.moe.top_k",
            what=f"a token cannot go to {shape.moe.top_k} of {shape.moe.experts} experts",
            fix=f"use {shape.moe.experts} or less",
        )
    if shape.moe.dense_layers > shape.layers:
        yield Finding(
            path="model.moe.dense_layers",
            what=f"{shape.moe.dense_layers} is more than the {shape.layers} layers",
            fix=f"use {shape.layers} or less",
        )
