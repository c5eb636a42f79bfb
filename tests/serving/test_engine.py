"""Models that cannot be served are refused when they are loaded, with the reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.serving import BatchSpec, Mount
from gpuyard.serving.engine import Engine
from gpuyard.serving.failures import ModelError
from gpuyard.serving.sources import find_version
from gpuyard.serving.version import load_version

from .cases import bundle, transform, write_mlp


def write(path: Path, shape: list[object], name: str = "x", kind: int = TensorProto.FLOAT) -> Path:
    node = helper.make_node("Identity", [name], ["y"])
    given = helper.make_tensor_value_info(name, kind, shape)
    out = helper.make_tensor_value_info("y", kind, shape)
    model = helper.make_model(
        helper.make_graph([node], "g", [given], [out]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    onnx.save(model, str(path))
    return path


@pytest.mark.parametrize(
    ("shape", "name", "kind", "outputs", "said"),
    [
        (["n", 4], "z", TensorProto.FLOAT, ["y"], "not the one tensor x"),
        (["n", 4], "x", TensorProto.INT64, ["y"], "not the one tensor x"),
        ([1, 4], "x", TensorProto.FLOAT, ["y"], "n free"),
        (["n", "f"], "x", TensorProto.FLOAT, ["y"], "n free"),
        (["n", 4], "x", TensorProto.FLOAT, ["probabilities"], "no tensor output named probabilities"),
        (["n", 4], "x", TensorProto.FLOAT, [], "no tensor output"),
    ],
)
def test_a_model_of_another_form_is_refused(
    tmp_path: Path, shape: list[object], name: str, kind: int, outputs: list[str], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        Engine(write(tmp_path / "m.onnx", shape, name, kind), outputs)


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"nothing")
    with pytest.raises(InputError, match="cannot load it"):
        Engine(tmp_path / "m.onnx", ["y"])


def test_outputs_that_are_not_finite_are_a_failure(tmp_path: Path) -> None:
    write_mlp(tmp_path / "m.onnx", (4, 8, 2), broken=True)
    engine = Engine(tmp_path / "m.onnx", ["probabilities", "label"])
    assert [(item.name, item.datatype, item.tail) for item in engine.outputs] == [
        ("probabilities", "FP32", (2,)),
        ("label", "INT64", ()),
    ]
    with pytest.raises(ModelError, match="not finite"):
        engine.run(np.zeros((3, 4), np.float32))


def test_a_transform_of_another_width_is_refused(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "m", sizes=(5, 8, 2))
    found = find_version(Mount(name="m", folder=str(folder)), Home(path=tmp_path / "home"))
    with pytest.raises(InputError, match="gives 4 features, and the model takes 5"):
        load_version(found, transform(), BatchSpec())
