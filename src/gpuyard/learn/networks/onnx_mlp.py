"""A perceptron as an ONNX graph: Gemm, Relu, and Softmax or a scaled value at the end."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpuyard.learn.networks.onnx_graph import save_graph
from gpuyard.learn.networks.weights import Weights
from gpuyard.learn.trainer import Exported, Table

__all__ = ["export_mlp"]


def export_mlp(weights: Weights, table: Table, folder: Path, framework: str) -> Exported:
    """Writes model.onnx; the weights already give values in the label's own scale."""
    from onnx import helper, numpy_helper

    layers = len(weights) // 2
    nodes, value = [], "x"
    for number in range(layers):
        name = f"layers.{number}"
        out = f"{name}.out"
        nodes.append(helper.make_node("Gemm", [value, f"{name}.weight", f"{name}.bias"], [out], transB=1))
        value = out
        if number < layers - 1:
            value = f"{name}.relu"
            nodes.append(helper.make_node("Relu", [out], [value]))
    initial = [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in weights.items()]
    if table.problem == "classification":
        nodes.append(helper.make_node("Softmax", [value], ["probabilities"], axis=1))
    return save_graph("mlp", nodes, initial, table, folder, framework, value)
