"""Export a perceptron as an ONNX graph: Gemm, Relu, and Softmax or a value."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpuyard.learn.networks.onnx_graph import save_graph
from gpuyard.learn.networks.weights import Weights
from gpuyard.learn.trainer import Exported, TabularData


def export_mlp(weights: Weights, table: TabularData, folder: Path, framework: str) -> Exported:
    """Write model.onnx; the weights already output values in the label's own scale."""
    from onnx import helper, numpy_helper

    layers = len(weights) // 2
    nodes, value = [], "x"
    for number in range(layers):
        name = f"layers.{number}"
        output = f"{name}.out"
        nodes.append(
            helper.make_node("Gemm", [value, f"{name}.weight", f"{name}.bias"], [output], transB=1)
        )
        value = output
        if number < layers - 1:
            value = f"{name}.relu"
            nodes.append(helper.make_node("Relu", [output], [value]))
    initializers = [
        numpy_helper.from_array(np.ascontiguousarray(array), name)
        for name, array in weights.items()
    ]
    if table.problem == "classification":
        nodes.append(helper.make_node("Softmax", [value], ["probabilities"], axis=1))
    return save_graph("mlp", nodes, initializers, table, folder, framework, value)
