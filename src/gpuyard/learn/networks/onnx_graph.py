"""The end of every exported graph: the answers by the names that clients know, checked and saved."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gpuyard.learn.trainer import Exported, Table
from gpuyard.registry import ONNX, Tensor

__all__ = ["save_graph"]

OPSET, ML_OPSET = 17, 3
IR_VERSION = 8  # what goes with opset 17; older runtimes read it too
Parts = Sequence[typing.Any]  # of onnx, which is loaded only to export


def save_graph(
    name: str, nodes: Parts, initial: Parts, table: Table, folder: Path, framework: str, value: str = ""
) -> Exported:
    """Writes model.onnx from rows `x` to answers; `nodes` give `probabilities` of classes, or else `value`."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    if table.problem == "classification":
        nodes = [*nodes, helper.make_node("ArgMax", ["probabilities"], ["label"], axis=1, keepdims=0)]
        outputs: tuple[Tensor, ...] = (
            Tensor(name="probabilities", dtype="float32", shape=(-1, len(table.classes))),
            Tensor(name="label", dtype="int64"),
        )
    else:
        initial = [*initial, numpy_helper.from_array(np.array([-1], dtype=np.int64), "flat")]
        nodes = [*nodes, helper.make_node("Reshape", [value, "flat"], ["value"])]
        outputs = (Tensor(name="value", dtype="float32"),)
    kinds = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}
    features = len(table.names)
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", features])],
        [helper.make_tensor_value_info(out.name, kinds[out.dtype], ["n", *out.shape[1:]]) for out in outputs],
        initial,
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, producer_name="gpuyard")
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
