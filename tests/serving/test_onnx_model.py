"""Models that cannot be served are refused when they are loaded, with the reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.serving.onnx_model import LoadedModel
from gpuyard.serving.request_errors import ModelError
from gpuyard.serving.spec import BatchSpec, ServedModel
from gpuyard.serving.version import load_version
from gpuyard.serving.version_sources import find_version

from .cases import bundle, transform, write_mlp


def write(path: Path, shape: list[object], name: str = "x", kind: int = TensorProto.FLOAT) -> Path:
    node = helper.make_node("Identity", [name], ["y"])
    given = helper.make_tensor_value_info(name, kind, shape)
    out = helper.make_tensor_value_info("y", kind, shape)
    model = helper.make_model(
        helper.make_graph([node], "g", [given], [out]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.save(model, str(path))
    return path


@pytest.mark.parametrize(
    ("shape", "name", "kind", "outputs", "said"),
    [
        (["n", "f"], "x", TensorProto.FLOAT, ["y"], "fixed sizes"),
        ([], "x", TensorProto.FLOAT, ["y"], "first axis must be the rows"),
        (
            ["n", 4],
            "x",
            TensorProto.FLOAT,
            ["probabilities"],
            "missing outputs: probabilities",
        ),
        (["n", 4], "x", TensorProto.FLOAT, [], "no outputs"),
    ],
)
def test_model_of_another_form_is_refused(
    tmp_path: Path, shape: list[object], name: str, kind: int, outputs: list[str], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        LoadedModel(write(tmp_path / "m.onnx", shape, name, kind), outputs)


@pytest.mark.parametrize(
    ("shape", "kind", "dtype"),
    [
        (["n", 1, 8, 8], TensorProto.FLOAT, "f4"),
        (["n", 3], TensorProto.INT64, "i8"),
        ([2, 3], TensorProto.UINT8, "u1"),  # a fixed batch of two rows
        ([1, 2, 2], TensorProto.DOUBLE, "f8"),
    ],
)
def test_any_shape_and_type_is_served(
    tmp_path: Path, shape: list[object], kind: int, dtype: str
) -> None:
    model = LoadedModel(write(tmp_path / "m.onnx", shape, "pixels", kind), ["y"])
    tail = tuple(shape[1:])
    assert (model.inputs[0].name, model.inputs[0].tail) == ("pixels", tail)
    assert model.outputs[0].tail == tail
    rows = np.arange(5 * model.width).reshape(5, *tail).astype(dtype)  # type: ignore[arg-type]
    assert np.array_equal(model.run(rows)[0], rows)


def test_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"nothing")
    with pytest.raises(InputError, match="cannot load the model"):
        LoadedModel(tmp_path / "m.onnx", ["y"])


def test_outputs_that_are_not_finite_are_a_failure(tmp_path: Path) -> None:
    write_mlp(tmp_path / "m.onnx", (4, 8, 2), broken=True)
    engine = LoadedModel(tmp_path / "m.onnx", ["probabilities", "label"])
    assert [(item.name, item.datatype, item.tail) for item in engine.outputs] == [
        ("probabilities", "FP32", (2,)),
        ("label", "INT64", ()),
    ]
    with pytest.raises(ModelError, match="not a finite number"):
        engine.run(np.zeros((3, 4), np.float32))


def test_transform_of_another_width_is_refused(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "m", sizes=(5, 8, 2))
    found = find_version(ServedModel(name="m", folder=str(folder)), Home(path=tmp_path / "home"))
    with pytest.raises(InputError, match="returns 4 features; the model takes 5"):
        load_version(found, transform(), BatchSpec())
