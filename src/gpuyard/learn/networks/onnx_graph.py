"""Finish an exported ONNX graph: named outputs, checked and saved."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gpuyard.learn.trainer import Exported, ImageData, ProblemType, TabularData
from gpuyard.registry.bundle import ONNX, Tensor

PIXELS = "pixels"  # input of image models
OPSET = 17
ML_OPSET = 3
IR_VERSION = 8  # of opset 17; older runtimes read it too
Parts = Sequence[typing.Any]  # onnx types; onnx is imported only to export


def save_graph(
    name: str,
    nodes: Parts,
    initializers: Parts,
    data: TabularData | ImageData,
    folder: Path,
    framework: str,
    value: str = "",
) -> Exported:
    """Write model.onnx with input `x` or `pixels`; `nodes` produce `probabilities`, or `value`."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    problem: ProblemType = "classification"
    if isinstance(data, ImageData):
        source, shape = PIXELS, data.shape
    else:
        problem, source, shape = data.problem, "x", (len(data.names),)
    if problem == "classification":
        nodes = [
            *nodes,
            helper.make_node("ArgMax", ["probabilities"], ["label"], axis=1, keepdims=0),
        ]
        outputs: tuple[Tensor, ...] = (
            Tensor(name="probabilities", dtype="float32", shape=(-1, len(data.classes))),
            Tensor(name="label", dtype="int64"),
        )
    else:
        initializers = [
            *initializers,
            numpy_helper.from_array(np.array([-1], dtype=np.int64), "flat"),
        ]
        nodes = [*nodes, helper.make_node("Reshape", [value, "flat"], ["value"])]
        outputs = (Tensor(name="value", dtype="float32"),)
    kinds = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(source, TensorProto.FLOAT, ["n", *shape])],
        [
            helper.make_tensor_value_info(out.name, kinds[out.dtype], ["n", *out.shape[1:]])
            for out in outputs
        ],
        initializers,
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, producer_name="gpuyard")
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model)
    onnx.save(model, str(folder / ONNX))
    return Exported(
        kind=problem,
        inputs=(Tensor(name=source, dtype="float32", shape=(-1, *shape)),),
        outputs=outputs,
        classes=data.classes,
        framework=framework,
    )
