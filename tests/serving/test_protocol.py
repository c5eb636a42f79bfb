"""The Open Inference Protocol over a real server, with real clients."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gpuyard.datasets.columns import Column
from gpuyard.datasets.steps.casts import FittedCast
from gpuyard.datasets.transform import FittedTransform, TransformRecord, saved_part
from gpuyard.home import Home
from gpuyard.registry.bundle import ONNX, TRANSFORM, ModelBundle, Tensor, write_bundle
from gpuyard.serving.spec import ServedModel

from .cases import ask, bundle, register, rows, serving, transform, write_mlp

if os.environ.get("GPUYARD_REQUIRE_ALL") != "1":
    pytest.importorskip("tritonclient.http")
import onnxruntime
import tritonclient.http as triton

ROW = (0.5, -1.0, 2.0, 0.25)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    base = tmp_path_factory.mktemp("protocol")
    home = Home(path=base / "home")
    register(home, "plain", bundle(base / "plain"))
    register(home, "people", bundle(base / "people", columns=True))
    mounts = (
        ServedModel(name="plain", reference="plain@champion"),
        ServedModel(name="people", reference="people"),
    )
    with serving(home, mounts) as endpoint:
        yield endpoint.url


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> onnxruntime.InferenceSession:
    folder = bundle(tmp_path_factory.mktemp("local") / "plain")
    return onnxruntime.InferenceSession(str(folder / "model.onnx"))


def expected(local: onnxruntime.InferenceSession, x: np.ndarray) -> np.ndarray:
    return local.run(["probabilities"], {"x": x.astype(np.float32)})[0]


def outputs(answer: object) -> dict[str, np.ndarray]:
    assert isinstance(answer, dict)
    return {
        item["name"]: np.array(item["data"]).reshape(item["shape"]) for item in answer["outputs"]
    }


def test_health_and_metadata(url: str) -> None:
    assert ask(f"{url}/v2/health/live") == (200, {"live": True})
    assert ask(f"{url}/v2/health/ready") == (200, {"ready": True})
    assert ask(f"{url}/v2/models/plain/ready") == (200, {"name": "plain", "ready": True})
    status, server = ask(f"{url}/v2")
    assert status == 200
    assert isinstance(server, dict)
    assert server["name"] == "gpuyard"
    assert "binary_tensor_data" in server["extensions"]
    _, model = ask(f"{url}/v2/models/people/versions/1")
    assert isinstance(model, dict)
    assert [(item["name"], item["datatype"]) for item in model["inputs"]] == [
        ("age", "FP64"),
        ("income", "INT64"),
        ("city", "BYTES"),
    ]
    assert [(item["name"], item["datatype"], item["shape"]) for item in model["outputs"]] == [
        ("probabilities", "FP32", [-1, 2]),
        ("label", "INT64", [-1]),
        ("class", "BYTES", [-1]),
    ]


def test_json_flat_nested_and_with_id(url: str, local: onnxruntime.InferenceSession) -> None:
    status, flat = ask(f"{url}/v2/models/plain/infer", rows(ROW, ROW[::-1]))
    assert status == 200
    np.testing.assert_allclose(
        outputs(flat)["probabilities"], expected(local, np.array([ROW, ROW[::-1]])), rtol=1e-6
    )
    body = rows(ROW, ROW[::-1])
    body["inputs"][0]["data"] = [list(ROW), list(ROW[::-1])]  # type: ignore[index]
    body["id"] = 'q"1'
    body["outputs"] = [{"name": "label"}]
    status, nested = ask(f"{url}/v2/models/plain/versions/1/infer", body)
    assert status == 200
    assert isinstance(nested, dict)
    assert nested["id"] == 'q"1'
    assert set(outputs(nested)) == {"label"}
    assert outputs(nested)["label"].tolist() == outputs(flat)["label"].tolist()


@pytest.mark.parametrize(
    ("binary_in", "binary_out"), list(itertools.product([True, False], repeat=2))
)
def test_triton_client(
    url: str, local: onnxruntime.InferenceSession, binary_in: bool, binary_out: bool
) -> None:
    client = triton.InferenceServerClient(url.removeprefix("http://"))
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("plain")
    assert client.get_model_metadata("plain")["name"] == "plain"
    assert {item["name"] for item in client.get_model_repository_index()} == {"plain", "people"}
    x = np.random.default_rng(1).standard_normal((5, 4)).astype(np.float32)
    tensor = triton.InferInput("x", list(x.shape), "FP32")
    tensor.set_data_from_numpy(x, binary_data=binary_in)
    wanted = [
        triton.InferRequestedOutput(name, binary_data=binary_out)
        for name in ("label", "probabilities")
    ]
    found = client.infer("plain", [tensor], outputs=wanted, request_id="7")
    np.testing.assert_allclose(found.as_numpy("probabilities"), expected(local, x), rtol=1e-6)
    assert found.as_numpy("label").dtype == np.int64
    assert found.get_response()["id"] == "7"
    client.close()


def test_columns_go_through_the_transform(url: str, local: onnxruntime.InferenceSession) -> None:
    columns = {
        "age": [31.5, None, 70.0],
        "income": [900, 2000, 10],
        "city": ["Rome", "Oslo", "Nowhere"],
    }
    kinds = {"age": "FP64", "income": "INT64", "city": "BYTES"}
    body = {
        "inputs": [
            {"name": n, "shape": [3], "datatype": kinds[n], "data": v} for n, v in columns.items()
        ]
    }
    status, answer = ask(f"{url}/v2/models/people/infer", body)
    assert status == 200, answer
    matrix = transform().matrix(columns)
    assert matrix[1, 0] == 0.0  # the missing age is the mean
    np.testing.assert_allclose(outputs(answer)["probabilities"], expected(local, matrix), rtol=1e-6)
    _, direct = ask(f"{url}/v2/models/people/infer", rows(*matrix.tolist()))
    np.testing.assert_allclose(outputs(direct)["probabilities"], expected(local, matrix), rtol=1e-6)


def test_triton_client_with_texts(url: str, local: onnxruntime.InferenceSession) -> None:
    client = triton.InferenceServerClient(url.removeprefix("http://"))
    columns = {
        "age": np.array([[20.0], [60.0]]),
        "income": np.array([[1000], [5]]),
        "city": np.array([["Oslo"], ["Røst"]], dtype=object),
    }
    tensors = []
    for name, values in columns.items():
        datatype = {"f": "FP64", "i": "INT64", "O": "BYTES"}[values.dtype.kind]
        tensors.append(triton.InferInput(name, list(values.shape), datatype))
        tensors[-1].set_data_from_numpy(values)
    found = client.infer("people", tensors).as_numpy("probabilities")
    matrix = transform().matrix({name: values.ravel().tolist() for name, values in columns.items()})
    np.testing.assert_allclose(found, expected(local, matrix), rtol=1e-6)
    client.close()


WRONG = {
    "no JSON": (b"{", "not JSON"),
    "empty": (b"", "not JSON"),
    "a list": (b"[]", "invalid request"),
    "no inputs": ({"inputs": []}, "no inputs"),
    "unknown input": ({"inputs": [{"name": "y", "shape": [1], "datatype": "FP32", "data": [1]}]}, 'unknown input "y"'),
    "dtype": ({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "INT64", "data": [1, 2, 3, 4]}]}, "send FP32"),
    "no dtype": ({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FLOAT", "data": [1, 2, 3, 4]}]}, "unknown datatype"),
    "width": ({"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]}, "send [n, 4]"),
    "count": ({"inputs": [{"name": "x", "shape": [2, 4], "datatype": "FP32", "data": [1, 2, 3]}]}, "3 values"),
    "negative": ({"inputs": [{"name": "x", "shape": [-1, 4], "datatype": "FP32", "data": []}]}, "invalid shape"),
    "none": ({"inputs": [{"name": "x", "shape": [0, 4], "datatype": "FP32", "data": []}]}, "send [n, 4]"),
    "text": ({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": ["1", 2, 3, 4]}]}, "not a float"),
    "bool": ({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [True, 2, 3, 4]}]}, "not a float"),
    "null": ({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [None, 2, 3, 4]}]}, "null"),
    "NaN": (b'{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[NaN,2,3,4]}]}', "not JSON"),
    "huge": (rows((1e39, 0, 0, 0)), "too large for FP32"),
    "ragged": ({"inputs": [{"name": "x", "shape": [2, 4], "datatype": "FP32", "data": [[1, 2, 3, 4, 5], [1, 2, 3]]}]}, "5 values"),
    "twice": ({"inputs": [rows(ROW)["inputs"][0]] * 2}, "is duplicated"),  # type: ignore[index]
    "output": (rows(ROW) | {"outputs": [{"name": "odds"}]}, 'unknown output "odds"'),
    "no data": ({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32"}]}, "has no data"),
    "deep": (b"[" * 100_000, "invalid request"),
    "deep inside": (b'{"a":' * 50_000, "not JSON"),
    "deep data": (b'{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":' + b"[" * 50_000 + b"]" * 50_000 + b"}]}", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_invalid_request_names_the_problem(url: str, case: str) -> None:
    body, said = WRONG[case]
    status, answer = ask(f"{url}/v2/models/plain/infer", body)
    assert status == 400
    assert isinstance(answer, dict)
    assert said in answer["error"]


def column(name: str, datatype: str, *values: object) -> dict[str, object]:
    return {"name": name, "shape": [len(values)], "datatype": datatype, "data": list(values)}


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ([column("age", "FP64", 1.0)], "missing inputs: income or city"),
        ([column("agee", "FP64", 1.0)], 'did you mean "age"?'),
        (
            [
                column("age", "BYTES", "old"),
                column("income", "INT64", 1),
                column("city", "BYTES", "Oslo"),
            ],
            "send FP64",
        ),
        (
            [
                column("age", "FP64", 1.0),
                column("income", "FP64", 1.5),
                column("city", "BYTES", "Oslo"),
            ],
            "send INT64",
        ),
        (
            [
                column("age", "FP64", 1.0),
                column("income", "INT64", 1.5),
                column("city", "BYTES", "Oslo"),
            ],
            "not an int",
        ),
        (
            [
                column("age", "FP64", 1.0),
                column("income", "INT8", 300),
                column("city", "BYTES", "Oslo"),
            ],
            "does not fit INT8",
        ),
        (
            [
                column("age", "FP64", 1.0),
                column("income", "INT64", 1 << 63),
                column("city", "BYTES", "Oslo"),
            ],
            "does not fit INT64",
        ),
        (
            [
                column("age", "FP64", 1.0, 2.0),
                column("income", "INT64", 1),
                column("city", "BYTES", "Oslo"),
            ],
            "one n for all",
        ),
        (
            [column("age", "FP64", 1.0), column("income", "INT64", 1), column("city", "BYTES", 5)],
            "not a text",
        ),
    ],
)
def test_invalid_columns_are_reported(url: str, inputs: list[dict[str, object]], said: str) -> None:
    status, answer = ask(f"{url}/v2/models/people/infer", {"inputs": inputs})
    assert status == 400
    assert isinstance(answer, dict)
    assert said in answer["error"]


def test_missing_value_without_imputation_is_a_bad_request(url: str) -> None:
    inputs = [
        column("age", "FP64", 1.0),
        column("income", "INT64", None),
        column("city", "BYTES", None),
    ]
    status, answer = ask(f"{url}/v2/models/people/infer", {"inputs": inputs})
    assert (status, "missing" in str(answer)) == (400, True)


@pytest.mark.parametrize(
    ("length", "size", "data"),
    [
        ("99999", 16, b""),
        ("-1", 16, b""),
        ("x", 16, b""),
        (None, 15, b"\0" * 15),
        (None, 16, b"\0" * 17),
        (None, 99, b""),
    ],
)
def test_binary_that_does_not_add_up_is_refused(
    url: str, length: str | None, size: int, data: bytes
) -> None:
    tensor = {
        "name": "x",
        "shape": [1, 4],
        "datatype": "FP32",
        "parameters": {"binary_data_size": size},
    }
    head = json.dumps({"inputs": [tensor]}).encode()
    headers = {"Inference-Header-Content-Length": length or str(len(head))}
    status, answer = ask(f"{url}/v2/models/plain/infer", head + data, headers)
    assert status == 400, answer


def test_binary_numbers_that_are_not_finite_are_refused(url: str) -> None:
    tensor = {
        "name": "x",
        "shape": [1, 4],
        "datatype": "FP32",
        "parameters": {"binary_data_size": 16},
    }
    head = json.dumps({"inputs": [tensor]}).encode()
    data = np.array([math.nan, math.inf, 0, 0], "<f4").tobytes()
    status, answer = ask(
        f"{url}/v2/models/plain/infer",
        head + data,
        {"Inference-Header-Content-Length": str(len(head))},
    )
    assert (status, "NaN" in str(answer)) == (400, True)


def test_unknown_paths_and_methods(url: str) -> None:
    assert ask(f"{url}/nothing")[0] == 404
    assert ask(f"{url}/v2/models/none")[0] == 404
    assert ask(f"{url}/v2/models/none/infer", {})[0] == 404
    assert ask(f"{url}/v2/models/plain/versions/9/infer", {})[0] == 404
    assert ask(f"{url}/v2/models/plain/infer")[0] == 405
    assert ask(f"{url}/v2/health/live", b"x")[0] == 405
    assert ask(f"{url}/v2/models/plain/infer", rows(ROW), {"Content-Encoding": "gzip"})[0] == 415


def test_metrics_count_requests(url: str) -> None:
    def count(code: int) -> int:
        text = str(ask(f"{url}/metrics")[1])
        found = re.search(
            rf'gpuyard_requests_total{{model="plain",version="1",code="{code}"}} (\d+)', text
        )
        return int(found[1]) if found else 0

    before = count(200), count(400)
    for _ in range(3):
        ask(f"{url}/v2/models/plain/infer", rows(ROW))
    ask(f"{url}/v2/models/plain/infer", {})
    assert (count(200), count(400)) == (before[0] + 3, before[1] + 1)
    text = str(ask(f"{url}/metrics")[1])
    for line in text.splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) \w+ .+|\w+({(\w+="[^"]*",?)+})? [0-9.e+-]+', line), line


def test_answers_name_the_class_of_every_row(url: str) -> None:
    batch = [(value, -value, 0.0, 1.0) for value in (-3.0, -1.0, 0.5, 4.0)]
    for some in (batch[:1], batch):
        answer = outputs(ask(f"{url}/v2/models/plain/infer", rows(*some))[1])
        assert list(answer) == ["probabilities", "label", "class"]
        assert answer["class"].tolist() == [f"class {index}" for index in answer["label"]]
        assert (answer["label"] == answer["probabilities"].argmax(axis=1)).all()
    wanted = rows(*batch) | {"outputs": [{"name": "class"}]}
    assert list(outputs(ask(f"{url}/v2/models/plain/infer", wanted)[1])) == ["class"]
    client = triton.InferenceServerClient(url.removeprefix("http://"))
    tensor = triton.InferInput("x", [4, 4], "FP32")
    tensor.set_data_from_numpy(np.array(batch, np.float32))
    named = triton.InferRequestedOutput("class", binary_data=True)
    found = client.infer("plain", [tensor], outputs=[named]).as_numpy("class")
    assert [name.decode() for name in found] == answer["class"].tolist()
    client.close()


def test_infinite_values_of_a_column_are_refused(url: str) -> None:
    ages = np.array([1.0, math.inf]).tobytes()
    tensors = [
        column("age", "FP64", 0, 0) | {"parameters": {"binary_data_size": len(ages)}},
        column("income", "INT64", 1, 2),
        column("city", "BYTES", "Oslo", "Rome"),
    ]
    del tensors[0]["data"]
    head = json.dumps({"inputs": tensors}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    status, answer = ask(f"{url}/v2/models/people/infer", head + ages, headers)
    assert (status, 'input "age": row 1' in str(answer)) == (400, True)
    ages = np.array([1.0, math.nan]).tobytes()  # as null: a missing value
    assert ask(f"{url}/v2/models/people/infer", head + ages, headers)[0] == 200


def test_value_beyond_fp32_names_its_feature(url: str) -> None:
    inputs = [
        column("age", "FP64", 1.0, 1e300),
        column("income", "INT64", 1, 1),
        column("city", "BYTES", "Oslo", "Oslo"),
    ]
    status, answer = ask(f"{url}/v2/models/people/infer", {"inputs": inputs})
    assert (status, 'row 1: feature "age"' in str(answer)) == (400, True)


def test_text_that_is_not_a_date_is_refused_as_in_training(tmp_path: Path) -> None:
    folder = tmp_path / "dated"
    folder.mkdir()
    write_mlp(folder / ONNX, (1, 8, 2))
    cast = FittedCast(columns=("at",), kinds=("text",), to="date", strict=True)
    record = TransformRecord(
        version="t",
        inputs=(Column(name="at", dtype="String"),),
        outputs=("at",),
        parts=(saved_part("cast", cast),),
    )
    FittedTransform(record).save(folder / TRANSFORM)
    described = ModelBundle(
        kind="classification",
        trainer="torch_mlp",
        inputs=(Tensor(name="at", dtype="str"),),
        outputs=(
            Tensor(name="probabilities", dtype="float32", shape=(-1, 2)),
            Tensor(name="label", dtype="int64"),
        ),
        classes=("no", "yes"),
    )
    write_bundle(folder, described)
    mounts = (ServedModel(name="dated", folder=str(folder)),)
    with serving(Home(path=tmp_path / "home"), mounts) as endpoint:
        path = f"{endpoint.url}/v2/models/dated/infer"
        assert ask(path, {"inputs": [column("at", "BYTES", "2024-02-29")]})[0] == 200
        for wrong in ("not a date", "11/11/07", ""):
            body = {"inputs": [column("at", "BYTES", "2024-02-29", wrong)]}
            status, answer = ask(path, body)
            assert (status, f'column at: row 1: "{wrong}" is not date' in answer["error"]) == (  # type: ignore[index]
                400,
                True,
            )
