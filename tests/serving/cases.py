"""Bundles made on the spot, and servers that are gone when their test is."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from gpuyard.datasets.columns import Column
from gpuyard.datasets.steps.encode import FittedOneHot
from gpuyard.datasets.steps.impute import FillNumbers
from gpuyard.datasets.steps.python import AddedColumn, PythonColumns
from gpuyard.datasets.steps.scale import Affine
from gpuyard.datasets.transform import FittedTransform, TransformRecord, saved_part
from gpuyard.datasets.user_code import digest_of_code
from gpuyard.home import Home
from gpuyard.registry.bundle import ONNX, TRANSFORM, ModelBundle, Tensor, write_bundle
from gpuyard.registry.registry import Registry
from gpuyard.serving.access import management_token
from gpuyard.serving.deploy import deploy, stop
from gpuyard.serving.endpoints import Endpoint, Endpoints
from gpuyard.serving.server import folder_of
from gpuyard.serving.spec import ServedModel, ServerSettings

WIDTH = 4
LONG_S = 120.0  # a ceiling: slow machines are no failure


def write_mlp(
    path: Path, sizes: Sequence[int], *, bias: float = 0.0, seed: int = 0, broken: bool = False
) -> None:
    """A multi-layer perceptron; `bias` moves its first class, `broken` makes its answers NaN."""
    rng = np.random.default_rng(seed)
    nodes, weights, current = [], [], "x"
    for number, (into, out) in enumerate(pairwise(sizes)):
        matrix = (rng.standard_normal((into, out)) / np.sqrt(into)).astype(np.float32)
        offset = np.zeros(out, np.float32)
        last = number == len(sizes) - 2
        if last:
            offset[0] = np.nan if broken else bias
        weights += [
            numpy_helper.from_array(matrix, f"w{number}"),
            numpy_helper.from_array(offset, f"b{number}"),
        ]
        nodes.append(
            helper.make_node("Gemm", [current, f"w{number}", f"b{number}"], [f"g{number}"])
        )
        current = f"g{number}"
        if not last:
            nodes.append(helper.make_node("Relu", [current], [f"r{number}"]))
            current = f"r{number}"
    nodes.append(helper.make_node("Softmax", [current], ["probabilities"], axis=1))
    nodes.append(helper.make_node("ArgMax", ["probabilities"], ["label"], axis=1, keepdims=0))
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", sizes[0]])],
        [
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["n", sizes[-1]]),
            helper.make_tensor_value_info("label", TensorProto.INT64, ["n"]),
        ],
        weights,
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        str(path),
    )


def transform(code: str = "") -> FittedTransform:
    """Two numbers and a text to four features; a missing age becomes 40; `code` adds the last."""
    own = PythonColumns(
        file="steps.py",
        function="add_rome",
        code=code,
        sha256=digest_of_code(code),
        columns=(Column(name="city", dtype="String"), Column(name="income", dtype="Int64")),
        adds=(AddedColumn(name="city=Rome", type="float"),),
    )
    parts = (
        saved_part("impute", FillNumbers(columns=("age",), values=(40.0,))),
        saved_part(
            "zscore", Affine(columns=("age", "income"), shift=(40.0, 1000.0), scale=(10.0, 500.0))
        ),
        *((saved_part("python", own),) if code else ()),
        saved_part(
            "one_hot",
            FittedOneHot(
                column="city", texts=True, categories=("Oslo",) if code else ("Oslo", "Rome")
            ),
        ),
    )
    inputs = (
        Column(name="age", dtype="Float64"),
        Column(name="income", dtype="Int64"),
        Column(name="city", dtype="String"),
    )
    outputs = ("age", "income", "city=Oslo", "city=Rome")
    return FittedTransform(
        TransformRecord(version="t1", inputs=inputs, outputs=outputs, parts=parts)
    )


def bundle(
    folder: Path,
    *,
    columns: bool = False,
    code: str = "",
    sizes: Sequence[int] = (WIDTH, 8, 2),
    **options: object,
) -> Path:
    """A bundle folder; with `columns` or a Python step, the transform stands in front."""
    folder.mkdir(parents=True)
    write_mlp(folder / ONNX, sizes, **options)  # type: ignore[arg-type]
    inputs: tuple[Tensor, ...] = (Tensor(name="x", dtype="float32", shape=(-1, sizes[0])),)
    if columns or code:
        transform(code).save(folder / TRANSFORM)
        inputs = (
            Tensor(name="age", dtype="float64"),
            Tensor(name="income", dtype="int64"),
            Tensor(name="city", dtype="str"),
        )
    outputs = (
        Tensor(name="probabilities", dtype="float32", shape=(-1, sizes[-1])),
        Tensor(name="label", dtype="int64"),
    )
    classes = tuple(f"class {number}" for number in range(sizes[-1]))
    write_bundle(
        folder,
        ModelBundle(
            kind="classification",
            trainer="torch_mlp",
            inputs=inputs,
            outputs=outputs,
            classes=classes,
        ),
    )
    return folder


def register(home: Home, name: str, folder: Path, alias: str = "champion") -> int:
    """Registers a bundle and points an alias at it."""
    version = Registry(home=home).register(name, folder).version
    Registry(home=home).alias(name, alias, version)
    return version


@contextlib.contextmanager
def serving(home: Home, mounts: Sequence[ServedModel], **options: object) -> Iterator[Endpoint]:
    """A server of its own processes, stopped at the end."""
    settings = ServerSettings(
        name="s",
        mounts=tuple(mounts),
        home=str(home.path),
        folder=str(folder_of(home, "s")),
        port=0,
        follow_s=0.2,
    )
    endpoint = deploy(replace(settings, **options))  # type: ignore[arg-type]
    try:
        yield endpoint
    finally:
        stop(Endpoints(home=home).get(endpoint.name), drain_s=5)
    assert "Traceback" not in Path(endpoint.log).read_text(encoding="utf-8")


def management(home: Home) -> dict[str, str]:
    """The headers of a request that changes what is served."""
    return {"Authorization": f"Bearer {management_token(home.path)}"}


class Load:
    """Clients that ask again and again until they are told to stop; every answer is kept."""

    def __init__(self, url: str, model: str, body: bytes, clients: int = 4) -> None:
        self.answers: list[tuple[int, object]] = []
        self.failures: list[str] = []
        self._stop = threading.Event()
        self._body, self._path, self._parts = body, f"/v2/models/{model}/infer", urlsplit(url)
        self._threads = [threading.Thread(target=self._run) for _ in range(clients)]

    def _run(self) -> None:
        assert self._parts.hostname
        link = http.client.HTTPConnection(self._parts.hostname, self._parts.port, timeout=LONG_S)
        while not self._stop.is_set():
            try:
                link.request("POST", self._path, self._body)
                answer = link.getresponse()
                self.answers.append((answer.status, _decoded(answer.read())))
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
                link.close()
        link.close()

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def versions(self) -> dict[str, int]:
        """How many answers each version gave."""
        found: dict[str, int] = {}
        for _, answer in list(self.answers):
            version = answer.get("model_version", "") if isinstance(answer, dict) else ""
            found[version] = found.get(version, 0) + 1
        return found


def until(true: Callable[[], bool], within_s: float = LONG_S) -> None:
    """Waits for something to become true."""
    end = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    """The processes that a process has started; dead ones that it has not reaped are left out."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if fields[1] == str(pid) and fields[0] not in "ZX":
                pids.append(int(path.parent.name))
    return sorted(pids)


def ask(
    url: str, body: object = None, headers: dict[str, str] | None = None, method: str | None = None
) -> tuple[int, object]:
    """Status and decoded body of a request; texts stay texts."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} | (headers or {})
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=LONG_S) as answer:
            return answer.status, _decoded(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, _decoded(error.read())


def _decoded(body: bytes) -> object:
    """JSON where it is JSON."""
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")


def rows(*values: Sequence[float]) -> dict[str, object]:
    """A request with rows of x."""
    flat = [number for row in values for number in row]
    return {
        "inputs": [
            {"name": "x", "shape": [len(values), len(values[0])], "datatype": "FP32", "data": flat}
        ]
    }
