"""CPU cost per request on this machine, measured on briefly served models."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from gpuyard.errors import ExternalError
from gpuyard.home import Home
from gpuyard.learn.bundle import write_model
from gpuyard.learn.fit import fit_data
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.task import TrainTask
from gpuyard.learn.trainer import TabularData, TrainingInputs
from gpuyard.learn.trainers.network_settings import MlpSpec
from gpuyard.learn.trainers.trees.trees_settings import TreesSpec
from gpuyard.learn.training_data import LoadedDataset
from gpuyard.measure.progress import ProgressCallback, silent
from gpuyard.perf.local.profile import ServingProbe
from gpuyard.perf.local.serving import Served, fit_serving
from gpuyard.serving.deploy import deploy, stop
from gpuyard.serving.endpoints import Endpoint
from gpuyard.serving.server import folder_of
from gpuyard.serving.spec import ServedModel, ServerSettings

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
CONNECTIONS, ROUNDS, WARM_UP = 8, 250, 25
# Features, width and layers of networks; features, rounds and leaves of trees.
NETWORKS = ((4, 16, 1), (30, 64, 2), (120, 64, 2), (30, 512, 2), (240, 256, 3))
FORESTS = ((10, 50, 15), (30, 200, 31))
SEED = 5


def work_of(spec: TrainSpec, features: int, classes: int) -> tuple[float, float]:
    """FLOPs per row through a network, and nodes visited in trees."""
    if spec.trees is not None:
        trees = spec.trees.rounds * (classes if classes > 2 else 1)
        return 0.0, trees * float(np.log2(max(2, spec.trees.leaves)))
    mlp = spec.jax_mlp or spec.torch_mlp
    if mlp is None:
        return 0.0, 0.0
    widths = (features, *(mlp.hidden for _ in range(mlp.layers)), max(1, classes))
    return sum(2.0 * a * b for a, b in itertools.pairwise(widths)), 0.0


def measure_serving(on_progress: ProgressCallback = silent) -> ServingProbe:
    """Serve a few models briefly and fit the constants of their cost."""
    models: list[Served] = []
    for spec, features in _specs():
        flop, visits = work_of(spec, features, 2)
        on_progress(f"serving {features} features, {flop:,.0f} flop, {visits:,.0f} nodes")
        models.append(
            Served(values=features, flop=flop, visits=visits, cost_s=served_cost_s(spec, features))
        )
    return fit_serving(models)


def _specs() -> Iterator[tuple[TrainSpec, int]]:
    for features, width, layers in NETWORKS:
        yield TrainSpec(jax_mlp=MlpSpec(hidden=width, layers=layers, batch=64, steps=2)), features
    for features, rounds, leaves in FORESTS:
        yield TrainSpec(trees=TreesSpec(rounds=rounds, leaves=leaves, min_rows=1)), features


def served_cost_s(spec: TrainSpec, features: int) -> float:
    """Train a small model, serve it, and measure the cost per request."""
    rng = np.random.default_rng(SEED)
    x = rng.standard_normal((2000, features), dtype=np.float32)
    names = tuple(f"x{number}" for number in range(features))
    table = TabularData(
        x=x, y=(x[:, 0] > 0).astype(int), names=names, problem="classification", classes=("0", "1")
    )
    with tempfile.TemporaryDirectory(prefix="gpuyard-capacity-") as folder:
        home, task = (
            Home(path=Path(folder) / "home"),
            TrainTask(train=spec, data="", out=folder, name="probe"),
        )
        loaded = LoadedDataset(training=TrainingInputs(train=table), version="", transform=None)
        bundle = write_model(fit_data(spec, table), task, loaded)
        settings = ServerSettings(
            name="probe",
            mounts=(ServedModel(name="probe", folder=str(bundle)),),
            home=str(home.path),
            folder=str(folder_of(home, "probe")),
            port=0,
            follow_s=0.0,
        )
        endpoint = deploy(settings)
        try:
            return request_cost_s(endpoint, "probe", features)
        finally:
            stop(endpoint)


def request_cost_s(endpoint: Endpoint, model: str, features: int, rounds: int = ROUNDS) -> float:
    """CPU seconds of the server per one-row request, at eight concurrent requests."""
    rng = np.random.default_rng(SEED)
    row = [round(float(value), 4) for value in rng.standard_normal(features)]
    body = {"inputs": [{"name": "x", "shape": [1, features], "datatype": "FP32", "data": row}]}
    parts = urlsplit(endpoint.url)
    data = json.dumps(body).encode()
    head = f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: {parts.netloc}\r\n"
    head += "Content-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data
    lines = [
        socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 80), timeout=10.0)
        for _ in range(CONNECTIONS)
    ]
    try:
        _ask(lines, request, WARM_UP)
        before_s = _cpu_s(endpoint.pid)
        _ask(lines, request, rounds)
        return (_cpu_s(endpoint.pid) - before_s) / (rounds * CONNECTIONS)
    finally:
        for line in lines:
            line.close()


def _ask(lines: list[socket.socket], request: bytes, rounds: int) -> None:
    for _ in range(rounds):
        for line in lines:
            line.sendall(request)
        for line in lines:
            _answer(line)


def _answer(line: socket.socket) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _more(line)
    head, _, body = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise ExternalError(
            "serving probe", head.splitlines()[0].decode(errors="replace"), "see the server's log"
        )
    length = next(
        int(item.split(b":")[1])
        for item in head.lower().splitlines()
        if item.startswith(b"content-length")
    )
    while len(body) < length:
        body += _more(line)


def _more(line: socket.socket) -> bytes:
    data = line.recv(65536)
    if not data:
        raise ExternalError(
            "serving probe", "the server closed the connection", "see the server's log"
        )
    return data


def _cpu_s(pid: int) -> float:
    """CPU time of a process and all its descendants."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(folder.name)] = int(
                    (folder / "stat").read_text().rpartition(")")[2].split()[1]
                )
    wanted = {pid}
    while more := {number for number, parent in parents.items() if parent in wanted} - wanted:
        wanted |= more
    total = 0.0
    for number in wanted:
        for thread in Path(f"/proc/{number}/task").glob("*"):
            with contextlib.suppress(OSError):  # it has just ended
                total += _thread_s(thread)
    return total


def _thread_s(folder: Path) -> float:
    """CPU time of a thread, in nanoseconds where the kernel counts them, else in ticks."""
    try:
        return int((folder / "schedstat").read_text().split()[0]) * 1e-9
    except FileNotFoundError:
        words = (folder / "stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / TICKS_PER_S
