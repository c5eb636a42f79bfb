"""The Open Inference Protocol over gRPC on a real server, with Triton's client and plain stubs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gpuyard.home import Home
from gpuyard.serving.api_keys import add_key
from gpuyard.serving.endpoints import Endpoint
from gpuyard.serving.spec import AccessSpec, LimitSpec, RequestLogSpec, ServedModel

from .cases import ask, bundle, register, rows, serving, until

if os.environ.get("GPUYARD_REQUIRE_ALL") != "1":
    pytest.importorskip("grpc")
    pytest.importorskip("tritonclient.grpc")
import grpc
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from gpuyard.serving.grpc_messages import HEALTH, MESSAGES, SERVICE

ROW = (0.5, -1.0, 2.0, 0.25)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("grpc")


@pytest.fixture(scope="module")
def key(base: Path) -> str:
    return add_key(base / "keys.txt", "test")


@pytest.fixture(scope="module")
def server(base: Path, key: str) -> Iterator[Endpoint]:
    del key  # which is in the file now
    home = Home(path=base / "home")
    register(home, "plain", bundle(base / "plain"))
    register(home, "people", bundle(base / "people", columns=True))
    mounts = tuple(ServedModel(name=name, reference=name) for name in ("plain", "people"))
    with serving(
        home,
        mounts,
        grpc_port=0,
        access=AccessSpec(api_keys=str(base / "keys.txt")),
        limits=LimitSpec(body_bytes=20_000),
        request_log=RequestLogSpec(path=str(base / "requests.jsonl")),
    ) as endpoint:
        yield endpoint


def channel_call(server: Endpoint, method: str, request: object, key: str = "") -> object:
    """Call with plain stubs of grpcio and this project's messages."""
    answer = f"{method}Response"
    with grpc.insecure_channel(server.grpc_url) as channel:
        call = channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=MESSAGES[answer].FromString,
        )
        return call(request, timeout=20, metadata=(("x-api-key", key),) if key else ())


def columns_request() -> object:
    request = MESSAGES["ModelInferRequest"](model_name="people", id="seven")
    age = request.inputs.add(name="age", datatype="FP64", shape=[2])
    age.contents.fp64_contents.extend([40.0, float("nan")])
    income = request.inputs.add(name="income", datatype="INT64", shape=[2])
    income.contents.int64_contents.extend([900, 1000])
    city = request.inputs.add(name="city", datatype="BYTES", shape=[2])
    city.contents.bytes_contents.extend([b"Oslo", b"Rome"])
    return request


def test_field_numbers_are_those_of_the_protocol() -> None:
    for name, message in MESSAGES.items():
        official = getattr(service_pb2, name, None)
        if official is None:
            continue  # the health service
        known = {field.name: field for field in official.DESCRIPTOR.fields}
        for field in message.DESCRIPTOR.fields:
            other = known[field.name]
            assert (field.number, field.type) == (other.number, other.type), f"{name}.{field.name}"
        for nested in message.DESCRIPTOR.nested_types:
            numbers = {field.name: field.number for field in nested.fields}
            theirs = official.DESCRIPTOR.nested_types_by_name[nested.name].fields
            assert numbers == {field.name: field.number for field in theirs}


def test_triton_client_gets_the_answers_of_rest(server: Endpoint, key: str) -> None:
    headers = {"x-api-key": key}
    client = triton.InferenceServerClient(server.grpc_url)
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("plain", headers=headers)
    metadata = client.get_model_metadata("people", headers=headers)
    assert [item.name for item in metadata.inputs] == ["age", "income", "city"]
    assert [item.name for item in metadata.outputs] == ["probabilities", "label", "class"]
    assert client.get_server_metadata(headers=headers).name == "gpuyard"
    x = triton.InferInput("x", [1, 4], "FP32")
    x.set_data_from_numpy(np.array([ROW], np.float32))
    answer = client.infer("plain", [x], headers=headers, request_id="one")
    url = f"{server.url}/v2/models/plain/infer"
    _, rest = ask(url, rows(ROW), headers)
    assert isinstance(rest, dict)
    outputs = {item["name"]: item["data"] for item in rest["outputs"]}
    assert answer.as_numpy("probabilities").ravel().tolist() == pytest.approx(
        outputs["probabilities"]
    )
    assert answer.as_numpy("label").tolist() == outputs["label"]
    assert answer.as_numpy("class").tolist() == [text.encode() for text in outputs["class"]]
    assert answer.get_response().id == "one"
    chosen = [triton.InferRequestedOutput("label")]
    only = client.infer("plain", [x], headers=headers, outputs=chosen, model_version="1")
    assert [item.name for item in only.get_response().outputs] == ["label"]
    client.close()


def test_typed_contents_get_typed_contents(server: Endpoint, key: str) -> None:
    answer = channel_call(server, "ModelInfer", columns_request(), key)
    assert answer.model_version == "1"
    assert answer.id == "seven"
    assert not answer.raw_output_contents
    probabilities, label, name = answer.outputs
    assert list(probabilities.shape) == [2, 2]
    assert len(probabilities.contents.fp32_contents) == 4
    classes = [f"class {index}".encode() for index in label.contents.int64_contents]
    assert list(name.contents.bytes_contents) == classes


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        (lambda request: request.inputs.pop(), "INVALID_ARGUMENT", "missing inputs"),
        (lambda request: request.outputs.add(name="no"), "INVALID_ARGUMENT", "unknown output"),
        (
            lambda request: request.raw_input_contents.append(b"1"),
            "INVALID_ARGUMENT",
            "1 raw_input_contents for 3 inputs",
        ),
        (
            lambda request: setattr(request.inputs[0], "datatype", "FP16"),
            "INVALID_ARGUMENT",
            "raw_input_contents",
        ),
        (
            lambda request: request.inputs[1].contents.int64_contents.append(3),
            "INVALID_ARGUMENT",
            "3 values",
        ),
        (
            lambda request: request.inputs[2].contents.bytes_contents.__setitem__(0, b"\xff"),
            "INVALID_ARGUMENT",
            "not UTF-8",
        ),
        (lambda request: setattr(request, "model_name", "none"), "NOT_FOUND", "not served"),
        (lambda request: setattr(request, "model_version", "7"), "NOT_FOUND", '"7" is not'),
        (
            lambda request: request.inputs[2].contents.bytes_contents.append(b"x" * 30_000),
            "RESOURCE_EXHAUSTED",
            "",
        ),
    ],
)
def test_wrong_calls_have_a_status_and_a_reason(
    server: Endpoint, key: str, change: object, code: str, says: str
) -> None:
    request = columns_request()
    change(request)  # type: ignore[operator]
    with pytest.raises(grpc.RpcError) as caught:
        channel_call(server, "ModelInfer", request, key)
    assert caught.value.code().name == code
    assert says in caught.value.details()


def test_calls_without_a_key_are_refused_except_health(server: Endpoint) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        channel_call(server, "ModelInfer", columns_request())
    assert caught.value.code().name == "UNAUTHENTICATED"
    client = triton.InferenceServerClient(server.grpc_url)
    assert client.is_server_ready()
    with pytest.raises(InferenceServerException, match="API key required"):
        client.get_model_metadata("plain", headers={"x-api-key": "wrong"})
    client.close()
    with grpc.insecure_channel(server.grpc_url) as channel:
        check = channel.unary_unary(
            f"/{HEALTH}/Check",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=MESSAGES["HealthCheckResponse"].FromString,
        )
        assert check(MESSAGES["HealthCheckRequest"](), timeout=20).status == 1


def test_limit_holds_for_the_expanded_message(server: Endpoint, key: str) -> None:
    request = columns_request()
    request.id = "x" * 100_000  # a few hundred bytes when it is compressed
    with grpc.insecure_channel(server.grpc_url, compression=grpc.Compression.Gzip) as channel:
        call = channel.unary_unary(
            f"/{SERVICE}/ModelInfer",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=MESSAGES["ModelInferResponse"].FromString,
        )
        with pytest.raises(grpc.RpcError) as caught:
            call(request, timeout=20, metadata=(("x-api-key", key),))
    assert caught.value.code().name == "RESOURCE_EXHAUSTED"


def test_calls_are_counted_and_logged_with_those_of_rest(
    server: Endpoint, key: str, base: Path
) -> None:
    def counted(code: int) -> int:
        _, text = ask(f"{server.url}/metrics", headers={"x-api-key": key})
        start = f'gpuyard_requests_total{{model="people",version="1",code="{code}"}} '
        lines = [line for line in str(text).splitlines() if line.startswith(start)]
        return int(lines[0].split()[-1]) if lines else 0

    before = counted(200), counted(400)
    channel_call(server, "ModelInfer", columns_request(), key)
    wrong = columns_request()
    wrong.outputs.add(name="no")
    with pytest.raises(grpc.RpcError):
        channel_call(server, "ModelInfer", wrong, key)
    assert (counted(200), counted(400)) == (before[0] + 1, before[1] + 1)
    path = base / "requests.jsonl"
    until(lambda: path.exists() and '"seven"' in path.read_text(encoding="utf-8"))
