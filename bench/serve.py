"""Requests a CPU second of `gpuyard serve` against FastAPI, MLServer, BentoML and Ray Serve.

    python bench/serve.py --fastapi PYTHON --mlserver PYTHON --bentoml PYTHON --ray PYTHON

PYTHON is the interpreter of an environment that holds the server (`pip install onnxruntime` and `fastapi
'uvicorn[standard]'`, `mlserver`, `bentoml` or `'ray[serve]'`); a server without one is left out. All run the same ONNX
model (MLP 16-64-64-2, one thread) on the same bodies of the Open Inference Protocol, one worker on one core, and wrk
(Debian's package) asks from another. Two bodies: `matrix` is a row of 16 features; `columns` is a row of three numbers
and a text, which impute, z-score and one-hot make into 16 features: gpuyard by its fitted transform, the others by the
least NumPy that does the same. CPU time is that of all of a server's processes, from /proc.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from gpuyard.datasets.columns import Column
from gpuyard.datasets.steps.encode import FittedOneHot
from gpuyard.datasets.steps.impute import FillNumbers
from gpuyard.datasets.steps.scale import Affine
from gpuyard.datasets.transform import FittedTransform, TransformRecord, saved_part
from gpuyard.registry.bundle import ONNX, TRANSFORM, ModelBundle, Tensor, write_bundle

PEERS = Path(__file__).parent / "serve_peers"
PORT = 8123
CITIES = tuple(f"city {number}" for number in range(13))
NUMBERS = ("age", "income", "hours")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
SMALL, WIDE = (16, 64, 64, 2), (1024, 4096, 4096, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What wrk and /proc saw."""

    requests: int
    cpu_s: float
    per_s: float
    p50_s: float
    p99_s: float
    errors: int

    @property
    def cpu_us(self) -> float:
        """CPU microseconds of a request."""
        return 1e6 * self.cpu_s / max(1, self.requests)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """How a server is started, and where it takes the body."""

    name: str
    words: tuple[str, ...]
    path: str
    ready: str
    environment: tuple[tuple[str, str], ...] = ()


def write_mlp(path: Path, sizes: Sequence[int]) -> None:
    """The model."""
    rng = np.random.default_rng(0)
    nodes, weights, current = [], [], "x"
    for number, (into, out) in enumerate(pairwise(sizes)):
        matrix = (rng.standard_normal((into, out)) / np.sqrt(into)).astype(np.float32)
        weights += [numpy_helper.from_array(matrix, f"w{number}")]
        weights += [numpy_helper.from_array(np.zeros(out, np.float32), f"b{number}")]
        nodes.append(
            helper.make_node("Gemm", [current, f"w{number}", f"b{number}"], [f"g{number}"])
        )
        current = f"g{number}"
        if number < len(sizes) - 2:
            nodes.append(helper.make_node("Relu", [current], [f"r{number}"]))
            current = f"r{number}"
    nodes.append(helper.make_node("Softmax", [current], ["probabilities"], axis=1))
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", sizes[0]])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["n", sizes[-1]])],
        weights,
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        str(path),
    )


def write_model(folder: Path, sizes: Sequence[int], *, columns: bool) -> Path:
    """A bundle; with `columns` the transform stands in front."""
    folder.mkdir(parents=True)
    write_mlp(folder / ONNX, sizes)
    inputs: tuple[Tensor, ...] = (Tensor(name="x", dtype="float32", shape=(-1, sizes[0])),)
    if columns:
        parts = (
            saved_part("impute", FillNumbers(columns=NUMBERS, values=(40.0, 1000.0, 37.5))),
            saved_part(
                "zscore",
                Affine(columns=NUMBERS, shift=(40.0, 1000.0, 37.5), scale=(10.0, 500.0, 5.0)),
            ),
            saved_part("one_hot", FittedOneHot(column="city", texts=True, categories=CITIES)),
        )
        raw = (
            *(Column(name=name, dtype="Float64") for name in NUMBERS),
            Column(name="city", dtype="String"),
        )
        outputs = (*NUMBERS, *(f"city={city}" for city in CITIES))
        FittedTransform(
            TransformRecord(version="bench", inputs=raw, outputs=outputs, parts=parts)
        ).save(folder / TRANSFORM)
        inputs = (
            *(Tensor(name=name, dtype="float64") for name in NUMBERS),
            Tensor(name="city", dtype="str"),
        )
    classes = tuple(str(number) for number in range(sizes[-1]))
    probabilities = Tensor(name="probabilities", dtype="float32", shape=(-1, sizes[-1]))
    described = ModelBundle(
        kind="classification",
        trainer="torch_mlp",
        inputs=inputs,
        outputs=(probabilities,),
        classes=classes,
    )
    write_bundle(folder, described)
    return folder


def bodies(width: int) -> dict[str, str]:
    """The two bodies."""
    row = np.random.default_rng(1).standard_normal(width).round(3).tolist()
    matrix = [{"name": "x", "shape": [1, width], "datatype": "FP32", "data": row}]
    numbers = [
        {"name": name, "shape": [1], "datatype": "FP64", "data": [value]}
        for name, value in zip(NUMBERS, (31.5, 900.0, 35.0), strict=True)
    ]
    columns = [*numbers, {"name": "city", "shape": [1], "datatype": "BYTES", "data": ["city 3"]}]
    return {"matrix": json.dumps({"inputs": matrix}), "columns": json.dumps({"inputs": columns})}


def processes(root: int) -> set[int]:
    """The process, its descendants and its session."""
    parents: dict[int, tuple[int, int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = (int(fields[1]), int(fields[3]))
    found, grown = {root}, True
    while grown:
        more = {
            pid for pid, (parent, session) in parents.items() if parent in found or session in found
        }
        grown = not more <= found
        found |= more
    return found


def cpu_s(root: int) -> float:
    """CPU time that the server has taken."""
    total = 0
    for pid in processes(root):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total / TICKS_PER_S


@contextmanager
def running(server: Server, folder: Path, cores: str) -> Iterator[int]:
    """The server's process, ready; ended with all that it started."""
    log = (folder / f"{re.sub('[^a-z]', '', server.name.lower())}.log").open("wb")
    process = subprocess.Popen(
        ["taskset", "-c", cores, *server.words],
        cwd=folder,
        env=os.environ | dict(server.environment),
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        end = time.monotonic() + 120
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{PORT}{server.ready}", timeout=2):
                    break
            except OSError as error:
                if getattr(error, "code", 0) in (404, 405, 415, 422):
                    break  # it answers, if only that it does not like a GET
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(
                        f"did not start: {Path(log.name).read_text()[-2000:]}"
                    ) from None
                time.sleep(0.2)
        yield process.pid
    finally:
        whole = processes(process.pid)
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
        for pid in whole - {process.pid}:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait()
        log.close()


def wrk(
    root: int, path: str, body: str, connections: int, seconds: float, folder: Path, cores: str
) -> Load:
    """A load of so many connections for so long."""
    script = folder / "post.lua"
    script.write_text(
        f"wrk.method='POST'\nwrk.headers['Content-Type']='application/json'\nwrk.body=[==[{body}]==]\n"
    )
    before = cpu_s(root)
    words = [
        "taskset",
        "-c",
        cores,
        "wrk",
        "-t1",
        f"-c{connections}",
        f"-d{seconds:g}s",
        "--timeout",
        "10s",
        "--latency",
    ]
    words += ["-s", str(script), f"http://127.0.0.1:{PORT}{path}"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    spent = cpu_s(root) - before
    errors = sum(
        int(count) for count in re.findall(r"(?:3xx responses:|timeout) (\d+)", done.stdout)
    )
    requests = int(re.search(r"(\d+) requests in", done.stdout)[1])  # type: ignore[index]
    per_s = float(re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)[1])  # type: ignore[index]
    return Load(
        requests=requests,
        cpu_s=spent,
        per_s=per_s,
        p50_s=_latency(done.stdout, 50),
        p99_s=_latency(done.stdout, 99),
        errors=errors,
    )


def _latency(text: str, percent: int) -> float:
    """A percentile that wrk printed."""
    found = re.search(rf"{percent}%\s+([\d.]+)(us|ms|s|m)\b", text)
    return (
        float(found[1]) * {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}[found[2]]
        if found
        else float("nan")
    )


def own(folder: Path, rows: int) -> Server:
    """gpuyard itself, with all its checks and counts."""
    words = (
        sys.executable,
        "-m",
        "gpuyard",
        "serve",
        f"m={folder}",
        "--port",
        str(PORT),
        "--home",
        str(folder.parent / "home"),
        "--batch-rows",
        str(rows),
    )
    return Server(name="gpuyard", words=words, path="/v2/models/m/infer", ready="/v2/health/ready")


def peers(arguments: argparse.Namespace, folder: Path) -> Iterator[Server]:
    """The other servers whose interpreter was named."""
    onnx_file = ("MODEL", str(folder / "model" / ONNX))
    common = (onnx_file, ("PYTHONPATH", str(PEERS)))
    port = str(PORT)
    named = (
        ("FastAPI", arguments.fastapi),
        ("MLServer", arguments.mlserver),
        ("BentoML", arguments.bentoml),
        ("Ray Serve", arguments.ray),
    )
    for name, python in named:
        if not python or not Path(python).exists():
            print(f"{name}: left out; name its interpreter with --{name.split()[0].lower()}")
            continue
        if name == "FastAPI":
            words = (
                python,
                "-m",
                "uvicorn",
                "fastapi_app:app",
                "--port",
                port,
                "--no-access-log",
                "--log-level",
                "error",
            )
            yield Server(
                name=name, words=words, path="/v2/models/m/infer", ready="/docs", environment=common
            )
        elif name == "MLServer":
            home = folder / "mlserver" / "m"
            home.mkdir(parents=True, exist_ok=True)
            ports = {"http_port": PORT, "grpc_port": PORT + 1, "metrics_port": PORT + 2}
            settings = ports | {"parallel_workers": 0, "debug": False}
            (home.parent / "settings.json").write_text(json.dumps(settings))
            (home / "model-settings.json").write_text(
                json.dumps({"name": "m", "implementation": "mlserver_runtime.OnnxModel"})
            )
            words = (str(Path(python).parent / "mlserver"), "start", str(home.parent))
            yield Server(
                name=name,
                words=words,
                path="/v2/models/m/infer",
                ready="/v2/models/m/ready",
                environment=common,
            )
        elif name == "BentoML":
            words = (
                str(Path(python).parent / "bentoml"),
                "serve",
                "bento_service:Onnx",
                "--port",
                port,
                "--working-dir",
                str(PEERS),
            )
            yield Server(name=name, words=words, path="/infer", ready="/readyz", environment=common)
        else:
            words = (python, str(PEERS / "ray_serve.py"), port)
            yield Server(
                name=name,
                words=words,
                path="/m",
                ready="/-/healthz",
                environment=(*common, ("RAY_DISABLE_MEMORY_MONITOR", "1")),
            )


def shown(load: Load) -> str:
    """A load in words."""
    errors = f"  {load.errors} errors" if load.errors else ""
    latency = f"p50 {1e3 * load.p50_s:8.2f} ms  p99 {1e3 * load.p99_s:8.2f} ms"
    return f"{load.cpu_us:9.1f} CPU µs/request {load.per_s:9.0f} req/s  {latency}{errors}"


def measured(
    server: Server, arguments: argparse.Namespace, folder: Path
) -> Iterator[tuple[str, int, Load]]:
    """Both bodies at 1, 16 and 64 connections."""
    with running(server, folder, arguments.server_core) as root:
        for kind, body in bodies(SMALL[0]).items():
            wrk(
                root, server.path, body, 16, arguments.seconds, folder, arguments.client_core
            )  # warm
            for connections in (1, 16, 64):
                load = wrk(
                    root,
                    server.path,
                    body,
                    connections,
                    arguments.seconds,
                    folder,
                    arguments.client_core,
                )
                yield kind, connections, load


def compare(arguments: argparse.Namespace, folder: Path) -> None:
    """The table of servers."""
    write_model(folder / "model", SMALL, columns=True)
    found: dict[tuple[str, str, int], Load] = {}
    names = []
    for server in (own(folder / "model", 64), *peers(arguments, folder)):
        try:
            for kind, connections, load in measured(server, arguments, folder):
                found[server.name, kind, connections] = load
                print(f"{server.name:10s} {kind:8s} c={connections:<3d} {shown(load)}", flush=True)
        except RuntimeError as error:
            print(f"{server.name}: left out: {error}")
            continue
        names.append(server.name)
    for kind in ("matrix", "columns"):
        mine = found["gpuyard", kind, 64]
        for name in names[1:]:
            other = found[name, kind, 64]
            print(
                f"{kind:8s} c=64: {other.cpu_us / mine.cpu_us:6.1f} x the requests a CPU second of {name}, "
                f"p99 {1e3 * mine.p99_s:.1f} against {1e3 * other.p99_s:.1f} ms"
            )


def batching(arguments: argparse.Namespace, folder: Path) -> None:
    """What batching gains on a model where it pays."""
    write_model(folder / "wide", WIDE, columns=False)
    body, rates = bodies(WIDE[0])["matrix"], {}
    for rows in (1, 64):
        with running(own(folder / "wide", rows), folder, arguments.server_core) as root:
            wrk(root, "/v2/models/m/infer", body, 64, 1, folder, arguments.client_core)
            load = wrk(
                root,
                "/v2/models/m/infer",
                body,
                64,
                arguments.seconds,
                folder,
                arguments.client_core,
            )
        rates[rows] = load.requests / load.cpu_s
        print(
            f"wide MLP {'-'.join(map(str, WIDE))} c=64, at most {rows:2d} rows a batch: {shown(load)}",
            flush=True,
        )
    print(f"batching gains {rates[64] / rates[1]:.1f} x")


def main() -> None:
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("fastapi", "mlserver", "bentoml", "ray"):
        parser.add_argument(f"--{name}", metavar="PYTHON", help="its interpreter")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement (3)")
    parser.add_argument("--server-core", default="0")
    parser.add_argument("--client-core", default="1")
    parser.add_argument("--only", choices=("compare", "batching"))
    arguments = parser.parse_args()
    for program in ("wrk", "taskset"):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} is not installed: apt-get install wrk util-linux")
    with tempfile.TemporaryDirectory() as name:
        if arguments.only != "batching":
            compare(arguments, Path(name))
        if arguments.only != "compare":
            batching(arguments, Path(name))


if __name__ == "__main__":
    main()
