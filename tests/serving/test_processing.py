"""ONNX files of any signature as models, with code of their author before and after them."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import onnx
import polars as pl
import pytest
from onnx import TensorProto, helper

from gpuyard.app.batch_predict import predict_file
from gpuyard.app.registry import OnnxImport, import_model
from gpuyard.cli.main import main
from gpuyard.errors import GpuyardError, InputError
from gpuyard.home import Home
from gpuyard.serving.spec import ServedModel

from .cases import ask, serving

# Images as texts to pixels, and the index of the brightest row to a name.
CODE = '''"""Base64 of eight bytes to an image of 2 x 4."""
import base64

import numpy as np

INPUTS = {"image": ("str", []), "gain": ("float32", [])}
OUTPUTS = {"name": ("str", []), "light": ("float32", [2])}


def preprocess(inputs):
    pixels = []
    for text in inputs["image"]:
        data = base64.b64decode(text)
        if len(data) != 8:
            raise ValueError(f"an image has 8 bytes, not {len(data)}")
        pixels.append(np.frombuffer(data, np.uint8).reshape(2, 4))
    return {"pixels": np.array(pixels, np.float32), "gain": inputs["gain"][:, None]}


def postprocess(outputs, inputs):
    light = outputs["light"]
    if (inputs["gain"] < 0).any():
        raise RuntimeError("negative light")
    return {"name": np.array(["top", "bottom"], object)[light.argmax(axis=1)], "light": light}
'''


def write_light(path: Path) -> Path:
    """A model of two inputs: the mean of each row of an image of 2 x 4, times a gain [n, 1]."""
    nodes = [
        helper.make_node("ReduceMean", ["pixels"], ["mean"], axes=[2], keepdims=0),
        helper.make_node("Mul", ["mean", "gain"], ["light"]),
    ]
    graph = helper.make_graph(
        nodes,
        "light",
        [
            helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["n", 2, 4]),
            helper.make_tensor_value_info("gain", TensorProto.FLOAT, ["n", 1]),
        ],
        [helper.make_tensor_value_info("light", TensorProto.FLOAT, ["n", 2])],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return path


def image(top: int, bottom: int) -> str:
    return base64.b64encode(bytes([top] * 4 + [bottom] * 4)).decode()


def request(images: list[str], gain: float = 2.0) -> dict[str, object]:
    shape = [len(images)]
    return {
        "inputs": [
            {"name": "image", "shape": shape, "datatype": "BYTES", "data": images},
            {"name": "gain", "shape": shape, "datatype": "FP32", "data": [gain] * len(images)},
        ]
    }


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(path=tmp_path / "home")
    (tmp_path / "code.py").write_text(CODE, encoding="utf-8")
    source = str(write_light(tmp_path / "light.onnx"))
    import_model(home, source, name="own", onnx=OnnxImport(code=tmp_path / "code.py"))
    import_model(home, source, name="plain", onnx=OnnxImport())
    return home


def test_server_runs_the_code_around_the_model(home: Home) -> None:
    mounts = tuple(ServedModel(name=name, reference=name) for name in ("own", "plain"))
    with pytest.raises(GpuyardError, match="--allow-code"), serving(home, mounts):
        pass
    with serving(home, mounts, allow_code=True) as endpoint:
        url = f"{endpoint.url}/v2/models/own"
        _, metadata = ask(url)
        assert isinstance(metadata, dict)
        assert metadata["inputs"] == [
            {"name": "image", "datatype": "BYTES", "shape": [-1]},
            {"name": "gain", "datatype": "FP32", "shape": [-1]},
        ]
        status, answer = ask(f"{url}/infer", request([image(1, 5), image(9, 3)]))
        assert status == 200
        name, light = answer["outputs"]  # type: ignore[index]
        assert name["data"] == ["bottom", "top"]
        assert light["shape"] == [2, 2]
        assert light["data"] == [2.0, 10.0, 18.0, 6.0]
        status, answer = ask(f"{url}/infer", request(["AAAA"]))
        assert (status, answer) == (400, {"error": "an image has 8 bytes, not 3"})
        status, answer = ask(f"{url}/infer", request([image(1, 1)], gain=-1.0))
        assert status == 500
        assert "processing.py:23" in str(answer)
        assert "negative light" in str(answer)
        tensors = {
            "inputs": [
                {"name": "pixels", "shape": [1, 2, 4], "datatype": "FP32", "data": [1.0] * 8},
                {"name": "gain", "shape": [1, 1], "datatype": "FP32", "data": [3.0]},
            ]
        }
        status, answer = ask(f"{endpoint.url}/v2/models/plain/infer", tensors)
        assert status == 200
        assert answer["outputs"][0]["data"] == [3.0, 3.0]  # type: ignore[index]


def test_batch_predictions_run_the_code(home: Home, tmp_path: Path) -> None:
    frame = pl.DataFrame({"image": [image(1, 5), image(9, 3)], "gain": [2.0, 2.0]})
    frame.write_parquet(tmp_path / "rows.parquet")
    out = tmp_path / "out.parquet"
    with pytest.raises(InputError, match="--allow-code"):
        predict_file("own", tmp_path / "rows.parquet", out, home=home)
    predict_file("own", tmp_path / "rows.parquet", out, home=home, allow_code=True)
    table = pl.read_parquet(out)
    assert table["name"].to_list() == ["bottom", "top"]
    assert table["light"].to_list() == [[2.0, 10.0], [18.0, 6.0]]
    with pytest.raises(InputError, match="an array per row"):
        predict_file(
            "own", tmp_path / "rows.parquet", tmp_path / "out.csv", home=home, allow_code=True
        )


def test_batch_predictions_of_tensors(home: Home, tmp_path: Path) -> None:
    pixels = np.arange(16, dtype=np.float32).reshape(2, 2, 4)
    frame = pl.DataFrame({"pixels": pl.Series(pixels), "gain": pl.Series([[1.0], [1.0]])})
    frame.write_parquet(tmp_path / "rows.parquet")
    predict_file("plain", tmp_path / "rows.parquet", tmp_path / "out.parquet", home=home)
    light = pl.read_parquet(tmp_path / "out.parquet")["light"].to_list()
    assert light == pixels.mean(axis=2).tolist()


def test_command_line_imports_an_onnx_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "code.py").write_text(CODE, encoding="utf-8")
    source = str(write_light(tmp_path / "light.onnx"))
    words = ["models", "import", source, "--name", "light", "--home", str(tmp_path / "home")]
    assert main([*words, "--code", str(tmp_path / "code.py"), "--json"]) == 0
    bundle = json.loads(capsys.readouterr().out)["bundle"]
    assert [item["name"] for item in bundle["inputs"]] == ["image", "gain"]
    assert "processing.py" in [item["path"] for item in bundle["files"]]


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ('("str", []), "gain"', '("string", []), "gain"', "is not a type"),
        ('"light": ("float32", [2])', '"light": ("float32", [-1])', "fixed sizes"),
        ("import base64", "import no_such_package", "cannot be loaded"),
        ('INPUTS = {"image"', 'INPUTS = ["image", {"image"', "not Python"),
    ],
)
def test_wrong_declarations_are_refused(tmp_path: Path, before: str, after: str, says: str) -> None:
    assert before in CODE
    (tmp_path / "code.py").write_text(CODE.replace(before, after), encoding="utf-8")
    options = OnnxImport(code=tmp_path / "code.py")
    source = str(write_light(tmp_path / "light.onnx"))
    with pytest.raises(InputError, match=says):
        import_model(Home(path=tmp_path / "home"), source, name="m", onnx=options)
