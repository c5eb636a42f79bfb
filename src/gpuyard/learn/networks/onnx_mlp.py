"""A perceptron as an ONNX graph: Gemm, Relu, and Softmax or a scaled value at the end."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpuyard.learn.networks.weights import Weights
from gpuyard.learn.trainer import Exported, Table
from gpuyard.registry import ONNX, Tensor

__all__ = ["OPSET", "export_mlp"]

OPSET = 17
IR_VERSION = 8  # what goes with opset 17; older runtimes read it too


def export_mlp(weights: Weights, table: Table, folder: Path, framework: str) -> Exported:
    """Writes model.onnx; the weights already give values in the label's own scale."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

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
        nodes.append(helper.make_node("ArgMax", ["probabilities"], ["label"], axis=1, keepdims=0))
        outputs: tuple[Tensor, ...] = (
            Tensor(name="probabilities", dtype="float32", shape=(-1, len(table.classes))),
            Tensor(name="label", dtype="int64"),
        )
    else:
        initial.append(numpy_helper.from_array(np.array([-1], dtype=np.int64), "flat"))
        nodes.append(helper.make_node("Reshape", [value, "flat"], ["value"]))
        outputs = (Tensor(name="value", dtype="float32"),)
    kinds = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}
    features = len(table.names)
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", features])],
        [helper.make_tensor_value_info(out.name, kinds[out.dtype], ["n", *out.shape[1:]]) for out in outputs],
        initial,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="gpuyard")
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model)
    onnx.save(model, str(folder / ONNX))
    return Exported(
        kind=table.problem,
        inputs=(Tensor(name="x", dtype="float32", shape=(-1, features)),),
        outputs=outputs,
        classes=table.classes,
        framework=framework,
    )
